# Removes a job that has ended, and what may still run of it: processes, container, directory. Leaves the payload for the
# next run.
# $1 nonce  $2 job directory (absolute)  $3 runtime  $4 container name  $5 payload's sha256
set -u
export LC_ALL=C
id=${2##*/}
silent=
case $3 in native) ;; *)
  timeout -s KILL 30 "$3" rm -f "$4" >/dev/null 2>&1
  # An engine that does not answer: the container may be there.
  case $? in 124 | 137) silent=yes ;; esac ;;
esac
kill_marked "FLEET_JOB=$id:"
rm -f "/tmp/fleet.holder.$id"
case $2 in
  */jobs/?*)
    # The payload may have left directories that their owner cannot write to.
    rm -rf "$2" 2>/dev/null || { chmod -R u+rwX "$2" 2>/dev/null; rm -rf "$2"; } ;;
esac
# Payloads of other versions that nobody has used for a week, and images that were sent in part.
find "${2%/jobs/*}" -maxdepth 1 -name 'image-*' -mtime +7 -exec rm -rf {} + 2>/dev/null
find "${2%/jobs/*}" -maxdepth 1 -name 'payload-*.pyz*' ! -name "payload-$5.pyz" -mtime +7 -exec rm -f {} + 2>/dev/null
rmdir "${2%/*}" 2>/dev/null
if [ -e "$2" ] || [ -n "$silent" ]; then printf '\n@@%s left\n' "$1"; else printf '\n@@%s clean\n' "$1"; fi
