# Removes a job that has ended: its container and its directory. Leaves the payload for the next run.
# $1 nonce  $2 job directory (absolute)  $3 runtime  $4 container name  $5 payload's sha256
set -u
case $3 in native) ;; *) "$3" rm -f "$4" >/dev/null 2>&1 ;; esac
case $2 in */jobs/*) rm -rf "$2" ;; esac
# Payloads of other versions, a week old: nobody has used them since.
find "${2%/jobs/*}" -maxdepth 1 -name 'payload-*.pyz*' ! -name "payload-$5.pyz" -mtime +7 -exec rm -f {} + 2>/dev/null
rmdir "${2%/*}" 2>/dev/null
if [ -e "$2" ]; then printf '\n@@%s left\n' "$1"; else printf '\n@@%s clean\n' "$1"; fi
