# Serves one file to one other host: an sshd of the user's own, on a port and with a host key of its own. It lets one key
# in, does nothing but print parts of the file, and ends by itself when its time is up.
# $1 nonce  $2 work directory (absolute)  $3 the file's name  $4 a word of this transfer  $5 seconds it may take
# $6 the key that is let in, "TYPE KEY"  $7… ports to try
# Prints one line: "@@<nonce> serving <address> <port> <user> <host key's type> <host key>", or other words: why not.
set -u
umask 077
export LC_ALL=C
nonce=$1 workdir=$2 file=$3 word=$4 limit=$5 key=$6
folder=$workdir/image-$word.d
shift 6
answer() { printf '\n@@%s %s\n' "$nonce" "$*"; exit 0; }
give_up() { kill_named "$folder/config"; rm -rf "$folder"; answer "$@"; }

# Where the controller has reached us, as we see it: others are more likely to reach that than a name.
address=$(echo "${SSH_CONNECTION:-}" | { read -r _ _ address _; echo "${address:-}"; })
[ -n "$address" ] || answer no_address
case $address in *:*) family=inet6 ;; *) family=inet ;; esac
sshd=$(PATH=$PATH:/usr/sbin:/usr/local/sbin:/sbin; command -v sshd) || answer missing sshd
command -v ssh-keygen >/dev/null 2>&1 || answer missing ssh-keygen
rm -rf "$folder"
mkdir -m 700 "$folder" && cd "$folder" || answer not_writable
ssh-keygen -q -t ed25519 -N '' -C fleet -f host_key </dev/null >/dev/null 2>&1 || give_up not_writable
printf 'restrict %s\n' "$key" >keys || give_up not_writable
# Asked for: where the part begins, how long it is, and a word to say before it, for login shells that say something first.
cat >part <<'PART'
set -f
file=$1
set -- ${SSH_ORIGINAL_COMMAND:-}
case $# in 3) ;; *) exit 2 ;; esac
case $1$2 in *[!0-9]*) exit 2 ;; esac
case $3 in *[!0-9a-f]*) exit 2 ;; esac
printf '\n%s\n' "$3"
tail -c "+$(($1 + 1))" "$file" | head -c "$2"
PART
for port; do
  cat >config <<CONFIG
Port $port
AddressFamily $family
HostKey "$folder/host_key"
AuthorizedKeysFile "$folder/keys"
AuthenticationMethods publickey
AllowUsers $(id -un)
ForceCommand exec /bin/sh '$folder/part' '$workdir/$file'
AllowTcpForwarding no
AllowStreamLocalForwarding no
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
PermitTTY no
PermitUserRC no
UsePAM no
StrictModes no
PidFile none
PrintMotd no
LoginGraceTime 20
CONFIG
  timeout "$limit" "$sshd" -D -e -f "$folder/config" </dev/null >log 2>&1 &
  for try in 1 2 3 4 5; do
    if grep -q 'listening on' log; then
      read -r type host_key _ <host_key.pub
      answer serving "$address" "$port" "$(id -un)" "$type" "$host_key"
    fi
    kill -0 $! 2>/dev/null || break
    sleep 1
  done
done
give_up no_sshd "$(tail -n 1 log)"
