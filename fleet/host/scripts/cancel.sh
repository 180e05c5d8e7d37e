# Ends a job early; its supervisor then writes exit.json. Safe to repeat.
# $1 nonce  $2 job directory (absolute)  $3 runtime  $4 container name
set -u
export LC_ALL=C
cd "$2" 2>/dev/null || { printf '\n@@%s absent\n' "$1"; exit 0; }
true >cancel
pid=
{ read -r pid <pid; } 2>/dev/null
case $pid in '' | *[!0-9]*) ;; *) kill "$pid" 2>/dev/null ;; esac
case $3 in
  native)
    # It may not heed. Whoever waits for that bears the job's mark too, and goes with the job.
    (FLEET_JOB=${2##*/}: /bin/sh -c 'sleep 10'; kill_marked "FLEET_WORK=${2##*/}:") </dev/null >/dev/null 2>&1 & ;;
  *) "$3" kill "$4" >/dev/null 2>&1 ;;
esac
printf '\n@@%s cancelled\n' "$1"
