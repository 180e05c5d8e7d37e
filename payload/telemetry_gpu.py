"""What the GPUs did while a cell was timed, from one long nvidia-smi."""

import os
import re
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from payload.nvidia_smi import App, SmiError, SmiStream, find_program, list_apps
from payload.series import Series, find_middle
from payload.telemetry_cpu import ENERGY_S

THROTTLES = (
    ("applications_clocks", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal", 0x20),
    ("hw_thermal", 0x40),
    ("hw_power_brake", 0x80),
)
"""Why clocks are lower than they could be, by bit of the active event reasons (nvml.h, nvmlClocksEventReason*)."""

_STAMP = "%Y/%m/%d %H:%M:%S"
_OLDEST_S = 60.0
_EVER = (float("-inf"), float("inf"))


class GpuSampler:
    """Follows all GPUs of the machine while one child runs.

    Attributes:
        reason: why nothing is known; None: something is.
        before, after: who else was on the GPUs before the child started and after it had ended; None: not known.
    """

    def __init__(self) -> None:
        self._stream: Optional[SmiStream] = None
        self._gpus: Dict[str, "_Gpu"] = {}
        self._program = find_program()
        self.reason: Optional[str] = None if self._program else "there is no nvidia-smi here"
        self.before: Optional[List[App]] = None
        self.after: Optional[List[App]] = None
        self._cpu = Series()

    def open(self) -> None:
        """Start following. To be called before the child is started."""
        if self._program is None:
            return
        try:
            self._stream = SmiStream(self._program)
            self.before = list_apps(self._program)
        except SmiError as error:
            self.reason = str(error)

    def sample(self) -> None:
        """Take what nvidia-smi has printed."""
        if self._stream is None:
            return
        self._cpu.add(time.monotonic(), self._stream.read_cpu_s())
        for row in self._stream.read():
            uuid = row.get("uuid", "")
            gpu = self._gpus.setdefault(uuid, _Gpu(uuid, row.get("pci_bus_id", "")))
            gpu.add(_read_stamp(row.get("timestamp", "")), row)

    def close(self) -> None:
        """Stop following; quickly, since somebody may be waiting for the whole payload to end."""
        if self._stream is None:
            return
        self.sample()
        self._stream.close()
        if not self._gpus and self.reason is None:
            self.reason = "nvidia-smi printed no rows: %s" % (self._stream.complaint or "nothing at all")
        self._stream = None

    def look_again(self) -> None:
        """See who is on the GPUs when the child has ended."""
        if self._program is None or self.before is None:
            return
        try:
            self.after = list_apps(self._program)
        except SmiError as error:
            self.reason = self.reason or str(error)

    def summarise(self, window: Tuple[float, float], output: str, count: int) -> List[Dict[str, Any]]:
        """`telemetry.gpus` of the result document: the GPUs the cell ran on.

        Args:
            window: seconds of the monotonic clock.
            output: the end of what the child printed; TensorFlow names its devices there.
            count: how many GPUs the cell ran on.
        """
        return [
            dict(gpu.summarise(*window), others_before=_pick(self.before, gpu), others_after=_pick(self.after, gpu))
            for gpu in self._choose(output, count)
        ]

    def find_cost(self, window: Tuple[float, float]) -> float:
        """Processor seconds that nvidia-smi took within the window."""
        return self._cpu.find_growth(*window) or 0.0

    def sum_foreign_memory(self) -> int:
        """Bytes that others held on any GPU before the child started, as far as known."""
        return sum(app.memory_bytes or 0 for app in self.before or [])

    def _choose(self, output: str, count: int) -> List["_Gpu"]:
        """By what TensorFlow says it uses; when it does not, by the order in which CUDA counts."""
        gpus = list(self._gpus.values())
        named = find_bus_ids(output)
        chosen = [gpu for gpu in gpus if gpu.pci_bus_id in named]
        if chosen:
            return chosen
        return select_visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))[:count]


