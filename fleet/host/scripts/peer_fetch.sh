# Appends a part of an image that another host serves to the file that it is gathered in, with the machine's lock.
# $1 nonce  $2 work directory (absolute)  $3 the file's name  $4 its size now  $5 a word of the sender's  $6 who we are
# $7 bytes to fetch  $8 address, port, user and host key of who serves it, with blanks between
# Prints one line: "@@<nonce> <answer> [<words>]".
set -u
umask 077
export LC_ALL=C
nonce=$1 workdir=$2 file=$3 offset=$4 word=$5 who=$6 length=$7 server=$8
folder=$workdir/image-$word.d
answer() { rm -f "/tmp/fleet.holder.$word"; printf '\n@@%s %s\n' "$nonce" "$*"; exit 0; }
size() { if [ -f "$file" ]; then wc -c <"$file"; else echo 0; fi; }

cd "$workdir" || answer not_writable
take_lock 5
found=$(size)
[ "$found" -eq "$offset" ] || answer moved "$found"
set -f
set -- $server
printf 'fleet-peer %s %s\n' "$4" "$5" >"$folder/known_hosts" || answer not_writable
FLEET_PUSH=$word: ssh -F /dev/null -T -i "$folder/key" -p "$2" -c aes128-gcm@openssh.com \
  -o IdentitiesOnly=yes -o IdentityAgent=none -o BatchMode=yes -o ClearAllForwardings=yes -o ConnectTimeout=10 \
  -o ServerAliveInterval=15 -o StrictHostKeyChecking=yes -o HostKeyAlias=fleet-peer -o CheckHostIP=no \
  -o "UserKnownHostsFile=\"$folder/known_hosts\"" -o GlobalKnownHostsFile=/dev/null \
  "$3@$1" "$offset $length $nonce" </dev/null 2>"$folder/said" | {
  while IFS= read -r line && [ "$line" != "$nonce" ]; do :; done
  FLEET_PUSH=$word: cat >>"$file"
}
now=$(size)
if [ "$now" -gt "$offset" ]; then answer received "$now"; fi
answer not_fetched "$(tail -n 1 "$folder/said" | head -c 300)"
