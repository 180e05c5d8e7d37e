"""What the machine did while the steps of a cell were timed: sampled twice a second by the parent."""

import time
from typing import Any, Dict, Optional, Tuple

from payload.cell import Cell
from payload.process import Observer
from payload.telemetry_cpu import CpuSampler
from payload.telemetry_gpu import GpuSampler

INTERVAL_S = 0.5

_DEAREST = 200.0
"""The next sample waits this many times the processor time the last one took: never more than 0.5 % of a core."""


class Telemetry(Observer):
    """Follows one child: samples from its first timed step to its last.

    Args:
        cell: what the child measures.
    """

    def __init__(self, cell: Cell) -> None:
        self._devices = cell.devices
        self._gpu = GpuSampler() if cell.device == "gpu" else None
        self._cpu: Optional[CpuSampler] = None
        self._sampling = False
        self._due_s = 0.0
        self._samples = 0
        self._cost_s = 0.0
        self._window: Optional[Tuple[float, float]] = None

    def open(self) -> None:
        """To be called before the child is started."""
        if self._gpu is not None:
            self._gpu.open()

    def begin(self, pid: int) -> None:
        self._cpu = CpuSampler(pid)

    def take(self, event: Dict[str, Any]) -> None:
        if event["event"] == "stage" and event["stage"] == "measure":
            self._sampling = True
            self._sample()
        elif event["event"] == "window":
            self._sample()
            self._sampling = False
            self._window = (event["begin_s"], event["end_s"])

    def tick(self) -> None:
        if time.monotonic() >= self._due_s:
            self._sample()

    def close(self) -> None:
        """To be called when the child has ended, however it did."""
        if self._gpu is not None:
            self._gpu.close()

    def look_again(self) -> None:
        """To be called after `close`, unless the payload was told to stop: may take seconds."""
        if self._gpu is not None:
            self._gpu.look_again()

    def summarise(self, output: str) -> Optional[Dict[str, Any]]:
        """`telemetry` of the result document; None: no steps were timed to the end.

        Args:
            output: the end of what the child printed.
        """
        if self._window is None or self._cpu is None:
            return None
        begin_s, end_s = self._window
        document: Dict[str, Any] = {
            "window_s": end_s - begin_s,
            "samples": self._samples,
            "sampler_cpu_s": self._cost_s,
            "cpu": self._cpu.summarise(begin_s, end_s),
            "gpus": [],
            "gpus_reason": "the cell ran on no GPU",
        }
        if self._gpu is not None:
            gpus = self._gpu.summarise(self._window, output, self._devices)
            reason = self._gpu.reason or (None if gpus else "the GPU it ran on is none that nvidia-smi shows, e.g. MIG")
            document.update(gpus=gpus, gpus_reason=reason, nvidia_smi_cpu_s=self._gpu.find_cost(self._window))
        return document

    def describe_foreign_memory(self) -> str:
        """A sentence about what others held on the GPUs before the child started; empty when they held nothing."""
        held = 0 if self._gpu is None else self._gpu.sum_foreign_memory()
        return "Others held %.1f GB on the GPUs before it started: see nvidia-smi." % (held / 1e9) if held else ""

    def _sample(self) -> None:
        """Outside the timed window only what nvidia-smi printed is taken, so that it never waits for its reader."""
        before_s = time.process_time()
        now_s = time.monotonic()
        if self._gpu is not None:
            self._gpu.sample()
        if self._sampling and self._cpu is not None:
            self._cpu.sample(now_s)
            self._samples += 1
        cost_s = time.process_time() - before_s
        self._cost_s += cost_s if self._sampling else 0.0
        self._due_s = now_s + max(INTERVAL_S, _DEAREST * cost_s)
