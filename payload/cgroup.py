"""What the control groups around this process allow, and what they did to it. Linux, versions 1 and 2."""

import os
from typing import Callable, List, NamedTuple, Optional

_ROOT = "/sys/fs/cgroup"

Throttling = NamedTuple("Throttling", [("periods", int), ("throttled_s", float)])
"""How many periods of a cpu quota the group has used up so far, and how long its threads have waited for the next."""


def count_cpus() -> int:
    """Logical processors this process may use at once: its affinity, less where a cpu quota says so; at least 1."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    quota = read_cpu_quota()
    return count if quota is None else min(count, max(1, int(quota)))


def read_cpu_quota() -> Optional[float]:
    """Processors' worth of time: the lowest quota above this process. None: there is none."""
    quotas = [quota for quota in map(_read_quota, _list_folders("cpu")) if quota is not None]
    return min(quotas) if quotas else None


def read_memory_limit() -> Optional[int]:
    """Bytes: the lowest memory limit above this process. None: there is none."""
    limits = []
    for folder in _list_folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _read_number(folder + "/" + name)
            if limit is not None and limit < 1 << 60:
                limits.append(limit)
    return min(limits) if limits else None


def read_memory_used() -> Optional[int]:
    """Bytes that this process's group holds now, file cache included. None: cannot be told."""
    for folder in _list_folders("memory"):
        for name in ("memory.current", "memory.usage_in_bytes"):
            used = _read_number(folder + "/" + name)
            if used is not None:
                return used
    return None


def read_throttling() -> Optional[Throttling]:
    """Of the group, or of the one above it that is throttled the longest. None: cannot be told."""
    found = []
    for folder in _list_folders("cpu"):
        path = folder + "/cpu.stat"
        periods = _read_fields(path, "nr_throttled")
        times_s = [int(t) / 1e6 for t in _read_fields(path, "throttled_usec")]
        times_s += [int(t) / 1e9 for t in _read_fields(path, "throttled_time")]
        if periods and times_s:
            found.append(Throttling(int(periods[0]), times_s[0]))
    return max(found, key=lambda throttling: throttling.throttled_s) if found else None


def count_oom_kills() -> Optional[int]:
    """How many processes of this group itself the kernel has killed so far for memory. None: cannot be told."""
    for folder in _list_folders("memory"):
        for name in ("memory.events", "memory.oom_control"):
            for count in _read_fields(folder + "/" + name, "oom_kill"):
                return int(count)
    return None


def _list_folders(controller: str) -> List[str]:
    """The folders of this process's group, from itself up to the mount point, as far as they are visible."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    folders: List[str] = []
    for _, controllers, path in lines:
        if controllers == "":
            mount = _ROOT
        elif controller in controllers.split(","):
            mount = _find_mount(controllers, controller)
        else:
            continue
        while True:
            folders.append(mount + path.rstrip("/"))
            if path in ("", "/"):
                break
            path = os.path.dirname(path)
    return [folder for folder in folders if os.path.isdir(folder)]


def _find_mount(controllers: str, controller: str) -> str:
    for name in (controllers, controller):
        if os.path.isdir(_ROOT + "/" + name):
            return _ROOT + "/" + name
    return _ROOT + "/" + controller


def _read_quota(folder: str) -> Optional[float]:
    """Processors, from cpu.max or cpu.cfs_*; None: unlimited."""
    words = _read(folder + "/cpu.max", str.split) or []
    if len(words) == 2 and words[0].isdecimal():
        return int(words[0]) / float(words[1])
    quota = _read_number(folder + "/cpu.cfs_quota_us")
    period = _read_number(folder + "/cpu.cfs_period_us")
    return quota / float(period) if quota and quota > 0 and period else None


def _read_fields(path: str, key: str) -> List[str]:
    lines = [line.split() for line in _read(path, str.splitlines) or []]
    return [words[1] for words in lines if len(words) == 2 and words[0] == key]


def _read_number(path: str) -> Optional[int]:
    text = (_read(path, str.split) or [""])[0]
    return int(text) if text.lstrip("-").isdecimal() else None


def _read(path: str, split: Callable[[str], List[str]]) -> Optional[List[str]]:
    try:
        with open(path, encoding="utf-8") as file:
            return split(file.read())
    except OSError:
        return None
