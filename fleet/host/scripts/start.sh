# Takes the machine's lock, stores spec and payload, and leaves a supervisor behind. Safe to repeat, at any time.
# $1 nonce  $2 work directory (absolute)  $3 job id  $4 payload's sha256  $5 payload's size in bytes, 0 when it is here
# already  $6 spec's size in bytes  $7 who we are, for whoever finds the machine locked  $8 text of the supervisor
# $9… its arguments after the job directory
# stdin: the spec, then the payload. Prints one line: "@@<nonce> <answer> [<words>]".
set -u
umask 077
export LC_ALL=C
nonce=$1 workdir=$2 id=$3 sha=$4 size=$5 spec_size=$6 holder=$7 supervisor=$8
shift 8
job=$workdir/jobs/$id payload=$workdir/payload-$sha.pyz

answer() { printf '\n@@%s %s\n' "$nonce" "$*"; exit 0; }
refuse() { # why a write failed: no space, or something else
  free=$(df -Pk "$workdir" 2>/dev/null | tail -n 1 | { read -r _ _ _ free _; echo "${free:-}"; })
  rm -rf "$job" "$payload".tmp.* "/tmp/fleet.holder.$id"
  rmdir "$workdir/jobs" 2>/dev/null
  if [ "${free:-1024}" -lt 1024 ]; then answer disk_full "$free"; fi
  answer "$@"
}

# The jobs at work on this machine, by id. It is the one that has our /tmp: an engine may serve several.
list_containers() {
  command -v docker >/dev/null 2>&1 || return
  timeout -s KILL 5 docker ps --filter "label=fleet.tmp=$(stat -c %d:%i /tmp/)" --format '{{.Label "fleet.job"}}'
}
list_workers() {
  grep -ls 'FLEET_JOB=' /proc/[0-9]*/environ | while read -r place; do
    process=${place%/environ}
    # What does the work has the lock; a watchdog, or what hangs in a driver after the end, does not.
    if [ -e "$process/fd/9" ] && [ "$process/root/tmp/" -ef /tmp/ ]; then
      tr '\0' '\n' <"$place" | sed -n 's/^FLEET_JOB=\(.*\):$/\1/p'
    fi
  done
}
# Who measures here though the lock is free: it was removed, or what held it was killed and the container goes on.
find_lockless() {
  { list_workers; list_containers; } </dev/null 2>/dev/null 9<&- | while read -r other; do
    case $other in "$id" | '' | *[!A-Za-z0-9-]*) continue ;; esac
    name=$(find_holder "$other")
    echo "${name:-fleet job $other}"
    break
  done
}

# Only with the machine's lock. What is there already was left by a start that was cut off.
prepare() {
  rm -rf "$job"
  mkdir -p "$job/out" || refuse not_writable
  # One byte at a time: anything else may read past the spec into the payload.
  dd bs=1 count="$spec_size" of="$job/spec.json" 2>/dev/null || refuse not_written spec
  [ "$(wc -c <"$job/spec.json")" -eq "$spec_size" ] || refuse not_received spec
  if [ "$size" -gt 0 ]; then
    cat >"$payload.tmp.$$" 2>/dev/null || refuse not_written payload
    [ "$(wc -c <"$payload.tmp.$$")" -eq "$size" ] || refuse not_received payload
    found=$(sha256sum "$payload.tmp.$$" | head -c 64)
    [ "$found" = "$sha" ] || refuse corrupt "$found"
    chmod 444 "$payload.tmp.$$" && mv -f "$payload.tmp.$$" "$payload" || refuse not_written payload
  fi
  # Its time says when it was last used.
  touch -c "$payload" 2>/dev/null
  # It was here when the host was probed, and somebody has cleaned up since.
  [ -f "$payload" ] || refuse payload_gone
  # The container's user is ours, but for root: nobody reads the spec and writes the results.
  chmod 444 "$job/spec.json"
  if [ "$(id -u)" -eq 0 ]; then chown 65534:65534 "$job/out" || refuse not_writable; fi
  # How it ended must fit even on a disk that is full by then; so should its log, in the place of the reserve.
  printf '%1023s\n' '' >"$job/exit.tmp" && echo none >"$job/status" && : >"$job/alive" &&
    head -c 307200 /dev/zero >"$job/reserve" 2>/dev/null || refuse not_written record
  # The last of all: where it is, all is.
  printf '%s\n' "$supervisor" >"$job/supervise.tmp" && mv "$job/supervise.tmp" "$job/supervise.sh" ||
    refuse not_written supervisor
}

[ -f "$job/exit.json" ] && answer attached
open_lock
tries=0
until try_lock; do
  # A started job's own payload may hold it, though nobody watches it any more: the new supervisor waits for its end.
  [ ! -f "$job/supervise.sh" ] || break
  # Or a start of this job that is still receiving, on a connection that we have given up.
  tries=$((tries + 1))
  if [ $tries -gt 20 ] || { [ $tries -gt 1 ] && [ ! -d "$job" ]; }; then answer busy "$(find_holder)"; fi
  sleep 1
done
[ -f "$job/exit.json" ] && answer attached
if [ ! -f "$job/supervise.sh" ]; then
  other=$(find_lockless)
  [ -z "$other" ] || answer busy "$other"
fi
rm -f "/tmp/fleet.holder.$id"
[ -L "/tmp/fleet.holder.$id" ] || ln -s "$holder" "/tmp/fleet.holder.$id" 2>/dev/null
fresh=attached
if [ ! -f "$job/supervise.sh" ]; then prepare; fresh=started; fi
exec 8>>"$job/alive"
if ! flock -n 8; then
  [ $fresh = attached ] || refuse not_lockable
  answer attached
fi

FLEET_JOB=$id: setsid /bin/sh "$job/supervise.sh" "$job" "$@" </dev/null >/dev/null 2>>"$job/supervise.err" &
if [ $fresh = started ]; then answer started; else answer adopted; fi
