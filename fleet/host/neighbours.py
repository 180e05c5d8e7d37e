"""Who else uses a host, from what `scripts/neighbours.sh` printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fleet.host.facts import Findings
from fleet.host.framing import Shell, read_count
from fleet.model.inventory import Settings
from fleet.model.result import Stage
from fleet.model.telemetry import CPU_BUSY, GPU_BUSY, GpuApp
from fleet.model.text import make_inert

LOOK_TIMEOUT_S = 45.0
"""Above the script's own limits together."""

_NAMED = 3
"""So many processes, or GPUs, are named; the rest are counted."""

_GIB = 1 << 30


@dataclass(frozen=True)
class Disturbance:
    """Somebody else's work on a host."""

    reason: Literal["locked", "gpu_busy", "cpu_busy"]
    message: str
    """Who does what there; no full stop."""


def ask_for(settings: Settings, *, busy: bool) -> list[str]:
    """The script's arguments after the nonce: look at all that a job on this host needs, or at the lock alone."""
    return [settings.device if busy else "lock", f"{CPU_BUSY * 100:.0f}"]


def look_around(shell: Shell, settings: Settings) -> tuple[Disturbance, ...]:
    """Look at a host in one round trip of a second.

    Raises:
        HostError: as the transport's.
    """
    arguments = ask_for(settings, busy=True)
    _, sections = shell.read("neighbours", arguments, stage=Stage.PROBE, timeout_s=LOOK_TIMEOUT_S)
    return find_disturbances(Findings({section.name: section for section in sections}), settings)


def find_disturbances(findings: Findings, settings: Settings) -> tuple[Disturbance, ...]:
    """What a job on this host would have to share the machine with, the worst first."""
    if "locked" in findings.sections:
        holder = findings.text("locked") or "another fleet (it left no name)"
        return (Disturbance("locked", f"it is being measured by {holder}"),)
    rows = re.findall(r"^\S+ +\d+ +(\S+) .*/proc/(\d{1,9})$", findings.text("owners"), re.MULTILINE)
    owners = {int(pid): user for user, pid in rows}
    gpus, processors = _find_on_gpus(findings, settings, owners), _find_on_processors(findings, owners)
    found = [Disturbance("gpu_busy", gpus)] if gpus else []
    return (*found, *([Disturbance("cpu_busy", processors)] if processors else []))


def read_apps(text: str) -> dict[str, tuple[GpuApp, ...]]:
    """By the GPU's UUID, the rows of `nvidia-smi --query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name`.

    Of lines that are none (what it says when it fails, GPUs too old to know) nothing is taken.
    """
    apps: dict[str, tuple[GpuApp, ...]] = {}
    for line in text.split("\n"):
        words = [word.strip() for word in line.split(",", 3)]
        if len(words) == 4 and words[0].startswith("GPU-"):
            uuid, pid, mib, name = words
            memory = read_count(mib)
            app = GpuApp(
                pid=read_count(pid),
                name=None if name.startswith("[") else make_inert(name, 200),
                memory_bytes=None if memory is None else memory << 20,
            )
            apps[uuid] = (*apps.get(uuid, ()), app)
    return apps


def _find_on_gpus(findings: Findings, settings: Settings, owners: dict[int, str]) -> str:
    """The GPUs of the job that others compute on, in words; empty: they are free."""
    apps = read_apps(findings.text("gpu_apps"))
    rows = [[word.strip() for word in line.split(",")] for line in findings.lines("gpu_use")]
    said = []
    for place, (uuid, index, total, used) in enumerate(row for row in rows if len(row) == 4):
        if uuid not in apps or not _is_chosen(settings, place, index, uuid):
            continue
        memory, share = _add_memory(apps[uuid]), read_count(used)
        whole = (read_count(total) or 0) << 20
        # What a process that only keeps the GPU open holds is its context: some hundred MB, and it does no harm.
        if memory is None or memory > GPU_BUSY * whole or (share or 0) > GPU_BUSY * 100:
            use = [f"{memory / _GIB:.1f} of {whole / _GIB:.1f} GiB"] if memory is not None else []
            use += [f"{share} % busy"] if share is not None else []
            names = _name_apps(apps[uuid], owners)
            said.append(f"GPU {index} is used by {names}: {', '.join(use) or 'how much is not known'}")
    return _join(said, "; ")


def _is_chosen(settings: Settings, place: int, index: str, uuid: str) -> bool:
    """Whether the benchmark may use this GPU. Parts of one (MIG) are each their owner's: nothing is said of those."""
    if isinstance(settings.devices, tuple):
        return index in settings.devices or any(len(name) > 4 and uuid.startswith(name) for name in settings.devices)
    return settings.devices == "all" or (isinstance(settings.devices, int) and place < settings.devices)


def _add_memory(apps: Sequence[GpuApp]) -> int | None:
    held = [app.memory_bytes for app in apps if app.memory_bytes is not None]
    return sum(held) if len(held) == len(apps) else None


def _name_apps(apps: Sequence[GpuApp], owners: dict[int, str]) -> str:
    return _join([_name_process((app.name or "").rpartition("/")[2], app.pid, owners) for app in apps], ", ")


def _find_on_processors(findings: Findings, owners: dict[int, str]) -> str:
    """What the processors are busy with, in words; empty: not with much."""
    busy, total = (read_count(word) for word in [*findings.words("cpu"), "", ""][:2])
    if not total or busy is None or busy < CPU_BUSY * total:
        return ""
    said = f"{busy / total * 100:.0f} % of its processors are busy with other work"
    shares = sorted(_count_ticks(findings.lines("cpu")).items(), key=lambda item: -item[1][0])
    names = [
        f"{_name_process(name, pid, owners)} {ticks / total * 100:.0f} %"
        for pid, (ticks, name) in shares[:_NAMED]
        if ticks >= 0.01 * total
    ]
    return f"{said}: {', '.join(names)}" if names else said


def _count_ticks(lines: Sequence[str]) -> dict[int, tuple[int, str]]:
    """By process, the ticks between its two lines and its name. One that came or went between them has only one."""
    seen: dict[tuple[int, str], list[int]] = {}
    for line in lines:
        if found := re.match(r"(\d{1,9}) (\d{1,15}) (\d{1,15}) (.*)", line):
            seen.setdefault((int(found[1]), found[4]), []).append(int(found[2]) + int(found[3]))
    return {pid: (max(ticks) - min(ticks), name) for (pid, name), ticks in seen.items() if len(ticks) == 2}


def _name_process(name: str, pid: int | None, owners: dict[int, str]) -> str:
    """`python3 (alice, pid 4242)`, as far as known."""
    about = [*([owners[pid]] if pid in owners else []), *([f"pid {pid}"] if pid is not None else [])]
    return (make_inert(name, 40) or "a process") + (f" ({', '.join(about)})" if about else "")


def _join(said: Sequence[str], between: str) -> str:
    more = len(said) - _NAMED
    return between.join(said[:_NAMED]) + (f" and {more} more" if more > 0 else "")
