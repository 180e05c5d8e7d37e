# What of an image has been gathered on a host: the size of the file, and the sha256 of what is in it.
# $1 nonce  $2 the file (absolute)
set -u
export LC_ALL=C
if [ -f "$2" ] && [ ! -L "$2" ]; then
  printf '\n@@%s gathered %s %s\n' "$1" "$(wc -c <"$2")" "$(sha256sum <"$2" | head -c 64)"
else
  printf '\n@@%s gathered 0\n' "$1"
fi
