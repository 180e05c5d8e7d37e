"""How `fleet push-image` sends, beside scp and a pipe through ssh: throughput, processor time, memory, in one run.

    python tests/bench/push.py [--megabytes 1000] [--rounds 5] [--core 0] [--hosts 4]

One file is sent over loopback to an sshd of the bench's own, in turn by scp as people run it (default cipher, SFTP),
by `ssh -c aes128-gcm@openssh.com HOST 'cat >FILE'`, and by the code of fleet that sends, after it has connected.
Clients and sshd are pinned to one core. Where the machine has other work too, look at the processor time of both ends
together: it is what bounds the throughput of one core. Ratios above 1: faster, or cheaper, than scp.

Then the command itself pushes the file, as an image, to several hosts at once, each an sshd with a /tmp of its own:
what memory it takes. Needs root and the lab's packages.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.image_builder import build_image, make_layer, write_archive  # noqa: E402
from tests.lab.spare_engine import SpareEngine  # noqa: E402

GCM = "aes128-gcm@openssh.com"


@dataclass(frozen=True)
class Sample:
    send_s: float
    client_s: float
    """Processor time of the client and its children."""
    server_s: float
    """Processor time of sshd's children."""
    peak_bytes: int
    """Resident, of the largest of the client's processes."""


@dataclass(frozen=True)
class Ground:
    """Where everything lies, and the hosts."""

    folder: Path
    port: int
    """Of the first host."""
    sshd: int
    """Its process."""
    core: int
    archive: Path

    def options(self) -> list[str]:
        files = f"UserKnownHostsFile={self.folder}/known_hosts"
        return ["-F", "none", "-i", f"{self.folder}/key", "-o", files, "-o", "BatchMode=yes"]

    def run(self, argv: Sequence[str], stdin: Path | None = None) -> tuple[Sample, str]:
        """Run a client pinned to the core; how it did, and what it printed. Ends this program when it fails."""
        before, server_s = time.monotonic(), read_children(self.sshd)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(stdin.open("rb")) if stdin else subprocess.DEVNULL
            out = stack.enter_context(tempfile.TemporaryFile("w+"))
            words = ["taskset", "-c", str(self.core), *argv]
            process = subprocess.Popen(words, stdin=source, stdout=out, stderr=subprocess.DEVNULL, env=environment)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            said = out.read()
        if process.returncode:
            sys.exit(f"{' '.join(argv)} ended with {process.returncode}\n{said}")
        took_s = time.monotonic() - before
        client_s = usage.ru_utime + usage.ru_stime
        time.sleep(0.5)  # until sshd has seen its child's end
        server_s = read_children(self.sshd) - server_s
        return Sample(took_s, client_s, server_s, usage.ru_maxrss << 10), said


