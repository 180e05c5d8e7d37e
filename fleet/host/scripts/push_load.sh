# Loads a file into the engine.
# $1 nonce  $2 work directory (absolute)  $3 the file's name  $4 a word of the sender's  $5 who we are
# $6 seconds to wait for the machine's lock: an earlier one of us may be loading still
# $7 `remove` or `keep`: what becomes of the file when that went well  $8 engine  $9… names of the images
# Prints lines "@@<nonce> <name> [<words>]", and what was found.
set -u
umask 077
export LC_ALL=C
nonce=$1 workdir=$2 file=$3 word=$4 who=$5 wait=$6 after=$7 engine=$8
shift 8
section() { printf '\n@@%s %s\n' "$nonce" "$*"; }
answer() { rm -f "/tmp/fleet.holder.$word"; section "$@"; exit 0; }

cd "$workdir" || answer not_writable
take_lock "$wait"
if [ -f "$file" ]; then
  found=$("$engine" image load --quiet --input "$file" 2>&1)
  status=$?
  # Kept where the fault is not in it, so that it need not be sent again.
  case $status$found in
    0*) [ "$after" = keep ] || rm -f "$file" ;;
    *[Nn]o\ space\ left* | *[Cc]annot\ connect* | *[Pp]ermission\ denied*) ;;
    *) rm -f "$file" ;;
  esac
else
  # By an earlier one of us, whose connection broke.
  found= status=0
fi
# What pushes that were given up have left, and nobody has gone on with for a week.
find . -maxdepth 1 -name 'image-*' -mtime +7 -exec rm -rf {} + 2>/dev/null
section load $status; printf '%s\n' "$found" | tail -c 4096
for name; do
  found=$(timeout -k 2 60 "$engine" image inspect --format '{{.Id}} {{json .RootFS.Layers}}' "$name" 2>&1)
  section image $?; printf '%s\n' "$found" | head -c 16384
done
answer end
