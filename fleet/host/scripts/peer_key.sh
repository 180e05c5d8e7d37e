# Makes the key that a host fetches an image with from another one. It never leaves the host.
# $1 nonce  $2 work directory (absolute)  $3 a word of the sender's
# Prints one line: "@@<nonce> key <type> <key>", or other words: why not.
set -u
umask 077
export LC_ALL=C
nonce=$1 folder=$2/image-$3.d
answer() { printf '\n@@%s %s\n' "$nonce" "$*"; exit 0; }
for tool in ssh ssh-keygen; do command -v $tool >/dev/null 2>&1 || answer missing $tool; done
mkdir -p -m 700 "$2" "$folder" && rm -f "$folder/key" "$folder/key.pub" &&
  ssh-keygen -q -t ed25519 -N '' -C fleet -f "$folder/key" </dev/null >/dev/null 2>&1 || answer not_writable
read -r type key _ <"$folder/key.pub" && answer key "$type" "$key"
answer not_writable
