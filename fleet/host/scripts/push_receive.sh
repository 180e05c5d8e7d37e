# Appends what comes on stdin to a file that an image is gathered in, with the machine's lock: nothing is measured meanwhile.
# $1 nonce  $2 work directory (absolute)  $3 the file's name  $4 its size now, as the sender knows it; 0: begin anew;
# -1: he does not know it
# $5 a word of the sender's  $6 who we are, for whoever finds the machine locked
# Prints one line: "@@<nonce> <answer> [<words>]".
set -u
umask 077
export LC_ALL=C
nonce=$1 workdir=$2 file=$3 offset=$4 word=$5 who=$6
answer() { rm -f "/tmp/fleet.holder.$word"; printf '\n@@%s %s\n' "$nonce" "$*"; exit 0; }
size() { if [ -f "$file" ]; then wc -c <"$file"; else echo 0; fi; }

mkdir -p -m 700 "$workdir" && cd "$workdir" || answer not_writable
take_lock 5
if [ "$offset" -eq 0 ]; then rm -f "$file"; fi
found=$(size)
[ "$found" -eq "$offset" ] || answer moved "$found"
if FLEET_PUSH=$word: cat >>"$file"; then answer received "$(size)"; fi
answer not_written "$(df -Pk . 2>/dev/null | tail -n 1 | { read -r _ _ _ free _; echo "${free:-}"; })"
