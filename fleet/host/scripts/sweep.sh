# What fleet has left on a host: jobs, their containers, files. Nothing that may still be at work is ever touched.
# $1 nonce  $2 work directory  $3 runtime  $4 `look`: nothing is changed; `remove`: what no work needs, and the jobs
# $5…, by id
# Prints sections, of what is there at the end: a line "@@<nonce> <name> [<words>]", then text.
#   workdir absent|foreign|none   its path
#   engine STATUS                 what it said; without an answer of its nothing more is looked at
#   locked                        who holds the machine's lock
#   job ID STATE KIB              running; recent, ended: it has recorded its end; dead: it has not
#   container ID STATE            of the engine, for the job of this id
#   file KIB NAME                 a benchmark, or an image sent in part
#   holder ID                     a name that a job left for whoever finds the machine locked
set -u
export LC_ALL=C
nonce=$1 workdir=$2 runtime=$3 mode=$4
shift 4

section() { printf '\n@@%s %s\n' "$nonce" "$*"; }
end() { section end; exit 0; }
measure() { timeout -s KILL 20 du -sk "$1" 2>/dev/null | { read -r size _; echo "${size:-0}"; }; }
is_id() { case $1 in '' | -* | *[!A-Za-z0-9-]*) return 1 ;; esac; }

# Jobs and their containers have names that say whose work directory they are of: others' are never looked at.
list_containers() {
  case $runtime in native) return ;; esac
  command -v "$runtime" >/dev/null 2>&1 || return
  found=$(timeout -s KILL 30 "$runtime" ps -aq --no-trunc --filter label=fleet.job 2>&1)
  status=$?
  if [ $status -ne 0 ]; then section engine $status; printf '%s\n' "$found" | head -c 4096; end; fi
  form='{{index .Config.Labels "fleet.job"}} {{.State.Status}}{{range .Mounts}} {{.Source}}{{end}}'
  # One that goes away meanwhile makes this fail, and the others are printed.
  containers=$(timeout -s KILL 30 "$runtime" container inspect --format "$form" $found 2>/dev/null |
    while read -r id state mounts; do
      case "$mounts/" in *"$workdir/jobs/$id/"*) if is_id "$id"; then echo "$id $state"; fi ;; esac
    done)
}
find_container() { # the state of job $1's
  while read -r id state; do [ "$id" != "$1" ] || echo "$state"; done <<END
$containers
END
}

judge() { # the state of job $1
  case $(find_container "$1") in '' | created | exited | dead) ;; *) echo running; return ;; esac
  if [ -f "jobs/$1/exit.json" ]; then
    # Its fleet may be about to collect it.
    if [ -n "$(find "jobs/$1/exit.json" -mmin -5)" ]; then echo recent; else echo ended; fi
  elif [ -f "jobs/$1/alive" ] && ! flock -n -s 8 8<"jobs/$1/alive"; then echo running
  elif [ -n "$(grep -ls "FLEET_JOB=$1:" /proc/[0-9]*/environ)" ]; then echo running
  elif [ ! -f "jobs/$1/supervise.sh" ] && is_locked; then echo running
  else echo dead
  fi
}

remove_job() {
  case $(judge "$1") in running) return ;; esac
  (
    # With its lock nobody can take the job up again meanwhile.
    if [ -d "jobs/$1" ]; then exec 8>>"jobs/$1/alive" && flock -n 8 || exit; fi
    # Without -f: the engine does not remove what runs.
    if [ -n "$(find_container "$1")" ]; then timeout -s KILL 30 "$runtime" rm -v "fleet-$1" >/dev/null || exit; fi
    rm -f "/tmp/fleet.holder.$1"
    # The payload may have left directories that their owner cannot write to.
    rm -rf "jobs/$1" || { chmod -R u+rwX "jobs/$1"; rm -rf "jobs/$1"; }
  ) 2>/dev/null
}
list_jobs() {
  for path in jobs/*; do
    if [ -d "$path" ] && [ ! -L "$path" ] && is_id "${path#jobs/}"; then echo "${path#jobs/}"; fi
  done
}
list_files() {
  for file in payload-*.pyz* image-*; do if [ -f "$file" ] && [ ! -L "$file" ]; then echo "$file"; fi; done
}
list_holders() { find /tmp -maxdepth 1 -type l -user "$(id -u)" -name 'fleet.holder.*' 2>/dev/null; }
# With the machine's lock nothing is started meanwhile.
remove_unused() (
  if [ -f /tmp/fleet.lock ] && [ ! -L /tmp/fleet.lock ]; then exec 9</tmp/fleet.lock && flock -n -s 9 || exit; fi
  list_holders | while read -r path; do rm -f "$path"; done
  for id in $(list_jobs); do case $(judge "$id") in running | dead) exit ;; esac; done
  list_files | while read -r file; do rm -f "$file"; done
)

case $workdir in '~') workdir=$HOME ;; '~/'*) workdir=$HOME/${workdir#??} ;; esac
if [ ! -e "$workdir" ]; then section workdir absent; printf '%s\n' "$workdir"; end; fi
if [ -L "${workdir%/}" ] || [ ! -O "$workdir" ] || ! cd "$workdir" 2>/dev/null || [ -L jobs ]; then
  section workdir foreign; printf '%s\n' "$workdir"; end
fi
workdir=$(pwd -P) containers=
section workdir none; printf '%s\n' "$workdir"
list_containers
if [ "$mode" = remove ]; then
  for job in "$@"; do if is_id "$job"; then remove_job "$job"; fi; done
  rmdir jobs 2>/dev/null
  list_containers
  remove_unused
  # The default one is fleet's own; any other may have been made by somebody.
  [ "$workdir" != "$(cd ~ && pwd -P)/.fleet" ] || rmdir "$workdir" 2>/dev/null
fi

if is_locked; then
  section locked; find_holder
fi
for job in $(list_jobs); do section job "$job" "$(judge "$job")" "$(measure "jobs/$job")"; done
printf '%s\n' "$containers" | while read -r id state; do [ -z "$id" ] || section container "$id" "$state"; done
list_files | while read -r file; do section file "$(measure "$file")" "$file"; done
list_holders | while read -r path; do if is_id "${path##*/fleet.holder.}"; then section holder "${path##*.}"; fi; done
end
