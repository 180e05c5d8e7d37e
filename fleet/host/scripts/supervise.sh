# Sees one job to its end on the host, connection or no connection, and writes exit.json last.
# $1 job directory  $2 runtime  $3 container name  $4 image  $5 deadline of the job in seconds  $6 deadline of the pull
# $7… the command
# Descriptor 8 is the lock `alive`: one supervisor a job. Descriptor 9 is the machine's lock: what does the job's work
# inherits it, so that the machine is taken for as long as any of it lives, even if we are killed. Started again after
# that, a supervisor takes up what it finds.
set -u
umask 077
export LC_ALL=C
job=$1 runtime=$2 name=$3 image=$4 deadline=$5 pull_deadline=$6
shift 6
cd "$job" || exit 1
trap '' HUP
id=${job##*/} stage=launch watchdog=

enter() { stage=$1; printf '%s\n' "$1" >stage.tmp && mv -f stage.tmp stage; }
number() { case $1 in '' | *[!0-9]*) echo null ;; *) echo "$1" ;; esac; }
first_line() { line=; { read -r line <"$1"; } 2>/dev/null; printf '%s' "$line"; }

# The engine's client may hang: what the job waits for bears its mark, so that the deadline and a cancel end it.
engine() { FLEET_WORK=$id: "$runtime" "$@" 8>&-; }
# The same, for at most $1 seconds.
engine_within() {
  limit=$1
  shift
  FLEET_WORK=$id: timeout -s KILL "$limit" "$runtime" "$@" 8>&-
}
# A question about a job that is over. One that was not answered in time is the last: the ending must not wait for it.
ask() {
  [ ! -e silent ] || return 124
  timeout -s KILL "$@" 8>&-
  asked=$?
  case $asked in 124 | 137) true >silent ;; esac
  return $asked
}

end_work() {
  pid=$(first_line pid)
  [ -z "$pid" ] || kill "$pid"
  case $runtime in
    native) sleep 10 ;;
    # Whoever waits for the container then sees its end; one that is just being started is waited for.
    *) if timeout -s KILL 10 "$runtime" kill "$name"; then sleep 5; else sleep 3; fi ;;
  esac
  kill_marked "FLEET_WORK=$id:"
}
# After $1 seconds: leave the word, then end the work. Takes the place of the watch before it.
watch() {
  [ -z "$watchdog" ] || kill "$watchdog" 2>/dev/null
  # It holds no lock. The `sleep` of one that was killed goes with the job.
  (exec 8>&- 9<&-; sleep "$1"; true >deadline; end_work) </dev/null >/dev/null 2>&1 &
  watchdog=$!
}

finish() { # $1 reason  $2 exit status
  if [ -e cancel ]; then set -- cancelled "$2"; elif [ -e deadline ]; then set -- deadline "$2"; fi
  # Some shells tell of every process of theirs that was killed.
  exec 2>/dev/null
  kill_marked "FLEET_JOB=$id:"
  rm -f "/tmp/fleet.holder.$id"
  boot_id=$(first_line /proc/sys/kernel/random/boot_id)
  record='{"schema":"fleet.exit/1","job_id":"%s","stage":"%s","reason":"%s","exit_status":%s,'
  record=$record'"started_unix_s":%s,"finished_unix_s":%s,"boot_id":"%s"}'
  record=$(printf "$record" "$id" "$stage" "$1" "$(number "$2")" "$(number "$(first_line started)")" "$(date +%s)" "$boot_id")
  # Into blocks that are there since the start, so that a full disk does not cost the ending.
  printf '%-1023s\n' "$record" | dd of=exit.tmp conv=notrunc,fsync 2>/dev/null
  # Whoever sees exit.json finds the machine free.
  exec 9<&-
  mv -f exit.tmp exit.json
  exit 0
}

find_state() { engine_within 30 container inspect --format '{{.State.Status}}' "$name" 2>/dev/null; }

fail_launch() { # $1 reason  $2 exit status
  case $2 in 124 | 137) [ -s launch.err ] || echo 'the container engine did not answer in time' >launch.err ;; esac
  finish "$1" "$2"
}

pull_image() {
  enter pull
  watch "$pull_deadline"
  # A cancel that found nothing to end.
  [ ! -e cancel ] || finish cancelled ''
  engine pull -q "$image" >pull.out 2>launch.err
  status=$?
  [ $status -eq 0 ] || fail_launch pull_failed $status
}

