#!/bin/sh
# What the lab needs of this machine: packages, and a container engine of its own.
#
#   tests/lab/setup.sh          install what is missing, start the engine, wait until it answers
#   tests/lab/setup.sh engine   only the engine
#   tests/lab/setup.sh stop     stop the engine; its images stay in /var/lib/fleet-lab, until you remove that
#
# The engine is a second dockerd with its own socket, data and process id file. A machine's own engine is never asked
# for anything: faults are provoked here, and everything called fleet-* is swept away. Needs root on Debian or Ubuntu.
set -eu

# Where administration's programs are, which a root shell got by `su` does not look.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
lab=/var/lib/fleet-lab
run=/run/fleet-lab
socket=$run/socket/docker.sock
pidfile=$run/docker.pid

say() { printf 'lab: %s\n' "$*" >&2; }
give_up() { say "$*"; exit 1; }

missing_packages() {
    # Ubuntu has no browser among its packages: there the tests that open a page are skipped.
    browser=$(grep -qx 'ID=ubuntu' /etc/os-release || echo chromium:chromium)
    for pair in sshd:openssh-server ssh:openssh-client dockerd:docker.io docker:docker.io debootstrap:debootstrap \
                iptables:iptables ip:iproute2 fish:fish tcsh:tcsh zsh:zsh busybox:busybox-static \
                pg_ctlcluster:postgresql $browser; do
        command -v "${pair%%:*}" >/dev/null || printf '%s\n' "${pair#*:}"
    done | sort -u
}

install_packages() {
    packages=$(missing_packages)
    [ -n "$packages" ] || return 0
    command -v apt-get >/dev/null || give_up "this is neither Debian nor Ubuntu; install by hand:" $packages
    say "installing" $packages
    # apt must not start what it installs: the lab runs its own sshd and dockerd, and the machine's stay as they are.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update >/dev/null || give_up "apt-get update failed; is the network there?"
    # From Debian 13 on the client is a package of its own.
    case "$packages" in
        *docker.io*) ! apt-cache show docker-cli 2>/dev/null | grep -q . || packages="$packages docker-cli" ;;
    esac
    apt-get -q install -y --no-install-recommends $packages >/dev/null || give_up "apt-get install failed for:" $packages
    if [ -z "$(missing_packages)" ]; then return 0; fi
    give_up "installed, but still not found:" $(missing_packages)
}

answers() { docker --host "unix://$socket" version >/dev/null 2>&1; }

is_ours() { [ -n "$1" ] && { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null | grep -q -- "--pidfile=$pidfile"; }

start_engine() {
    mkdir -p "$lab" "$run/socket"
    chmod 711 "$lab" "$run"
    exec 9>"$run/start.lock"
    flock 9
    if answers; then return 0; fi
    # A process id file left by a machine that was switched off would stop dockerd from starting.
    is_ours "$(cat "$pidfile" 2>/dev/null || true)" || rm -f "$pidfile" "$run/exec/containerd/containerd.pid"
    # No default bridge, no iptables rules, no sysctl: dockerd flushes the chains of an engine that is already there.
    group=$(getent group docker >/dev/null && echo docker || echo root)
    setsid dockerd --host="unix://$socket" --group="$group" --data-root="$lab/engine" --exec-root="$run/exec" \
        --pidfile="$pidfile" --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
        9>&- </dev/null >>"$lab/engine.log" 2>&1 &
    engine=$!
    tries=0
    until answers; do
        tries=$((tries + 1))
        kill -0 "$engine" 2>/dev/null || give_up "the engine ended at once: $(tail -n 1 "$lab/engine.log")"
        [ "$tries" -lt 120 ] || give_up "the engine does not answer after 60 s; see $lab/engine.log"
        sleep 0.5
    done
}

stop_engine() {
    engine=$(cat "$pidfile" 2>/dev/null || true)
    is_ours "$engine" || return 0
    kill "$engine"
    tries=0
    while is_ours "$engine"; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || give_up "the engine (process $engine) does not end"
        sleep 0.5
    done
}

[ "$(id -u)" = 0 ] || give_up "needs root (for sshd, mounts and a container engine); the lab's tests will be skipped"
case "${1-}" in
    "") install_packages; start_engine ;;
    engine) command -v dockerd >/dev/null || give_up "dockerd is missing; run tests/lab/setup.sh"; start_engine ;;
    stop) stop_engine ;;
    *) give_up "usage: tests/lab/setup.sh [engine|stop]" ;;
esac
