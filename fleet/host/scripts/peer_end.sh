# Ends what a transfer between hosts has left: processes, keys, and a file.
# $1 nonce  $2 work directory (absolute)  $3 the transfer's word  $4 the file's name; empty: it stays
set -u
export LC_ALL=C
kill_marked "FLEET_PUSH=$3:"
kill_named "$2/image-$3.d/config"
rm -rf "$2/image-$3.d"
if [ -n "$4" ]; then rm -f "$2/$4"; fi
printf '\n@@%s ended\n' "$1"
