# How a job is doing. Prints lines "@@<nonce> <name> <value>".
# $1 nonce  $2 job directory (absolute)
set -u
export LC_ALL=C
say() { printf '\n@@%s %s\n' "$nonce" "$*"; }
nonce=$1
say boot_id "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
cd "$2" 2>/dev/null || { say job absent; exit 0; }
say job present
say stage "$(head -c 32 stage 2>/dev/null)"
if [ -f exit.json ]; then say exit yes; fi
if flock -n alive true 2>/dev/null; then say supervisor dead; else say supervisor alive; fi
say elapsed "$(($(date +%s) - $(head -c 20 started 2>/dev/null || date +%s)))"
say progress "$(head -c 2048 out/progress.json 2>/dev/null | tr '\n' ' ')"
exit 0
