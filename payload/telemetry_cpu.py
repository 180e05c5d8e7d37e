"""What the processors did while a cell was timed, from /proc, /sys and the control groups."""

import glob
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from payload.cgroup import read_memory_used, read_throttling
from payload.procfs import read_cpu_s, read_machine_s, read_resident_bytes, read_text
from payload.series import Series, find_middle

SHORTEST_S = 0.2
"""The kernel counts processor time in hundredths of a second: of a shorter window nothing is said."""

ENERGY_S = 1.0
"""Energy is given of windows at least this long."""

_MOST_CPUS = 8
"""Of how many processors the frequency is asked: each may cost an interrupt."""

_CPU_MHZ = re.compile(r"^processor\s*: (\d+)$.*?^cpu MHz\s*: ([\d.]+)", re.M | re.S)

_GAUGES = ("frequency_mhz", "load1", "process_memory_bytes", "group_memory_bytes")
_COUNTERS = ("cell_s", "busy_s", "steal_s", "total_s", "throttled_periods", "throttled_s", "energy_j")


class CpuSampler:
    """Samples the machine, the child and the group around it.

    Args:
        pid: the child's.
        powercap: where the kernel shows RAPL's zones.
    """

    def __init__(self, pid: int, powercap: str = "/sys/class/powercap") -> None:
        self._pid = pid
        self._energy = _Energy(powercap)
        self._series = {name: Series() for name in _GAUGES + _COUNTERS}
        self._frequency_source: Optional[str] = None

    def sample(self, at_s: float) -> None:
        """Take one sample of everything."""
        values: Dict[str, Optional[float]] = {"load1": os.getloadavg()[0], "energy_j": self._energy.read()}
        values["frequency_mhz"] = self._read_frequency()
        values["cell_s"] = read_cpu_s(self._pid)
        values["process_memory_bytes"] = read_resident_bytes(self._pid)
        values["group_memory_bytes"] = read_memory_used()
        machine = read_machine_s()
        if machine is not None:
            values.update(machine._asdict())
        throttling = read_throttling()
        if throttling is not None:
            values.update(throttled_periods=throttling.periods, throttled_s=throttling.throttled_s)
        for name, value in values.items():
            self._series[name].add(at_s, value)

    def summarise(self, begin_s: float, end_s: float) -> Dict[str, Any]:
        """`telemetry.cpu` of the result document, for the window from `begin_s` to `end_s`."""
        gauges = {name: self._series[name].clip(begin_s, end_s) for name in _GAUGES}
        load = gauges["load1"]
        document: Dict[str, Any] = {
            "frequency_mhz_p50": find_middle(gauges["frequency_mhz"]),
            "frequency_source": self._frequency_source,
            "load1_mean": sum(load) / len(load) if load else None,
            "process_memory_max_bytes": _find_largest(gauges["process_memory_bytes"]),
            "group_memory_max_bytes": _find_largest(gauges["group_memory_bytes"]),
        }
        document.update(self._summarise_counters(begin_s, end_s))
        document["reasons"] = self._explain(document, end_s - begin_s)
        return document

    def _summarise_counters(self, begin_s: float, end_s: float) -> Dict[str, Optional[float]]:
        grown = {name: self._series[name].find_growth(begin_s, end_s) for name in _COUNTERS}
        if end_s - begin_s < SHORTEST_S:
            grown = dict.fromkeys(grown)
        if end_s - begin_s < ENERGY_S:
            grown["energy_j"] = None
        cell_s, busy_s, total_s, steal_s = (grown[key] for key in ("cell_s", "busy_s", "total_s", "steal_s"))
        others = steal = None
        if total_s and busy_s is not None and cell_s is not None and steal_s is not None:
            others = max(0.0, busy_s - cell_s) / total_s
            steal = steal_s / total_s
        return {
            "cell_cpu_s": cell_s,
            "other_busy_share": others,
            "steal_share": steal,
            "throttled_periods": None if grown["throttled_periods"] is None else round(grown["throttled_periods"]),
            "throttled_s": grown["throttled_s"],
            "energy_j": grown["energy_j"],
        }

    def _explain(self, document: Dict[str, Any], window_s: float) -> Dict[str, str]:
        """Why what is not known is not."""
        reasons = {
            "frequency_mhz_p50": "neither cpufreq nor /proc/cpuinfo says it",
            "group_memory_max_bytes": "no memory control group is visible",
            "throttled_periods": "no cpu control group is visible",
            "throttled_s": "no cpu control group is visible",
            "energy_j": self._energy.reason or "the window is shorter than %g s" % ENERGY_S,
        }
        short = "the window is shorter than %g s" % SHORTEST_S
        missing = [key for key, value in document.items() if value is None and key != "frequency_source"]
        return {key: short if window_s < SHORTEST_S else reasons.get(key, "not sampled") for key in missing}

    def _read_frequency(self) -> Optional[float]:
        """The median over some of the cell's processors, now; None as well when it has ended."""
        cpus = _choose_cpus(self._pid)
        if not cpus:
            return None
        frequencies = []
        for cpu in cpus:
            text = read_text("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq" % cpu).strip()
            if text.isdecimal():
                frequencies.append(int(text) / 1e3)
        self._frequency_source = "cpufreq" if frequencies else None
        if not frequencies:
            found = _CPU_MHZ.findall(read_text("/proc/cpuinfo"))
            frequencies = [float(mhz) for cpu, mhz in found if int(cpu) in cpus]
            self._frequency_source = "cpuinfo" if frequencies else None
        return find_middle(frequencies)


class _Energy:
    """RAPL's counters of the processor packages, which start again from 0 at the end of their range."""

    def __init__(self, powercap: str) -> None:
        self._zones: List[Tuple[str, float]] = []
        self._last: Dict[str, float] = {}
        self._total_uj = 0.0
        self.reason: Optional[str] = "this machine shows no RAPL"
        for folder in sorted(glob.glob(powercap + "/intel-rapl:*")):
            if read_text(folder + "/name").startswith("package"):
                spread = read_text(folder + "/max_energy_range_uj").strip()
                self._zones.append((folder + "/energy_uj", float(spread) if spread.isdecimal() else 0.0))

    def read(self) -> Optional[float]:
        """Joules since the first call, all packages; None: cannot be read."""
        if not self._zones:
            return None
        for path, spread in self._zones:
            text = read_text(path).strip()
            if not text.isdecimal():
                self.reason = "RAPL is there, and only root may read it"
                return None
            now = float(text)
            grown = now - self._last.get(path, now)
            self._total_uj += grown + spread if grown < 0 else grown
            self._last[path] = now
        self.reason = None
        return self._total_uj / 1e6


def _choose_cpus(pid: int) -> List[int]:
    """Some of the processors that a process may use, evenly spread; none when it has ended."""
    try:
        cpus = sorted(os.sched_getaffinity(pid))
    except (AttributeError, ProcessLookupError):
        return []
    return cpus[:: -(-len(cpus) // _MOST_CPUS)]


def _find_largest(values: List[float]) -> Optional[int]:
    return int(max(values)) if values else None
