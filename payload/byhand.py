"""One cell by hand, with the flags and the lines of tf_cnn_benchmarks."""

import argparse
import sys

from payload.cell import Cell
from payload.flags import read_flags
from payload.lines import ClassicPrinter, Printer, ReferencePrinter, format_summary, is_classic, print_lines
from payload.parent import measure_cell
from payload.process import Stop, Stopped
from payload.spec import Rules

_LINE = "-" * 64


def run_by_hand(flags: argparse.Namespace) -> int:
    """Measure what the flags say and print it as the reference does.

    Returns:
        0: measured. 1: not, with a sentence on standard error. 143, 130: told to stop.

    Raises:
        WrongFlags: before anything is begun.
    """
    cells, rules = read_flags(flags)
    stop = Stop()
    stop.listen()
    for cell in cells:
        try:
            result = measure_cell(cell, rules, stop, make_printer(cell, rules).take, every=flags.display_every)
        except Stopped:
            assert stop.signum is not None
            return 128 + stop.signum
        if result["status"] != "ok":
            if result["status"] != "unsupported":
                tail = (result.get("log_tail") or "").splitlines()[-20:]
                sys.stderr.write("".join("    %s\n" % line for line in tail))
            sys.stderr.write("%s (%s): %s\n" % (result["status"], result["reason"], result["message"]))
            return 1
        if is_classic(cell):
            print_lines(format_summary(cell.phase, result["timing"]))
        else:
            print_lines(_LINE, "total images/sec: %.2f" % result["throughput"]["images_per_s_total"], _LINE)
    return 0


def make_printer(cell: Cell, rules: Rules) -> Printer:
    """Whoever prints the child's events the way people know them for this cell."""
    return ClassicPrinter(cell) if is_classic(cell) else ReferencePrinter(cell, rules)
