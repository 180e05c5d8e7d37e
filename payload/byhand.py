"""One cell by hand, with the flags and the lines of tf_cnn_benchmarks."""

import argparse
import sys
from typing import Any, Dict, List, Optional, Tuple

from payload.catalog import read_catalog
from payload.cell import Cell
from payload.parent import measure_cell
from payload.process import Stop, Stopped
from payload.spec import Rules
from payload.timing import find_median

_DEFAULT_BATCH_SIZES = dict(
    {"alexnet": 512, "nasnetlarge": 16, "alexnet_cifar10": 128},
    **dict.fromkeys(["resnet50", "resnet50_v1.5", "resnet50_v2"], 64),
    **dict.fromkeys(["vgg11", "vgg11_lrn", "vgg13", "vgg16", "vgg16c", "vgg19"], 64),
    **dict.fromkeys(["densenet40_k12", "densenet100_k12", "densenet100_k24"], 64),
    **dict.fromkeys(["resnet20", "resnet32", "resnet44", "resnet56", "resnet110"], 128),
    **dict.fromkeys(["resnet20_v2", "resnet32_v2", "resnet44_v2", "resnet56_v2", "resnet110_v2"], 128),
)
"""The reference's; 32 for all others."""

_EVERY = 10
_ONE_WEEK_S = 604800.0
_LINE = "-" * 64


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of tf_cnn_benchmarks that mean the same here."""
    models = ", ".join(read_catalog())
    parser.add_argument("--model", metavar="NAME", help="what to measure: " + models)
    for flag, default, meaning in (
        ("batch_size", None, "images per step and device; default: as tf_cnn_benchmarks"),
        ("num_gpus", 1, "devices; default: 1"),
        ("num_batches", 100, "timed steps, at least 2; default: 100"),
        ("num_warmup_batches", 10, "steps before them; default: 10"),
    ):
        parser.add_argument("--" + flag, type=_read_count, default=default, metavar="N", help=meaning)
    parser.add_argument("--device", choices=["cpu", "gpu"], type=str.lower, default="gpu", help="default: gpu")
    layouts = "default: NCHW on a GPU, NHWC on a CPU"
    parser.add_argument("--data_format", choices=["NHWC", "NCHW"], type=str.upper, help=layouts)
    for flag, meaning in (("use_fp16", "float16, not float32"), ("forward_only", "inference, not training")):
        name = "--" + flag
        parser.add_argument(name, nargs="?", const=True, default=False, type=_read_bool, metavar="BOOL", help=meaning)
        parser.add_argument("--no" + flag, dest=flag, action="store_false", help=argparse.SUPPRESS)


def run_by_hand(flags: argparse.Namespace) -> int:
    """Measure what the flags say and print it as the reference does.

    Returns:
        0: measured. 1: not, with a sentence on standard error. 143, 130: told to stop.
    """
    cell, rules = read_flags(flags)
    stop = Stop()
    stop.listen()
    printer = _Printer(cell, rules)
    try:
        result = measure_cell(cell, rules, stop, printer.take, every=_EVERY)
    except Stopped:
        assert stop.signum is not None
        return 128 + stop.signum
    if result["status"] != "ok":
        tail = (result.get("log_tail") or "").splitlines()[-20:]
        sys.stderr.write("".join("    %s\n" % line for line in tail))
        sys.stderr.write("%s (%s): %s\n" % (result["status"], result["reason"], result["message"]))
        return 1
    _print(_LINE, "total images/sec: %.2f" % result["throughput"]["images_per_s_total"], _LINE)
    return 0


def read_flags(flags: argparse.Namespace) -> Tuple[Cell, Rules]:
    """The cell and the rules that the flags mean."""
    gpu = flags.device == "gpu"
    cell = Cell(
        model=flags.model,
        phase="forward" if flags.forward_only else "train",
        precision="fp16" if flags.use_fp16 else "fp32",
        batch_size=flags.batch_size or _DEFAULT_BATCH_SIZES.get(flags.model, 32),
        device=flags.device,
        devices=flags.num_gpus,
        data_format=flags.data_format or ("NCHW" if gpu else "NHWC"),
        xla=False,
    )
    steps = max(2, flags.num_batches)
    return cell, Rules(flags.num_warmup_batches, 0.0, steps, 0.0, _ONE_WEEK_S, _ONE_WEEK_S)


class _Printer:
    """Prints the child's events as they come."""

    def __init__(self, cell: Cell, rules: Rules) -> None:
        self._cell = cell
        self._rules = rules
        self._steps_us: List[int] = []

    def take(self, event: Dict[str, Any]) -> None:
        if event["event"] == "tensorflow":
            self._print_header(event["version"])
        elif event["event"] == "steps":
            self._steps_us += event["steps_us"]
            _print(format_steps(self._steps_us, event["loss"], self._cell.batch_size * self._cell.devices))
        elif event.get("stage") == "warmup":
            _print("Running warm up")
        elif event.get("stage") == "measure":
            _print("Done warm up", "Step\tImg/sec\ttotal_loss")

    def _print_header(self, version: str) -> None:
        cell = self._cell
        mode = {"train": "training", "forward": "forward-only"}[cell.phase]
        _print(
            "TensorFlow:  %s" % ".".join(version.split(".")[:2]),
            "Model:       %s" % cell.model,
            "Dataset:     imagenet (synthetic)",
            "Mode:        %s" % mode,
            "Batch size:  %d global" % (cell.batch_size * cell.devices),
            "             %d per device" % cell.batch_size,
            "Num batches: %d" % self._rules.steps,
            "Devices:     %s" % ["/%s:%d" % (cell.device, i) for i in range(cell.devices)],
            "Data format: %s" % cell.data_format,
            "Precision:   %s" % cell.precision,
            "Optimizer:   sgd",
            "==========",
        )


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


def _print(*lines: str) -> None:
    sys.stdout.write("".join(line + "\n" for line in lines))
    sys.stdout.flush()


def _read_count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0", "t", "f", "yes", "no"):
        raise ValueError(text)
    return text.lower() in ("true", "1", "t", "yes")
