# What a host is, and whether a job can run there. One round trip.
# $1 nonce  $2 work directory  $3 runtime  $4 image, or the interpreter  $5 sha256 of the payload
# $6 `make`: the work directory is made if it is not there; `look`: nothing is changed  $7 text of workdir.sh
# $8 text of neighbours.sh  $9… its arguments after the nonce
# Prints sections: a line "@@<nonce> <name> [<words>]", then what was found.
set -u
umask 077
export LC_ALL=C
nonce=$1 workdir=$2 runtime=$3 image=$4 payload=$5 mode=$6 look=$7 neighbours=$8
shift 8

section() { printf '\n@@%s %s\n' "$nonce" "$*"; }
show() { section "$1"; head -c "${3:-4096}" "$2" 2>/dev/null; }
# A driver in trouble hangs nvidia-smi, a busy engine docker, a directory service id: none may hang us. All limits
# together stay below the controller's own.
bounded() { if command -v timeout >/dev/null 2>&1; then timeout -k 2 "$@"; else shift; "$@"; fi; }

section id; id -u; id -g; bounded 5 id -un 2>/dev/null
section uname; uname -s; uname -r; uname -m
section time; date +%s
show os /etc/os-release
show machine_id /etc/machine-id 64
show boot_id /proc/sys/kernel/random/boot_id 64
section product; cat /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name 2>/dev/null | head -c 400
section lscpu; bounded 5 lscpu 2>/dev/null | head -c 8192
section cpuinfo; sed -n '/^$/q;p' /proc/cpuinfo | head -c 8192; printf 'fleet processors: '; grep -c '^processor' /proc/cpuinfo
show governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 64
section memory; head -n 1 /proc/meminfo
section numa; ls -d /sys/devices/system/node/node[0-9]* 2>/dev/null | grep -c .

if command -v nvidia-smi >/dev/null 2>&1; then
  old=index,uuid,name,pci.bus_id,vbios_version,memory.total,power.limit,power.default_limit,power.max_limit
  old=$old,clocks.max.sm,clocks.max.mem,ecc.mode.current,persistence_mode,driver_version
  # One field that this driver does not know fails the whole query: ask again without the newer ones.
  new=mig.mode.current,pcie.link.gen.max,pcie.link.width.max
  found=$(bounded 20 nvidia-smi --query-gpu="$old,$new" --format=csv,nounits 2>&1)
  status=$?
  case $status in
    0 | 124 | 137) ;;
    *) found=$(bounded 20 nvidia-smi --query-gpu="$old" --format=csv,nounits 2>&1); status=$? ;;
  esac
  section gpus $status; printf '%s\n' "$found" | head -c 65536
  if [ $status -eq 0 ]; then
    found=$(bounded 10 nvidia-smi --query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure --format=csv 2>&1)
    section remapped $?; printf '%s\n' "$found" | head -c 65536
  fi
elif ! [ -e /proc/driver/nvidia ]; then section gpus none
fi

case $runtime in
  native)
    section python; found=$(bounded 20 "$image" --version 2>&1); printf '%s\n%s\n' $? "$found" | head -c 400
    # Found, not loaded: that takes seconds.
    bounded 20 "$image" -c 'import importlib.util as u; print(u.find_spec("tensorflow") is not None)' 2>/dev/null ;;
  *)
    if command -v "$runtime" >/dev/null 2>&1; then
      # `info` with a format hides why there is no answer; `version` says it.
      found=$(bounded 30 "$runtime" version --format '{{.Server.Version}}' 2>&1)
      status=$?
      section engine $status; printf '%s\n' "$found" | head -c 4096
      [ $status -ne 0 ] || bounded 15 "$runtime" info --format '{{json .SecurityOptions}}' 2>&1 | head -c 4096
      if [ $status -eq 0 ]; then
        found=$(bounded 15 "$runtime" image inspect --format '{{.Id}} {{json .RepoDigests}}' "$image" 2>&1)
        section image $?; printf '%s\n' "$found" | head -c 4096
      fi
    else
      section engine missing
    fi ;;
esac

section tools
# All that these scripts call, but for what only describes the machine.
needed='cat chmod chown date dd df env find flock grep head id ln ls mkdir mv readlink rm rmdir sed setsid sha256sum'
needed=$needed' sleep stat tail timeout touch tr uname wc'
for tool in $needed; do command -v "$tool" >/dev/null 2>&1 || printf '%s\n' "$tool"; done

case $workdir in '~') workdir=$HOME ;; '~/'*) workdir=$HOME/${workdir#??} ;; esac
while [ "$workdir" != "${workdir%/}" ]; do workdir=${workdir%/}; done
bounded 20 /bin/sh -c "$look" fleet "$nonce" "${workdir:-/}" "$payload" "$mode"
case $? in 0) ;; *) section workdir silent; printf '%s\n' "$workdir" ;; esac
# Last of all: nothing of ours runs while it looks what does.
/bin/sh -c "$neighbours" fleet "$nonce" "$@"
section end
exit 0
