# Put before the scripts that end processes.

# Kills every process that has $1 in its environment, but not this shell. The payload's children start sessions of their
# own, so that no process group holds them all; the environment they all inherit. $1 is NAME=VALUE: with nothing special
# to grep (busybox's reads past a zero byte only without -F), and a colon at its end, so that job 1 is not job 12.
kill_marked() { kill_where environ "$1"; }

# The same by the command line: sshd writes its title over its environment.
kill_named() { kill_where cmdline "$1"; }

kill_where() { # name of a file in /proc/PID, what is in it
  place=$1 mark=$2
  for pass in 1 2 3; do
    set -- /proc/[0-9]*/"$place"
    found=$(grep -ls "$mark" "$@")
    for process in $found; do
      process=${process#/proc/}
      process=${process%/*}
      [ "$process" = "$$" ] || kill -9 "$process" 2>/dev/null
    done
    # One that was just being started may have been missed.
    [ -n "$found" ] || return 0
  done
}
