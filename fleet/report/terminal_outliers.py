"""The odd ones among identical hosts, on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from fleet.analysis.odd_host import OddHost, SlowCell
from fleet.analysis.sentence import say_change
from fleet.report.outlier_view import CohortLine, OutlierView
from fleet.report.terminal_blocks import Ink, print_indented
from fleet.report.wording import count_things, format_time, join_names

_INDENT = 4
_CELLS = 5
"""At most so many slow cells of a host; the rest are counted."""


def render_outliers(view: OutlierView, console: Console) -> None:
    """Print who is slow, by how much, and what of it differs; then who could not be judged, and why."""
    ink = Ink.of(console)
    style = "bold red" if view.odd else "bold green" if view.judged else "bold yellow"
    print_indented(console, ink.text(view.sentence, style), 0)
    head = f"run {view.run_id} · suite {view.suite} · {format_time(view.created)}"
    print_indented(console, ink.text(head, "dim"), 0)
    console.print()
    for cohort in view.cohorts:
        if cohort.odd:
            _print_cohort(cohort, console, ink)
    unjudged = [cohort for cohort in view.cohorts if cohort.unjudged]
    if unjudged:
        console.print(ink.text("Not judged", "bold"))
        console.print()
        for cohort in unjudged:
            line = f"{join_names(cohort.aliases)} ({cohort.hardware}): {cohort.unjudged}"
            print_indented(console, Text.assemble(ink.text("· ", "dim"), ink.text(line)), 0)
        console.print()


def _print_cohort(cohort: CohortLine, console: Console, ink: Ink) -> None:
    console.print(ink.text(f"{cohort.hardware}: {len(cohort.odd)} of {cohort.measured} hosts", "bold"))
    console.print()
    for line in cohort.odd:
        _print_host(line.host, console, ink)
        differs = "; ".join(line.differences) or "nothing that is known of it"
        print_indented(console, ink.text(f"not as on most of the others: {differs}"), _INDENT)
        console.print()


def _print_host(host: OddHost[str], console: Console, ink: Ink) -> None:
    share = f"slow in {len(host.cells)} of {count_things(host.count, 'cell')}"
    if host.change is not None:
        share = f"{say_change(host.change)} in all cells (z {host.z:.1f}), {share}"
    print_indented(
        console, Text.assemble(ink.text("▼ ", "red"), ink.text(host.alias, "bold"), ink.text(f"  {share}")), 0
    )
    for cell in host.cells[:_CELLS]:
        print_indented(console, ink.text(_say_cell(cell)), _INDENT)
    if len(host.cells) > _CELLS:
        print_indented(console, ink.text(f"and {len(host.cells) - _CELLS} more, with --json", "dim"), _INDENT)


def _say_cell(cell: SlowCell[str]) -> str:
    return f"{cell.key}  {say_change(cell.change)} (z {cell.z:.1f})"