def read_children(process: int) -> float:
    """Processor time of a process's children that have ended, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def copy_by_scp(ground: Ground) -> Sample:
    target = f"root@127.0.0.1:{ground.folder}/copy"
    argv = ["scp", "-q", *ground.options(), "-P", str(ground.port), str(ground.archive), target]
    return ground.run(argv)[0]


def copy_by_pipe(ground: Ground) -> Sample:
    where = ["-p", str(ground.port), "root@127.0.0.1", f"cat >{ground.folder}/copy"]
    return ground.run(["ssh", *ground.options(), "-c", GCM, *where], stdin=ground.archive)[0]


def send_by_fleet(ground: Ground) -> Sample:
    argv = [sys.executable, "-m", "tests.bench.push_send", f"{ground.folder}/lab.yaml"]
    sample, said = ground.run([*argv, str(ground.archive), str(ground.folder / "work")])
    shutil.rmtree(ground.folder / "work")
    send_s, client_s = map(float, said.split())
    return replace(sample, send_s=send_s, client_s=client_s)


def push_by_fleet(ground: Ground) -> str:
    """The command itself, to all hosts; a sentence."""
    argv = [sys.executable, "-m", "fleet", "push-image", str(ground.archive), "-i", f"{ground.folder}/lab.yaml"]
    sample, said = ground.run([*argv, "--json"])
    ends = json.loads(said)["hosts"]
    size = ground.archive.stat().st_size
    assert all(end["status"] == "ok" and end["sent_bytes"] == size for end in ends), said
    rate = len(ends) * size / max(end["send_s"] for end in ends) / 1e6
    return f"fleet push-image to {len(ends)} hosts: {rate:.0f} MB/s in all, peak {sample.peak_bytes / 1e6:.0f} MB"


TOOLS: dict[str, Callable[[Ground], Sample]] = {
    "scp": copy_by_scp,
    "ssh pipe, aes128-gcm": copy_by_pipe,
    "fleet": send_by_fleet,
}


@contextlib.contextmanager
def prepare(megabytes: int, core: int, hosts: int) -> Iterator[Ground]:
    with (
        SpareEngine() as engine,
        tempfile.TemporaryDirectory(prefix="fleet-bench-", dir="/var/tmp") as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        archive = folder / "image.tar"
        # In a process of its own: what its parent once held counts for the memory of a child.
        maker = multiprocessing.Process(target=make_archive, args=(archive, megabytes))
        maker.start()
        maker.join()
        for key in ("key", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True)
        ports = [find_port() for _ in range(hosts)]
        servers = [start_sshd(folder, port, core, engine) for port in ports]
        for server in servers:
            stack.callback(server.wait)
            stack.callback(server.terminate)
        write_hosts(folder, ports)
        yield Ground(folder, ports[0], servers[0].pid, core, archive)


def make_archive(path: Path, megabytes: int) -> None:
    layers = [make_layer(os.urandom(megabytes * 500_000)) for _ in range(2)]
    write_archive(path, build_image("fleet-bench/push:1", layers))


def find_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def start_sshd(folder: Path, port: int, core: int, engine: SpareEngine) -> subprocess.Popen[bytes]:
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder}/host_key",
        f"AuthorizedKeysFile {folder}/key.pub",
        "PermitRootLogin yes",
        "StrictModes no",
        "UsePAM no",
        "PidFile none",
        "Subsystem sftp internal-sftp",
        f"SetEnv DOCKER_HOST={engine.host}",
    ]
    config = folder / f"sshd_config-{port}"
    config.write_text("\n".join(lines) + "\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    # fleet's lock of a machine lies in /tmp.
    alone = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /tmp && exec "$@"', "sh"]
    argv = [*alone, "taskset", "-c", str(core), "/usr/sbin/sshd", "-D", "-e", "-f", str(config)]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        time.sleep(0.05)
    sys.exit("sshd does not start")


def write_hosts(folder: Path, ports: Sequence[int]) -> None:
    """An inventory of the hosts, each with a work directory of its own."""
    key = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"[127.0.0.1]:{port} {key}" for port in ports))
    variables = {
        "ansible_host": "127.0.0.1",
        "ansible_user": "root",
        "ansible_ssh_private_key_file": f"{folder}/key",
        "ansible_ssh_common_args": f"-F none -o UserKnownHostsFile={folder}/known_hosts",
    }
    own = {
        f"host{number}": {"ansible_port": port, "fleet_workdir": f"{folder}/work{number}"}
        for number, port in enumerate(ports)
    }
    (folder / "lab.yaml").write_text(yaml.safe_dump({"all": {"vars": variables, "hosts": own}}))


def print_samples(samples: dict[str, list[Sample]], size: int) -> None:
    def find_median(name: str, read: Callable[[Sample], float]) -> float:
        return statistics.median(read(sample) for sample in samples[name])

    print(f"{'':22} {'MB/s':>6} {'to scp':>7} {'CPU s/GB':>9} {'of client':>10} {'to scp':>7} {'peak MB':>8}")
    slow, dear = find_median("scp", lambda s: s.send_s), find_median("scp", lambda s: s.client_s + s.server_s)
    for name, taken in samples.items():
        send_s, both_s = find_median(name, lambda s: s.send_s), find_median(name, lambda s: s.client_s + s.server_s)
        client_s = find_median(name, lambda s: s.client_s)
        peak = max(sample.peak_bytes for sample in taken) / 1e6
        print(
            f"{name:22} {size / send_s / 1e6:6.0f} {slow / send_s:7.2f} {both_s / size * 1e9:9.2f} "
            f"{client_s / size * 1e9:10.2f} {dear / both_s:7.2f} {peak:8.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--hosts", type=int, default=4)
    arguments = parser.parse_args()
    with prepare(arguments.megabytes, arguments.core, arguments.hosts) as ground:
        size = ground.archive.stat().st_size
        samples: dict[str, list[Sample]] = {name: [] for name in TOOLS}
        for _ in range(arguments.rounds):
            for name, take in TOOLS.items():
                samples[name].append(take(ground))
                (ground.folder / "copy").unlink(missing_ok=True)
        print_samples(samples, size)
        print(push_by_fleet(ground))


if __name__ == "__main__":
    main()
