# Ends a job early; its supervisor then writes exit.json. Safe to repeat.
# $1 nonce  $2 job directory (absolute)  $3 runtime  $4 container name
set -u
cd "$2" 2>/dev/null || { printf '\n@@%s absent\n' "$1"; exit 0; }
true >cancel
pid=$(head -c 20 pid 2>/dev/null)
case $pid in '' | *[!0-9]*) ;; *) kill "$pid" 2>/dev/null ;; esac
case $3 in native) ;; *) "$3" kill "$4" >/dev/null 2>&1 ;; esac
printf '\n@@%s cancelled\n' "$1"
