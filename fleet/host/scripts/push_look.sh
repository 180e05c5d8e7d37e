# What a host has of images, and how much room there is. Changes nothing.
# $1 nonce  $2 engine  $3 work directory (absolute)  $4 the lowest layers of the images, with | between  $5… their names
# Prints lines "@@<nonce> <name> [<words>]", and what was found.
set -u
export LC_ALL=C
nonce=$1 engine=$2 workdir=$3 lowest=$4
shift 4
section() { printf '\n@@%s %s\n' "$nonce" "$*"; }
room() { # name, directory, or the part of its path that is there
  there=$2
  until [ -d "$there" ]; do there=${there%/*}; there=${there:-/}; done
  section "$1"; df -Pk "$there" 2>/dev/null | tail -n 1
}

for name; do
  found=$(timeout -k 2 60 "$engine" image inspect --format '{{.Id}} {{json .RootFS.Layers}}' "$name" 2>&1)
  section image $?; printf '%s\n' "$found" | head -c 16384
done
section store; timeout -k 2 30 "$engine" info --format '{{json .DriverStatus}}' 2>&1 | head -c 4096
# Every image that begins as one of ours: its layers need not be sent.
section layers
all=$(timeout -k 2 60 "$engine" image ls --quiet --no-trunc 2>/dev/null)
# Not quoted: one word for each.
timeout -k 2 60 "$engine" image inspect --format '{{json .RootFS.Layers}}' $all 2>/dev/null |
  grep -E "^\[\"($lowest)\"" | head -c 262144
room workdir "$workdir"
root=$(timeout -k 2 30 "$engine" info --format '{{.DockerRootDir}}' 2>/dev/null)
if [ -d "$root" ]; then room root "$root"; fi
section end
