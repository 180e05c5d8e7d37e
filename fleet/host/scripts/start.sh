# Claims the job, stores spec and payload, takes the machine's lock and leaves a supervisor behind. Safe to repeat.
# $1 nonce  $2 work directory (absolute)  $3 job id  $4 payload's sha256  $5 payload's size in bytes, 0 when it is here already
# $6 spec's size in bytes  $7 who we are, for whoever finds the machine locked  $8 text of supervise.sh  $9… its arguments after the job directory
# stdin: the spec, then the payload. Prints one line: "@@<nonce> <answer> [<words>]".
set -u
umask 077
export LC_ALL=C
nonce=$1 workdir=$2 id=$3 sha=$4 size=$5 spec_size=$6 holder=$7 supervisor=$8
shift 8
job=$workdir/jobs/$id payload=$workdir/payload-$sha.pyz lock=/tmp/fleet.lock

answer() { printf '\n@@%s %s\n' "$nonce" "$*"; exit 0; }
refuse() { # why a write failed: no space, or something else
  free=$(df -Pk "$workdir" 2>/dev/null | tail -n 1 | { read -r _ _ _ free _; echo "${free:-}"; })
  rm -rf "$job" "$payload.tmp.$$"
  if [ "${free:-1024}" -lt 1024 ]; then answer disk_full "$free"; fi
  answer "$@"
}

mkdir -p "$workdir/jobs" || answer not_writable
# mkdir is the claim: whoever comes second finds the job started and only watches it, unless its supervisor is gone.
if mkdir "$job" 2>/dev/null; then
  mkdir "$job/out" || refuse not_writable
  # One byte at a time: anything else may read past the spec into the payload.
  dd bs=1 count="$spec_size" of="$job/spec.json" 2>/dev/null
  [ "$(wc -c <"$job/spec.json")" -eq "$spec_size" ] || refuse not_written spec
  printf '%s\n' "$supervisor" >"$job/supervise.sh" || refuse not_written supervisor
  if [ "$size" -gt 0 ]; then
    cat >"$payload.tmp.$$" 2>/dev/null || refuse not_written payload
    found=$(sha256sum "$payload.tmp.$$" | head -c 64)
    [ "$found" = "$sha" ] || refuse corrupt "$found"
    chmod 444 "$payload.tmp.$$" && mv -f "$payload.tmp.$$" "$payload" || refuse not_written payload
  fi
  [ -f "$payload" ] || refuse not_written payload
  # The container's user is ours, but for root: nobody reads the spec and writes the results.
  chmod 444 "$job/spec.json"
  if [ "$(id -u)" -eq 0 ]; then chown 65534:65534 "$job/out" || refuse not_writable; fi
  fresh=yes
else
  [ -d "$job" ] || answer not_writable
  [ -f "$job/exit.json" ] && answer attached
  fresh=no
fi

# One lock per machine, whoever the user is. The file is only ever opened for reading, which a sticky /tmp allows everyone.
[ -e "$lock" ] || (umask 0; set -C; : >"$lock") 2>/dev/null
# A name in /tmp may be anybody's: a pipe would hold us for ever.
[ -f "$lock" ] && [ ! -L "$lock" ] && [ -r "$lock" ] || refuse lock_unreadable "$lock"
exec 9<"$lock"
if ! flock -n 9; then
  [ $fresh = no ] && answer attached
  rm -rf "$job"
  answer busy "$(cat /tmp/fleet.holder.* 2>/dev/null | head -n 1 | head -c 400)"
fi
rm -f "/tmp/fleet.holder.$(id -u)"
(umask 022; set -C; printf '%s\n' "$holder" >"/tmp/fleet.holder.$(id -u)") 2>/dev/null

setsid /bin/sh "$job/supervise.sh" "$job" "$@" </dev/null >/dev/null 2>"$job/supervise.err" &
if [ $fresh = yes ]; then answer started; else answer adopted; fi
