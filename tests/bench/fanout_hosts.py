"""Many hosts on one machine: an sshd each, on an address of its own, with its own processes, /tmp and home.

fleet holds one lock per machine and cleans up by process, so that one sshd on many addresses would be one host to it.
Linux namespaces make them machines of their own, for every tool alike.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SSHD = "/usr/sbin/sshd"
START_LIMIT_S = 60.0

# The new home is empty, so that no start file of the machine's own user takes part. A machine-id of its own makes each
# host another machine to fleet, where the kernel and its boot are one.
_ENTER = """mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs "$1" && shift || exit
if [ -e /etc/machine-id ]; then
  tr -d - </proc/sys/kernel/random/uuid >/tmp/id && mount --bind /tmp/id /etc/machine-id && rm /tmp/id || exit
fi
exec "$@"
"""


@dataclass(frozen=True)
class Hosts:
    """Running hosts, and what opens them."""

    folder: Path
    """Not below /tmp or the home, which the hosts see empty."""
    addresses: tuple[str, ...]
    port: int
    key: Path
    known_hosts: Path
    """A line for each host."""
    ssh_config: Path
    """All that OpenSSH's clients need to know."""
    user: str = "root"


@contextlib.contextmanager
def start_hosts(count: int) -> Iterator[Hosts]:
    """Hosts that take connections, until the block ends. Ends the program where they cannot be."""
    if sys.platform != "linux" or os.getuid() != 0 or not Path(SSHD).exists():
        sys.exit("The hosts of this bench are namespaces on Linux with an sshd in each: it needs root and OpenSSH.")
    folder = Path(tempfile.mkdtemp(prefix="fleet-bench-", dir="/run"))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        hosts = _write_files(folder, count)
        with (folder / "sshd.log").open("wb") as log:
            processes += [_start(hosts, address, log.fileno()) for address in hosts.addresses]
        for address in hosts.addresses:
            _await_port(hosts, address)
        yield hosts
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        shutil.rmtree(folder)


def _write_files(folder: Path, count: int) -> Hosts:
    for name in ("key", "host_key"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(argv, check=True)
    with socket.socket() as sock:
        sock.bind(("127.1.0.1", 0))
        port = int(sock.getsockname()[1])
    addresses = tuple(f"127.1.{n // 250}.{n % 250 + 1}" for n in range(count))
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    hosts = Hosts(folder, addresses, port, folder / "key", folder / "known_hosts", folder / "ssh_config")
    hosts.known_hosts.write_text("".join(f"[{address}]:{port} {host_key}\n" for address in addresses))
    _write_lines(
        folder / "sshd_config",
        f"Port {port}",
        f"HostKey {folder}/host_key",
        f"AuthorizedKeysFile {folder}/key.pub",
        "StrictModes no",
        "UsePAM no",
        "UseDNS no",
        "PidFile none",
        "PermitRootLogin yes",
        "MaxStartups 1000",
        "Subsystem sftp internal-sftp",
    )
    _write_lines(
        hosts.ssh_config,
        f"Port {port}",
        f"User {hosts.user}",
        f"IdentityFile {hosts.key}",
        "IdentitiesOnly yes",
        f"UserKnownHostsFile {hosts.known_hosts}",
        "StrictHostKeyChecking yes",
        "BatchMode yes",
        # The default exchange costs three times the processor time, and would flatter fleet.
        "KexAlgorithms curve25519-sha256",
        "Ciphers aes128-gcm@openssh.com",
    )
    return hosts


def _write_lines(path: Path, *lines: str) -> None:
    path.write_text("\n".join(lines) + "\n")


def _start(hosts: Hosts, address: str, log: int) -> subprocess.Popen[bytes]:
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    sshd = [SSHD, "-D", "-e", "-f", str(hosts.folder / "sshd_config"), "-o", f"ListenAddress={address}"]
    argv = [*namespaces, "sh", "-c", _ENTER, "sh", str(Path("~root").expanduser()), *sshd]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _await_port(hosts: Hosts, address: str) -> None:
    until = time.monotonic() + START_LIMIT_S
    while True:
        try:
            socket.create_connection((address, hosts.port), timeout=1).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                sys.exit(
                    f"The host {address} does not start: {error}\n{(hosts.folder / 'sshd.log').read_text()[-2000:]}"
                )
            time.sleep(0.02)
