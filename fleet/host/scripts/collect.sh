# Sends a job's files: "@@<nonce> <size> <name>", a line end, the bytes. Regular files only, each cut off at a limit.
# $1 nonce  $2 job directory (absolute)  $3 the most bytes of one file
set -u
export LC_ALL=C
cd "$2" 2>/dev/null || { printf '\n@@%s absent\n' "$1"; exit 0; }
for file in exit.json stage launch.err supervise.err log container.json image.json out/system.json out/cells/*.json; do
  if [ -f "$file" ] && [ ! -L "$file" ]; then
    size=$(wc -c <"$file")
    if [ "$size" -gt "$3" ]; then size=$3; fi
    printf '\n@@%s %d %s\n' "$1" "$size" "${file#out/}"
    head -c "$size" "$file"
  fi
done
printf '\n@@%s end\n' "$1"
