# Sees one job to its end on the host, connection or no connection, and writes exit.json last.
# $1 job directory  $2 runtime  $3 container name  $4 image  $5 deadline of the job in seconds  $6 deadline of the pull  $7… the command
# Holds the machine's lock as descriptor 9. Started again after it was killed, it takes up what it finds.
set -u
umask 077
export LC_ALL=C
job=$1 runtime=$2 name=$3 image=$4 deadline=$5 pull_deadline=$6
shift 6
cd "$job" || exit 1
trap '' HUP
exec 8>alive
# A poll that looks whether we live holds the lock for a moment.
flock -n 8 || { sleep 1; flock -n 8; } || exit 0

stage=launch
enter() { stage=$1; printf '%s\n' "$1" >stage.tmp && mv -f stage.tmp stage; }
# After $1 seconds: leave the word, then do the rest. Never holds a lock.
watch() { (exec 8>&- 9<&-; sleep "$1"; true >deadline; shift; "$@") >/dev/null 2>&1 & watchdog=$!; }
# Its sleep is a child of its own: it goes when the group goes, and finds nothing to do if it comes first.
unwatch() { kill "$watchdog" 2>/dev/null; }
number() { case $1 in '' | *[!0-9]*) echo null ;; *) echo "$1" ;; esac; }

finish() { # $1 reason  $2 exit status
  if [ -e cancel ]; then set -- cancelled "$2"; elif [ -e deadline ]; then set -- deadline "$2"; fi
  sync "$job"/out/cells/* 2>/dev/null
  printf '{"schema":"fleet.exit/1","job_id":"%s","stage":"%s","reason":"%s","exit_status":%s,"started_unix_s":%s,"finished_unix_s":%s,"boot_id":"%s"}\n' \
    "${job##*/}" "$stage" "$1" "$(number "$2")" "$(number "$(cat started 2>/dev/null)")" "$(date +%s)" \
    "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)" >exit.tmp
  sync exit.tmp 2>/dev/null
  mv -f exit.tmp exit.json
  rm -f "/tmp/fleet.holder.$(id -u)"
  # What is left of us is a watchdog's sleep.
  trap '' TERM
  kill -TERM 0
  exit 0
}

wait_for_container() {
  enter run
  watch "$deadline" "$runtime" kill "$name"
  status=$("$runtime" wait "$name" 2>wait.err 8>&-) || status=
  unwatch
  "$runtime" inspect --format '{{json .State}}' "$name" >container.json 2>/dev/null
  "$runtime" image inspect --format '{"id":{{json .Id}},"repo_digests":{{json .RepoDigests}}}' \
    "$("$runtime" inspect --format '{{.Image}}' "$name" 2>/dev/null)" >image.json 2>/dev/null
  "$runtime" logs "$name" 2>&1 | tail -c 262144 >log
  [ -n "$status" ] && [ -s container.json ] || finish gone ''
  finish exited "$status"
}

run_in_container() {
  "$runtime" inspect "$name" >/dev/null 2>&1 && wait_for_container
  if ! "$runtime" image inspect "$image" >/dev/null 2>&1; then
    enter pull
    "$runtime" pull -q "$image" >pull.out 2>launch.err 8>&- 9<&- &
    child=$!
    echo $child >pid
    watch "$pull_deadline" kill $child
    wait $child
    status=$?
    unwatch
    rm -f pid
    [ $status -eq 0 ] || finish pull_failed $status
  fi
  [ -e cancel ] && finish cancelled ''
  enter launch
  date +%s >started
  "$runtime" run -d --name "$name" "$@" >container.id 2>launch.err 8>&- 9<&-
  status=$?
  if [ $status -ne 0 ]; then
    "$runtime" rm -f "$name" >/dev/null 2>&1
    finish launch_failed $status
  fi
  [ -e cancel ] && "$runtime" kill "$name" >/dev/null 2>&1
  wait_for_container
}

# The process keeps descriptor 9: as long as it lives the machine is taken, even if we are killed.
run_native() {
  enter run
  [ -e started ] && finish gone ''
  date +%s >started
  "$@" </dev/null >log 2>&1 8>&- &
  child=$!
  echo $child >pid
  watch "$deadline" sh -c 'kill "$1"; sleep 10; kill -9 "$1"' sh $child
  wait $child
  status=$?
  rm -f pid
  unwatch
  finish exited $status
}

case $runtime in native) run_native "$@" ;; *) run_in_container "$@" ;; esac
