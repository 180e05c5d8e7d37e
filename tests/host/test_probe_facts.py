"""From what real hosts printed to facts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from fleet.errors import ContactLost
from fleet.host.facts import read_digest
from fleet.host.framing import Shell, split_sections
from fleet.host.probe import Probe, choose_python, probe_host, read_probe
from fleet.model.facts import Cpu
from fleet.model.inventory import Connection, Settings
from tests.host.doubles import HostileHost

RECORDED = Path(__file__).with_name("recorded")
NONCE = "0123456789abcdef"


def read(raw: bytes | str, now_unix_s: float = 0.0, payload_sha256: str = "") -> Probe:
    data = raw if isinstance(raw, bytes) else raw.encode()
    return read_probe(data, split_sections(NONCE, data), payload_sha256, (now_unix_s, now_unix_s))


def sections(**bodies: str) -> str:
    """A probe's output; a name ending in _N carries the word N, as `engine_0`."""
    heads = {name: name.rsplit("_", 1) if name[-1].isdigit() else [name] for name in bodies}
    return "".join(f"\n@@{NONCE} {' '.join(heads[name])}\n{body}" for name, body in bodies.items())


def test_a_lab_host_with_docker() -> None:
    probe = read((RECORDED / "lab-host.txt").read_bytes(), now_unix_s=1796093790.0)

    facts = probe.facts
    assert (probe.uid, probe.gid, facts.user) == (1001, 1001, "bench")
    assert facts.machine_id_sha256 == hashlib.sha256(b"fedcba9876543210fedcba9876543210").hexdigest()
    assert facts.boot_id == "43960363-63da-45eb-813a-e822076d2917"
    assert (facts.os, facts.kernel, facts.architecture) == (
        "Debian GNU/Linux 12 (bookworm)",
        "6.18.44-fc-v657",
        "x86_64",
    )
    assert facts.product is None
    assert facts.virtualisation == "KVM"
    assert facts.cpu == Cpu(
        model="AMD EPYC",
        sockets=1,
        cores=2,
        threads=2,
        microcode="0x1000065",
        vector_extensions=("avx", "avx2", "fma", "avx512f"),
    )
    assert facts.memory_bytes == 24684092 * 1024
    assert facts.numa_nodes == 1
    assert (facts.gpus, facts.driver) == ((), None)
    assert (facts.runtime_version, facts.rootless) == ("20.10.24+dfsg1", False)
    assert facts.image_digest == "sha256:8cba972bb9cc2fed470dae13cf956d98e361e0c93bbe80b2c63fc1475f6b0bb5"
    assert (facts.workdir, facts.workdir_free_bytes) == ("/home/bench/work", 76118044 * 1024)
    assert facts.clock_offset_s == 4.0
    assert not probe.payload_present


def test_this_machine_without_docker() -> None:
    facts = read((RECORDED / "control-node.txt").read_bytes()).facts

    assert (facts.user, facts.runtime_version, facts.image_digest) == ("root", "Python 3.11.7", None)
    assert facts.workdir == "/home/admin/.fleet"


def test_noise_of_the_login_shell_changes_nothing() -> None:
    raw = (RECORDED / "lab-host.txt").read_bytes()
    noise = b"welcome to gpu01\n@@feedfeedfeedfeed id\n0\n0\nroot\n\x1b[31m@@no section\n"

    assert read(noise + raw.lstrip(b"\n"), 5.0).facts == read(raw, 5.0).facts


def test_a_host_that_ran_no_script_is_told_by_what_it_said() -> None:
    host = HostileHost(b"This account is \x1b[31mnot available.\n", exit_status=1)

    with pytest.raises(ContactLost) as lost:
        probe_host(Shell("gpu01", host), Settings())

    assert (lost.value.reason, lost.value.stage) == ("no_shell", "probe")
    assert "exit status 1" in lost.value.message
    assert "This account is \ufffd[31mnot available." in lost.value.message
    assert "ssh HOST echo ok" in lost.value.hint


UBUNTU_22_LSCPU = """Architecture:                    x86_64
  CPU op-mode(s):                32-bit, 64-bit
CPU(s):                          128
Vendor ID:                       GenuineIntel
  Model name:                    Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz
    Thread(s) per core:          2
    Core(s) per socket:          32
    Socket(s):                   2
Virtualization features:
  Hypervisor vendor:             VMware
"""

ARM_LSCPU = """Architecture:           aarch64
CPU(s):                 4
Vendor ID:              ARM
Model name:             Neoverse-N1
Model:                  1
Thread(s) per core:     1
Core(s) per cluster:    4
Socket(s):              -
Cluster(s):             1
"""

ARM_CPUINFO = """processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid
CPU implementer\t: 0x41
CPU part\t: 0xd0c
fleet processors: 4
"""

X86_CPUINFO = (
    "processor\t: 0\nmodel name\t: AMD EPYC 7742 64-Core Processor\nmicrocode\t: 0x830107c\n"
    "flags\t\t: fpu sse2 avx xavx2 f16c\nfleet processors: 8\n"
)


