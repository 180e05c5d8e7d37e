# Sends a job's files: "@@<nonce> <size> <name>", a line end, the bytes. Regular files only, each cut off at a limit.
# $1 nonce  $2 job directory (absolute)  $3 the most bytes of one file  $4 the number of cells
set -u
export LC_ALL=C
cd "$2" 2>/dev/null || { printf '\n@@%s absent\n' "$1"; exit 0; }
# The payload can put anything in its directory.
send() { # nonce, limit, file
  [ -f "$3" ] && [ ! -L "$3" ] || return 0
  # Not read to be counted: it may be a hole of a terabyte.
  size=$(ls -ldn "$3" | { read -r _ _ _ _ size _; echo "${size:-0}"; })
  if [ "$size" -gt "$2" ]; then size=$2; fi
  printf '\n@@%s %d %s\n' "$1" "$size" "${3#out/}"
  head -c "$size" "$3"
}
for file in exit.json stage launch.err supervise.err log others container.json image.json out/system.json; do
  send "$1" "$3" "$file"
done
cell=0
while [ $cell -lt "$4" ] && [ ! -L out/cells ]; do
  # As %03d, without a process for each of thousands.
  case $cell in ?) name=00$cell ;; ??) name=0$cell ;; *) name=$cell ;; esac
  send "$1" "$3" "out/cells/$name.json"
  cell=$((cell + 1))
done
printf '\n@@%s end\n' "$1"
