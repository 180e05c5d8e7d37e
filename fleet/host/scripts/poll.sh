# How a job is doing. Prints lines "@@<nonce> <name> <value>". As few processes as can be: the machine is being measured.
# $1 nonce  $2 job directory (absolute)
set -u
export LC_ALL=C
nonce=$1
say() { printf '\n@@%s %s\n' "$nonce" "$*"; }
first_line() { line=; { read -r line <"$1"; } 2>/dev/null; }
first_line /proc/sys/kernel/random/boot_id
say boot_id "$line"
cd "$2" 2>/dev/null || { say job absent; exit 0; }
say job present
first_line stage
say stage "$line"
now=
if [ -f exit.json ]; then
  say exit yes
  now=$(date -r exit.json +%s 2>/dev/null)
fi
# Shared, so that two polls do not take each other for the supervisor.
if (exec 8<alive && flock -s -n 8) 2>/dev/null; then say supervisor dead; else say supervisor alive; fi
first_line started
case $line in '' | *[!0-9]*) ;; *) say elapsed "$((${now:-$(date +%s)} - line))" ;; esac
# Written by the payload: it may be a pipe that nobody writes to, or a line without an end.
if [ -f out/progress.json ] && [ ! -L out/progress.json ]; then
  say progress "$(head -c 2048 out/progress.json 2>/dev/null)"
fi
exit 0