@pytest.mark.parametrize(
    ("lscpu", "cpuinfo", "cpu"),
    [
        (
            UBUNTU_22_LSCPU,
            "fleet processors: 128\n",
            Cpu(model="Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz", sockets=2, cores=64, threads=128),
        ),
        (ARM_LSCPU, ARM_CPUINFO, Cpu(model="Neoverse-N1", threads=4)),
        ("", ARM_CPUINFO, Cpu(threads=4)),
        (
            "",
            X86_CPUINFO,
            Cpu(
                model="AMD EPYC 7742 64-Core Processor",
                threads=8,
                microcode="0x830107c",
                vector_extensions=("avx",),
            ),
        ),
        ("", "", Cpu()),
    ],
)
def test_processors_of_other_systems(lscpu: str, cpuinfo: str, cpu: Cpu) -> None:
    assert read(sections(lscpu=lscpu, cpuinfo=cpuinfo)).facts.cpu == cpu


def test_what_lscpu_indents_is_a_hypervisor_too() -> None:
    assert read(sections(lscpu=UBUNTU_22_LSCPU)).facts.virtualisation == "VMware"


WARNING = "WARNING: Error loading config file: /home/u/.docker/config.json: permission denied\n"


def test_a_clients_warnings_are_neither_version_nor_digest() -> None:
    digest = "ab" * 32
    image = f'{WARNING}sha256:{"cd" * 32} ["nvcr.io/nvidia/tensorflow@sha256:{digest}"]\n'

    facts = read(sections(engine_0=f"{WARNING}28.0.1\n", image_0=image)).facts

    assert facts.runtime_version == "28.0.1"
    assert facts.image_digest == f"sha256:{digest}"


def test_a_rootless_engine_is_seen() -> None:
    said = '27.1.1\n["name=seccomp,profile=builtin","name=rootless","name=cgroupns"]\n'

    assert read(sections(engine_0=said)).facts.rootless


def test_an_engine_that_failed_has_no_version() -> None:
    facts = read(sections(engine_1="Cannot connect to the Docker daemon. Version 28.0.1\n", image_1="x")).facts

    assert (facts.runtime_version, facts.image_digest) == (None, None)


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        (f"sha256:{'ab' * 32} null", f"sha256:{'ab' * 32}"),
        (f"sha256:{'ab' * 32} []", f"sha256:{'ab' * 32}"),
        (f'sha256:{"ab" * 32} ["a@sha256:{"01" * 32}", "b@sha256:{"02" * 32}"]', f"sha256:{'01' * 32}"),
        (f"sha256:{'ab' * 32} [broken", f"sha256:{'ab' * 32}"),
        (f'sha256:{"ab" * 32} [7, "no digest"]', f"sha256:{'ab' * 32}"),
        ("Error: no such image", None),
        ("", None),
    ],
)
def test_digest(text: str, digest: str | None) -> None:
    assert read_digest(text) == digest


def test_the_payload_is_there_only_by_its_right_hash() -> None:
    assert read(sections(payload="ab" * 32), payload_sha256="ab" * 32).payload_present
    assert not read(sections(payload="ab" * 32), payload_sha256="cd" * 32).payload_present
    assert not read(sections(payload=""), payload_sha256="").payload_present


def test_a_hostile_host_gives_unknowns() -> None:
    raw = sections(
        id="²\n1e9\nroot\x1b]0;x\x07\n",
        time="9" * 400,
        memory="MemTotal: ٣٣ kB",
        numa="-1",
        disk="a b c d",
        cpuinfo="fleet processors: " + "9" * 30,
        engine_0="",
    )

    probe = read(raw)

    assert (probe.uid, probe.gid) == (-1, -1)
    assert probe.facts.user == "root\ufffd]0;x\ufffd"
    assert probe.facts.memory_bytes is None
    assert probe.facts.numa_nodes is None
    assert probe.facts.workdir_free_bytes is None
    assert probe.facts.clock_offset_s is None
    assert probe.facts.cpu.threads is None


@pytest.mark.parametrize(
    ("ahead_s", "round_trip_s", "expected"),
    [
        (0, 1.0, 0.0),
        (40, 65.0, 0.0),
        (86400, 65.0, 86335.0),
        (75, 1.0, 74.0),
        (-1, 1.0, 0.0),
        (-86400, 65.0, -86399.0),
        (0, -30.0, None),
    ],
)
def test_a_clock_is_wrong_by_what_the_round_trip_does_not_explain(
    ahead_s: int, round_trip_s: float, expected: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = iter((1796093790.0, 1796093790.0 + round_trip_s))
    monkeypatch.setattr("fleet.host.probe.time.time", lambda: next(ours))
    host = HostileHost(f"\n@@{{nonce}} time\n{1796093790 + ahead_s}\n\n@@{{nonce}} end\n".encode())

    offset = probe_host(Shell("gpu01", host), Settings()).facts.clock_offset_s

    assert offset == expected


def test_the_interpreter() -> None:
    local, remote = Connection(kind="local"), Connection()

    assert choose_python(Settings(), local, "/venv/bin/python") == "/venv/bin/python"
    assert choose_python(Settings(), remote, "/venv/bin/python") == "python3"
    assert choose_python(Settings(python="/opt/tf/bin/python"), local, "/x") == "/opt/tf/bin/python"