launch() { # the engine's words that start the container
  [ -e cancel ] && finish cancelled ''
  enter launch
  date +%s >started
  watch "$deadline"
  engine_within 600 "$@" >container.id 2>launch.err
  status=$?
  if [ $status -ne 0 ]; then
    ask 20 "$runtime" rm -f "$name" >/dev/null 2>&1
    fail_launch launch_failed $status
  fi
  # Either may have come too early to find the container.
  if [ -e cancel ] || [ -e deadline ]; then ask 10 "$runtime" kill "$name" >/dev/null 2>&1; fi
}

# The client also ends when the engine is restarted: that is no news of the container, until the engine answers again.
wait_for_container() {
  until status=$(engine wait "$name" 2>/dev/null); do
    if [ -e cancel ] || [ -e deadline ]; then
      ask 10 "$runtime" kill "$name" >/dev/null 2>&1
      return
    elif state=$(find_state); then
      case $state in running | paused | restarting | removing) ;; *) return ;; esac
    elif engine_within 30 version >/dev/null 2>&1; then
      return
    fi
    sleep 2
  done
}

# In a container the payload sees no processes but its own: from here all are seen, and its own have ended.
list_others() {
  if [ -e cancel ] || ! command -v nvidia-smi >/dev/null 2>&1; then return; fi
  fields=gpu_uuid,pid,used_gpu_memory,process_name
  # Without locks, and not waited for itself: stuck in a broken driver it cannot even be killed.
  (
    exec 8>&- 9<&-
    found=$(timeout -s KILL 10 nvidia-smi --query-compute-apps=$fields --format=csv,noheader,nounits) &&
      printf '%s\n' "$found" | head -c 32768 >others
    true >asked
  ) </dev/null >/dev/null 2>&1 &
  seconds=0
  until [ -e asked ] || [ $seconds -ge 11 ]; do sleep 1; seconds=$((seconds + 1)); done
}

run_in_container() {
  case $(find_state) in
    '')
      # Nothing was started yet, or the engine hung and a cancel ended its client.
      [ ! -e cancel ] || finish cancelled ''
      engine_within 60 image inspect "$image" >/dev/null 2>launch.err
      case $? in 0) ;; 124 | 137) fail_launch launch_failed 137 ;; *) pull_image ;; esac
      # By it a start finds what runs on this machine, lock or no lock.
      launch run -d --name "$name" --label "fleet.tmp=$(stat -c %d:%i /tmp/)" "$@" ;;
    created) launch start "$name" ;;
  esac
  enter run
  wait_for_container
  rm -f reserve
  found=$(ask 10 "$runtime" container inspect --format '{{json .State}}' "$name" 2>/dev/null)
  printf '%s\n' "$found" >container.json
  image_id=$(ask 10 "$runtime" container inspect --format '{{.Image}}' "$name" 2>/dev/null)
  ask 10 "$runtime" image inspect --format '{"id":{{json .Id}},"repo_digests":{{json .RepoDigests}}}' "$image_id" \
    >image.json 2>/dev/null
  { ask 30 "$runtime" logs "$name" 2>&1; } | tail -c 262144 >log
  list_others
  if [ -n "$found" ]; then finish exited "$status"; else finish gone ''; fi
}

run_native() {
  [ -e started ] || [ ! -e cancel ] || finish cancelled ''
  enter run
  if [ ! -e started ]; then
    date +%s >started
    watch "$deadline"
    # A shell of its own keeps the status, so that it is known even if we are killed. `tail` keeps the log in bounds.
    {
      FLEET_WORK=$id: "$@" </dev/null 2>&1 &
      child=$!
      echo $child >pid
      if [ -e cancel ]; then kill $child; fi
      wait $child
      printf '%-4s\n' $? 1<>status
      rm -f pid reserve
      kill_marked "FLEET_WORK=$id:"
    } 8>&- | tail -c 262144 >log 8>&-
  fi
  list_others
  status=$(first_line status)
  if [ "$status" = none ]; then finish gone ''; else finish exited "$status"; fi
}

time_left() {
  if [ -e started ]; then
    left=$(($(first_line started) + deadline - $(date +%s)))
    if [ "$left" -gt 0 ]; then echo "$left"; else echo 0; fi
  else
    echo "$pull_deadline"
  fi
}

# Where there was a supervisor before us, what it left at work may hold the machine's lock: wait for its end, not for ever.
if [ -e stage ]; then watch "$(time_left)"; fi
flock 9 8>&-
if [ -e stage ]; then
  kill "$watchdog"
  kill_marked "FLEET_JOB=$id:"
  watch "$(time_left)"
fi
case $runtime in native) run_native "$@" ;; *) run_in_container "$@" ;; esac
