"""The lines people know: those of tf_cnn_benchmarks, and those of the classic AlexNet timing."""

import sys
from typing import Any, Dict, List, Optional

from payload.cell import Cell
from payload.spec import Rules
from payload.timing import find_median

CLASSIC = "alexnet_conv"
"""The network of the classic timing, which printed seconds per batch where others print images per second."""

_TITLES = {"forward": "Forward", "forward_backward": "Forward-backward"}


def is_classic(cell: Cell) -> bool:
    return cell.model == CLASSIC


class Printer:
    """Prints a child's events as they come."""

    def take(self, event: Dict[str, Any]) -> None:
        """One event, as `payload.child.PipeReport` sends it."""
        raise NotImplementedError


class ReferencePrinter(Printer):
    """As tf_cnn_benchmarks: a head, a line every few steps."""

    def __init__(self, cell: Cell, rules: Rules) -> None:
        self._cell = cell
        self._rules = rules
        self._steps_us: List[int] = []

    def take(self, event: Dict[str, Any]) -> None:
        if event["event"] == "tensorflow":
            self._print_header(event["version"])
        elif event["event"] == "steps":
            self._steps_us += event["steps_us"]
            images = self._cell.batch_size * self._cell.devices * self._cell.steps_per_call
            loss = event["loss"] if event["finite"] else float("nan")
            print_lines(format_steps(self._steps_us, loss, images))
        elif event.get("stage") == "warmup":
            print_lines("Running warm up")
        elif event.get("stage") == "measure":
            print_lines("Done warm up", "Step\tImg/sec\ttotal_loss")

    def _print_header(self, version: str) -> None:
        cell = self._cell
        mode = {"train": "training", "forward": "forward-only"}[cell.phase]
        logical = " (logical, on the same cores)" if cell.device == "cpu" and cell.devices > 1 else ""
        print_lines(
            "TensorFlow:  %s" % ".".join(version.split(".")[:2]),
            "Model:       %s" % cell.model,
            "Dataset:     imagenet (synthetic)",
            "Mode:        %s" % mode,
            "Batch size:  %d global" % (cell.batch_size * cell.devices),
            "             %d per device" % cell.batch_size,
            "Num batches: %d" % self._rules.steps,
            "Devices:     %s%s" % (["/%s:%d" % (cell.device, i) for i in range(cell.devices)], logical),
            "Data format: %s" % cell.data_format,
            "Precision:   %s" % cell.precision,
            "Optimizer:   %s" % cell.optimizer,
            "Variables:   %s" % cell.variable_update,
        )
        if cell.xla:
            print_lines("XLA:         on")
        if cell.steps_per_call > 1:
            print_lines("A step is:   %d steps in one call" % cell.steps_per_call)
        if self._rules.numa_node is not None:
            print_lines("NUMA node:   %d" % self._rules.numa_node)
        print_lines("==========")


class ClassicPrinter(Printer):
    """As the AlexNet timing of the TensorFlow tutorials: the shapes of the layers, the seconds of every tenth step."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._steps = 0

    def take(self, event: Dict[str, Any]) -> None:
        if event["event"] == "activations" and self._cell.phase == "forward":
            print_lines(*("%-6s %s" % (name, shape) for name, shape in event["shapes"]))
        elif event["event"] == "steps":
            self._steps += len(event["steps_us"])
            print_lines("step %d, duration = %.3f" % (self._steps - 1, event["steps_us"][-1] / 1e6))


def format_summary(phase: str, timing: Dict[str, Any]) -> str:
    """The classic timing's result: mean and population standard deviation of seconds per batch.

    Args:
        timing: of the result document.
    """
    counted = timing["steps"] - timing["dropped_steps"]
    numbers = (_TITLES[phase], counted, timing["mean_us"] / 1e6, timing["sd_us"] / 1e6)
    return "%s across %d steps, %.3f +/- %.3f sec / batch" % numbers


def format_steps(steps_us: List[int], loss: Optional[float], images: int) -> str:
    """The reference's line: step, images/s over all steps so far, its standard error, its jitter, the loss."""
    speeds = [images / max(t, 1) * 1e6 for t in steps_us]
    n = len(speeds)
    mean = images * n / max(sum(steps_us), 1) * 1e6
    average = sum(speeds) / n
    uncertainty = (sum((v - average) ** 2 for v in speeds) / n) ** 0.5 / n**0.5
    middle = find_median(speeds)
    jitter = 1.4826 * find_median([abs(v - middle) for v in speeds])
    return "%d\timages/sec: %.1f +/- %.1f (jitter = %.1f)\t%.3f" % (n, mean, uncertainty, jitter, loss or 0.0)


def print_lines(*lines: str) -> None:
    """At once, however the output is buffered."""
    sys.stdout.write("".join(line + "\n" for line in lines))
    sys.stdout.flush()
