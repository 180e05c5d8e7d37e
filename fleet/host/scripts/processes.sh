# Put before the scripts that end processes.

# Kills every process that has $1 in its environment, but not this shell. The payload's children start sessions of their
# own, so that no process group holds them all; the environment they all inherit. $1 is NAME=VALUE: with nothing special
# to grep (busybox's reads past a zero byte only without -F), and a colon at its end, so that job 1 is not job 12.
kill_marked() {
  mark=$1
  for pass in 1 2 3; do
    set -- /proc/[0-9]*/environ
    found=$(grep -ls "$mark" "$@")
    for process in $found; do
      process=${process#/proc/}
      process=${process%/environ}
      [ "$process" = "$$" ] || kill -9 "$process" 2>/dev/null
    done
    # One that was just being started may have been missed.
    [ -n "$found" ] || return 0
  done
}
