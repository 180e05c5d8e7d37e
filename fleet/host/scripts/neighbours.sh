# Who else uses the machine: another fleet, the GPUs, the processors. Where these may be busy it takes a second, in which
# it does nothing itself.
# $1 nonce  $2 `lock`: whether the machine is being measured, and no more; `cpu`, `gpu`: what a job on these needs too
# $3 from how many per cent of the processors on it says whose processes they are busy with
# Prints sections: a line "@@<nonce> <name> [<words>]", then what was found.
set -u
export LC_ALL=C
nonce=$1 kind=$2 least=$3

section() { printf '\n@@%s %s\n' "$nonce" "$*"; }
# A driver in trouble hangs it.
ask_smi() { timeout -s KILL 10 nvidia-smi "$1" --format=csv,noheader,nounits 2>/dev/null; }

section neighbours
# What that fleet does there is told by its name alone.
if is_locked; then
  section locked; find_holder
  exit 0
fi
[ "$kind" != lock ] || exit 0

apps=
if [ "$kind" = gpu ] && command -v nvidia-smi >/dev/null 2>&1; then
  apps=$(ask_smi --query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name | head -c 32768)
  section gpu_apps; printf '%s\n' "$apps"
  # A GPU that nobody computes on needs no second question, which may take seconds.
  [ -z "$apps" ] || { section gpu_use; ask_smi --query-gpu=uuid,index,memory.total,utilization.gpu | head -c 32768; }
fi

# "<pid> <user ticks> <system ticks> <name>" of every process that we may see.
list_processes() {
  cat /proc/[0-9]*/stat 2>/dev/null | sed -n 's/^\([0-9]*\) (\(.*\)) \([^ ]* \)\{11\}\([0-9]*\) \([0-9]*\) .*/\1 \4 \5 \2/p'
}
# proc(5): user, nice, system, idle, iowait, irq, softirq, steal.
add_up() { busy=$(($2 + $3 + $4 + $7 + $8)) all=$(($2 + $3 + $4 + $5 + $6 + $7 + $8 + $9)); }
look() { read -r line </proc/stat; add_up $line; }

# proc(5): the load of the last minute, with two decimals, and as the fourth word how many run now, we among them.
seems_idle() {
  IFS=' ./' read -r load hundredths _ _ _ _ running _ </proc/loadavg
  enough=$((least * $(grep -c '^cpu[0-9]' /proc/stat)))
  [ $((load * 100 + 1$hundredths - 100)) -lt "$enough" ] && [ $(((running - 1) * 100)) -lt "$enough" ]
}

busy=0 all=0 before='' changed=''
if ! seems_idle; then
  before=$(list_processes)
  look
  busy_before=$busy all_before=$all
  sleep 1
  look
  busy=$((busy - busy_before)) all=$((all - all_before))
fi
section cpu "$busy" "$all"
if [ -n "$before" ] && [ $((busy * 100)) -ge $((all * least)) ]; then
  # Whoever did nothing has the same line twice.
  changed=$(printf '%s\n' "$before" "$(list_processes)" | sort | uniq -u | head -c 32768)
  printf '%s\n' "$changed"
fi

list_pids() { # the pids of both, each with a line end
  while IFS=', ' read -r _ pid _; do echo "$pid"; done <<END
$apps
END
  while read -r pid _; do echo "$pid"; done <<END
$changed
END
}
set --
for pid in $(list_pids); do
  case $pid in *[!0-9]*) ;; *) [ ! -d "/proc/$pid" ] || set -- "$@" "/proc/$pid" ;; esac
done
# A directory service that hangs costs us the names of users.
[ $# -eq 0 ] || { section owners; timeout -s KILL 5 ls -ld "$@" 2>/dev/null | head -c 65536; }
exit 0
