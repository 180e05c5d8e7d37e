# Put before the scripts that take the machine's lock or say who has it.

# Prints the text of job $1's link, or of the newest one. It leads nowhere, and is read without opening what anybody may
# have put there. With -l, because busybox's ls looks for what it leads to otherwise.
find_holder() { ls -tdl /tmp/fleet.holder.${1:-*} 2>/dev/null | sed -n '1s/^[^>]* -> //p' | head -c 400; }

# One lock per machine, whoever the user is. As descriptor 9, or answers why not.
open_lock() {
  lock=/tmp/fleet.lock
  # Only ever opened for reading, which a sticky /tmp allows everyone.
  [ -e "$lock" ] || [ -L "$lock" ] || (umask 0; set -C; : >"$lock") 2>/dev/null
  # A name in /tmp may be anybody's: a pipe would hold us for ever.
  [ -f "$lock" ] && [ ! -L "$lock" ] && [ -r "$lock" ] || answer lock_unreadable "$lock"
  exec 9<"$lock"
}
# After open_lock, at once. Whoever comes after the file was removed locks another: ours must be the one that is there.
try_lock() {
  while flock -n 9; do
    if [ "$lock" -ef "/proc/$$/fd/9" ]; then return 0; fi
    open_lock
  done
  return 1
}
# Shared and for a moment: it keeps nobody from starting. A file that may not be read is no lock that is held.
is_locked() {
  [ -f /tmp/fleet.lock ] && [ ! -L /tmp/fleet.lock ] || return
  [ -n "$({ flock -n -s 9 || echo held; } 9</tmp/fleet.lock)" ]
} 2>/dev/null

