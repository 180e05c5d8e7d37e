# Put before the scripts that need the machine's lock for as long as they run, after `processes` and `holder`.

# Returns with the lock, or answers why not. $1 seconds to wait for it. Uses $word, $who and answer.
take_lock() {
  lock=/tmp/fleet.lock
  # Only ever opened for reading, which a sticky /tmp allows everyone.
  [ -e "$lock" ] || [ -L "$lock" ] || (umask 0; set -C; : >"$lock") 2>/dev/null
  # A name in /tmp may be anybody's: a pipe would hold us for ever.
  [ -f "$lock" ] && [ ! -L "$lock" ] && [ -r "$lock" ] || answer lock_unreadable "$lock"
  exec 9<"$lock"
  left=$1
  until flock -n 9; do
    # One of this sender's whose connection is dead: it would wait for its bytes until TCP gives up.
    if [ "$left" -eq "$1" ]; then kill_marked "FLEET_PUSH=$word:"; fi
    [ "$left" -gt 0 ] || answer busy "$(find_holder)"
    left=$((left - 1))
    sleep 1
  done
  [ -L "/tmp/fleet.holder.$word" ] || ln -s "$who" "/tmp/fleet.holder.$word" 2>/dev/null
}
