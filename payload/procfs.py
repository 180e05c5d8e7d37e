"""What /proc and /sys say; nothing where they say nothing."""

import os
from typing import List, NamedTuple, Optional

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

MachineTime = NamedTuple("MachineTime", [("busy_s", float), ("steal_s", float), ("total_s", float)])
"""Processor seconds: worked, given to others by the hypervisor, all there were."""


def read_text(path: str) -> str:
    """A small file of the kernel; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def read_state(pid: int) -> Optional[str]:
    """The state of a process, one letter as in proc(5), e.g. D: it waits in the kernel and cannot be killed."""
    fields = _read_fields(pid)
    return fields[0] if fields else None


def read_cpu_s(pid: int) -> Optional[float]:
    """Processor seconds of a process, its threads, and its children that it has waited for."""
    fields = _read_fields(pid)
    return sum(int(word) for word in fields[11:15]) * _TICK_S if fields else None


def read_resident_bytes(pid: int) -> Optional[int]:
    """What a process holds in memory. None: it has ended."""
    fields = _read_fields(pid)
    return int(fields[21]) * _PAGE_BYTES or None if fields else None


def read_machine_s() -> Optional[MachineTime]:
    """Of the whole machine since it started; proc(5) has the order of the fields."""
    words = read_text("/proc/stat").split("\n", 1)[0].split()[1:9]
    if len(words) < 8:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (int(word) * _TICK_S for word in words)
    busy_s = user + nice + system + irq + softirq
    return MachineTime(busy_s, steal, busy_s + idle + iowait + steal)


def _read_fields(pid: int) -> List[str]:
    """Fields 3 and following of /proc/<pid>/stat: what stands behind the name, which may hold anything."""
    return read_text("/proc/%d/stat" % pid).rpartition(")")[2].split()
