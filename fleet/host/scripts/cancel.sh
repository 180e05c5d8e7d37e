# Ends a job early; its supervisor then writes exit.json. Safe to repeat.
# $1 nonce  $2 job directory (absolute)  $3 runtime  $4 container name
set -u
export LC_ALL=C
cd "$2" 2>/dev/null || { printf '\n@@%s absent\n' "$1"; exit 0; }
true >cancel
pid=
{ read -r pid <pid; } 2>/dev/null
case $pid in '' | *[!0-9]*) ;; *) kill "$pid" 2>/dev/null ;; esac
# It may not heed, nor may the engine's client. Whoever waits for that bears the job's mark too, and goes with the job.
case $3 in
  native) end='sleep 10' ;;
  *) end='if timeout -s KILL 10 "$0" kill "$1"; then sleep 5; else sleep 3; fi' ;;
esac
(FLEET_JOB=${2##*/}: /bin/sh -c "$end" "$3" "$4"; kill_marked "FLEET_WORK=${2##*/}:") </dev/null >/dev/null 2>&1 &
printf '\n@@%s cancelled\n' "$1"
