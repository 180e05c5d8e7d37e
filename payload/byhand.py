"""One cell by hand, with the flags and the lines of tf_cnn_benchmarks."""

import argparse
import sys
from typing import Callable, List, Tuple

from payload.catalog import read_catalog
from payload.cell import OPTIMIZERS, PRECISIONS, VARIABLE_UPDATES, Cell
from payload.lines import CLASSIC, ClassicPrinter, Printer, ReferencePrinter, format_summary, is_classic, print_lines
from payload.parent import measure_cell
from payload.process import Stop, Stopped
from payload.spec import Rules

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
        ("steps_per_call", 1, "training steps in one call of the TensorFlow function; default: 1"),
        ("num_intra_threads", 0, "threads within an operation; default: chosen"),
        ("num_inter_threads", 0, "threads for operations side by side; default: chosen"),
    ):
        parser.add_argument("--" + flag, type=_make_reader(1), default=default, metavar="N", help=meaning)
    bound = "the NUMA node that the process is kept to; default: to none"
    parser.add_argument("--numa_node", type=_make_reader(0), metavar="N", help=bound)
    parser.add_argument("--device", choices=["cpu", "gpu"], type=str.lower, default="gpu", help="default: gpu")
    layouts = "default: NCHW on a GPU, NHWC on a CPU"
    parser.add_argument("--data_format", choices=["NHWC", "NCHW"], type=str.upper, help=layouts)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd", help="default: sgd")
    exchange = "what several devices do with their gradients; default: replicated"
    parser.add_argument("--variable_update", choices=VARIABLE_UPDATES, default="replicated", help=exchange)
    parser.add_argument("--precision", choices=PRECISIONS, help="default: fp32")
    for flag, meaning in (
        ("use_fp16", "the same as --precision=fp16"),
        ("forward_only", "inference, not training"),
        ("xla", "compiled by XLA"),
        ("compat", "tf_cnn_benchmarks to the letter: its learning rates, NaN or not, and exactly so many steps"),
    ):
        name = "--" + flag
        parser.add_argument(name, nargs="?", const=True, default=False, type=_read_bool, metavar="BOOL", help=meaning)
        parser.add_argument("--no" + flag, dest=flag, action="store_false", help=argparse.SUPPRESS)


def run_by_hand(flags: argparse.Namespace) -> int:
    """Measure what the flags say and print it as the reference does.

    Returns:
        0: measured. 1: not, with a sentence on standard error. 143, 130: told to stop.
    """
    cells, rules = read_flags(flags)
    stop = Stop()
    stop.listen()
    for cell in cells:
        try:
            result = measure_cell(cell, rules, stop, make_printer(cell, rules).take, every=_EVERY)
        except Stopped:
            assert stop.signum is not None
            return 128 + stop.signum
        if result["status"] != "ok":
            tail = (result.get("log_tail") or "").splitlines()[-20:]
            sys.stderr.write("".join("    %s\n" % line for line in tail))
            sys.stderr.write("%s (%s): %s\n" % (result["status"], result["reason"], result["message"]))
            return 1
        if is_classic(cell):
            print_lines(format_summary(cell.phase, result["timing"]))
        else:
            print_lines(_LINE, "total images/sec: %.2f" % result["throughput"]["images_per_s_total"], _LINE)
    return 0


def read_flags(flags: argparse.Namespace) -> Tuple[List[Cell], Rules]:
    """The cells and the rules that the flags mean. The classic timing is of two cells, one a phase."""
    gpu = flags.device == "gpu"
    classic = flags.model == CLASSIC
    cell = Cell(
        model=flags.model,
        phase="forward" if flags.forward_only or classic else "train",
        precision="fp16" if flags.use_fp16 else flags.precision or "fp32",
        batch_size=flags.batch_size or _DEFAULT_BATCH_SIZES.get(flags.model, 32),
        device=flags.device,
        devices=flags.num_gpus,
        data_format=flags.data_format or ("NCHW" if gpu and not classic else "NHWC"),
        xla=flags.xla,
        optimizer=flags.optimizer,
        variable_update=flags.variable_update,
        steps_per_call=flags.steps_per_call,
    )
    rules = Rules(
        warmup_steps=flags.num_warmup_batches,
        warmup_s=0.0,
        steps=max(2, flags.num_batches),
        min_s=0.0,
        max_s=_ONE_WEEK_S,
        cell_timeout_s=_ONE_WEEK_S,
        compat=flags.compat,
        intra_threads=flags.num_intra_threads,
        inter_threads=flags.num_inter_threads,
        numa_node=flags.numa_node,
    )
    both = classic and not flags.forward_only
    return [cell] + ([cell._replace(phase="forward_backward")] if both else []), rules


def make_printer(cell: Cell, rules: Rules) -> Printer:
    """Whoever prints the child's events the way people know them for this cell."""
    return ClassicPrinter(cell) if is_classic(cell) else ReferencePrinter(cell, rules)


def _make_reader(least: int) -> Callable[[str], int]:
    """Reads an argument that is a whole number from `least`."""

    def read(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError("%r is no whole number from %d" % (text, least))
        return int(text)

    return read


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0", "t", "f", "yes", "no"):
        raise argparse.ArgumentTypeError("%r is neither true nor false" % text)
    return text.lower() in ("true", "1", "t", "yes")