class _Gpu:
    """The samples of one GPU."""

    def __init__(self, uuid: str, pci_bus_id: str) -> None:
        self.uuid = uuid
        self.pci_bus_id = shorten_bus_id(pci_bus_id)
        self._series: Dict[str, Series] = {}
        self._words: Dict[str, str] = {}

    def add(self, at_s: float, row: Dict[str, str]) -> None:
        for name in set(row) - {"timestamp", "uuid", "pci_bus_id"}:
            value = parse_value(row[name])
            if value is None:
                self._words[name] = row[name]
            self._series.setdefault(name, Series()).add(at_s, value)

    def summarise(self, begin_s: float, end_s: float) -> Dict[str, Any]:
        length_s = end_s - begin_s
        energy_j = self._find("power_w").integrate(begin_s, end_s)
        inside = {
            name: self._find(name).clip(begin_s, end_s)
            for name in ("sm_mhz", "memory_mhz", "temperature_c", "memory_mib", "pcie_gen", "pcie_width")
        }
        memory = _largest(inside["memory_mib"])
        document: Dict[str, Any] = {
            "uuid": self.uuid,
            "pci_bus_id": self.pci_bus_id,
            "samples": len(inside["sm_mhz"]),
            "sm_mhz_p50": find_middle(inside["sm_mhz"]),
            "memory_mhz_p50": find_middle(inside["memory_mhz"]),
            "power_w_mean": energy_j / length_s if energy_j is not None and length_s > 0 else None,
            "energy_j": energy_j if length_s >= ENERGY_S else None,
            "temperature_c_max": _largest(inside["temperature_c"]),
            "throttle_s": self._sum_throttles(begin_s, end_s),
            "memory_peak_bytes": None if memory is None else int(memory) << 20,
            "pcie_gen": _whole(_largest(inside["pcie_gen"])),
            "pcie_width": _whole(_largest(inside["pcie_width"])),
        }
        for name in ("ecc_corrected", "ecc_uncorrected", "pcie_replays"):
            document[name + "_delta"] = _whole(self._find(name).find_growth(*_EVER))
        document["reasons"] = self._explain(document, length_s)
        return document

    def _find(self, name: str) -> Series:
        return self._series.get(name, Series())

    def _sum_throttles(self, begin_s: float, end_s: float) -> Optional[Dict[str, float]]:
        """Seconds of the window by reason: every sample stands for an equal part of it."""
        masks = [int(mask) for mask in self._find("event_reasons").clip(begin_s, end_s)]
        if not masks:
            return None
        part_s = (end_s - begin_s) / len(masks)
        return {name: part_s * sum(1 for mask in masks if mask & bit) for name, bit in THROTTLES}

    def _explain(self, document: Dict[str, Any], length_s: float) -> Dict[str, str]:
        """Why what is not known is not: nvidia-smi's own words where it had any."""
        sources = {"memory_peak_bytes": "memory_mib", "throttle_s": "event_reasons", "energy_j": "power_w"}
        reasons = {}
        for key, value in document.items():
            if value is not None:
                continue
            source = sources.get(key) or re.sub("_(p50|mean|max|delta)$", "", key)
            if key == "energy_j" and length_s < ENERGY_S:
                reasons[key] = "the window is shorter than %g s" % ENERGY_S
            elif source in self._words:
                reasons[key] = self._words[source]
            else:
                reasons[key] = (
                    "no sample in the window" if source in self._series else "this nvidia-smi does not know it"
                )
        return reasons


def parse_value(text: str) -> Optional[float]:
    """A number, or a mask in hexadecimal; None of words such as `[N/A]`."""
    if re.match(r"0x[0-9a-fA-F]+$", text):
        return float(int(text, 16))
    return float(text) if re.match(r"-?\d+(\.\d+)?$", text) else None


def shorten_bus_id(text: str) -> str:
    """`00000000:65:00.0` (nvidia-smi) and `0000:65:00.0` (CUDA) as the latter, in small letters."""
    domain, _, rest = text.strip().lower().partition(":")
    return domain[-4:].rjust(4, "0") + ":" + rest


def find_bus_ids(output: str) -> List[str]:
    """The GPUs that TensorFlow says it has made devices of."""
    lines = re.findall(r"Created (?:TensorFlow )?device .*?pci bus id: ([0-9a-fA-F:.]+)", output)
    return [shorten_bus_id(bus_id) for bus_id in lines]


def select_visible(gpus: Sequence[_Gpu], visible: Optional[str]) -> List[_Gpu]:
    """The GPUs in the order in which CUDA counts them, by CUDA_VISIBLE_DEVICES.

    Args:
        gpus: in the order of nvidia-smi, which is that of the PCI bus; children count by that, too.
    """
    if visible is None:
        return list(gpus)
    chosen: List[_Gpu] = []
    for word in visible.split(","):
        word = word.strip()
        if word.isdecimal() and len(word) < 5 and int(word) < len(gpus):
            chosen.append(gpus[int(word)])
        elif word.startswith("GPU-"):
            chosen += [gpu for gpu in gpus if gpu.uuid.startswith(word)][:1]
        else:
            break  # As CUDA does it: what stands behind a wrong word is not seen.
    return chosen


def _read_stamp(text: str) -> float:
    """When a row was sampled, in seconds of the monotonic clock.

    nvidia-smi may print into a buffer, so its own time is taken: local, without a zone. One that cannot be is not.
    """
    now_s, wall_s = time.monotonic(), time.time()
    try:
        seconds, _, fraction = text.partition(".")
        stamp_s = time.mktime(time.strptime(seconds, _STAMP)) + float("0." + (fraction or "0"))
    except (ValueError, OverflowError):
        return now_s
    age_s = wall_s - stamp_s
    return now_s - age_s if -1.0 <= age_s <= _OLDEST_S else now_s


def _pick(apps: Optional[List[App]], gpu: _Gpu) -> Optional[List[Dict[str, Any]]]:
    if apps is None:
        return None
    mine = [app for app in apps if app.uuid == gpu.uuid]
    return [{"pid": app.pid, "name": app.name, "memory_bytes": app.memory_bytes} for app in mine]


def _largest(values: List[float]) -> Optional[float]:
    return max(values) if values else None


def _whole(value: Optional[float]) -> Optional[int]:
    return None if value is None else round(value)
