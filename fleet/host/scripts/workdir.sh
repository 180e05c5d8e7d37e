# What the work directory is like. Its file system may not answer: the probe bounds all of this.
# $1 nonce  $2 work directory  $3 sha256 of the payload
# $4 `make`: the work directory is made if it is not there; `look`: nothing is changed
# Prints the sections workdir, disk, inodes and payload.
set -u
umask 077
export LC_ALL=C
workdir=$2 mode=$4 problem=none error=

section() { printf '\n@@%s %s\n' "$nonce" "$*"; }
refuse() { problem=$1 error=${2-}; }

# A directory that somebody else made is never changed: it may be /tmp, or a whole group's.
judge() {
  if [ -L "$workdir" ]; then refuse symlink; return; fi
  if [ -d "$workdir" ]; then :
  elif [ "$mode" = look ]; then
    if [ -e "$workdir" ]; then refuse cannot_create "$workdir is not a directory"
    elif ! [ -w "$there" ]; then refuse cannot_create "$there is not writable"; fi
    return
  elif ! error=$(mkdir -p -m 700 "$workdir" 2>&1); then problem=cannot_create; return
  fi
  if ! [ -O "$workdir" ]; then refuse foreign; return; fi
  if [ "$(cd "$workdir" && pwd -P)" = / ]; then refuse shared; return; fi
  case $(ls -ld "$workdir") in
    ?????w* | ????????w* | ?????????[tT]*) refuse shared; return ;;
  esac
  stranger=$(ls -A "$workdir" 2>/dev/null | grep -v -x -e jobs -e 'payload-.*' -e 'image-.*' -e '\.fleet-[0-9]*' -e lost+found | head -n 1)
  if [ -n "$stranger" ]; then refuse occupied "$stranger"; return; fi
  if [ "$mode" = look ]; then return; fi
  if error=$( (: >"$workdir/.fleet-$$") 2>&1 ); then rm -f "$workdir/.fleet-$$"; else problem=not_writable; fi
}

nonce=$1
# The part of its path that is there already.
there=$workdir
until [ -e "$there" ] || [ -L "$there" ]; do there=${there%/*}; there=${there:-/}; done
judge
section workdir $problem; (cd "$workdir" 2>/dev/null && pwd -P) || printf '%s\n' "$workdir"
printf '%s\n' "$error" | head -n 1 | head -c 400
if [ -d "$workdir" ]; then there=$workdir; fi
section disk; df -Pk "$there" 2>/dev/null | tail -n 1
section inodes; df -Pi "$there" 2>/dev/null | tail -n 1
section payload; sha256sum "$workdir/payload-$3.pyz" 2>/dev/null | head -c 64
exit 0
