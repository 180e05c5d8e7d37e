# Put before the scripts that need the machine's lock for as long as they run, after `processes` and `holder`.

# Returns with the lock, or answers why not. $1 seconds to wait for it. Uses $word, $who and answer.
take_lock() {
  open_lock
  left=$1
  until try_lock; do
    # One of this sender's whose connection is dead: it would wait for its bytes until TCP gives up.
    if [ "$left" -eq "$1" ]; then kill_marked "FLEET_PUSH=$word:"; fi
    [ "$left" -gt 0 ] || answer busy "$(find_holder)"
    left=$((left - 1))
    sleep 1
  done
  [ -L "/tmp/fleet.holder.$word" ] || ln -s "$who" "/tmp/fleet.holder.$word" 2>/dev/null
}
