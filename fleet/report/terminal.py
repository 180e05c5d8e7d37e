"""The report on a terminal, or in a file that a terminal's output was sent to."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from fleet.report.terminal_blocks import Ink, print_indented
from fleet.report.terminal_hosts import print_hosts
from fleet.report.terminal_matrix import explain_symbols, print_matrix
from fleet.report.view_model import FailureLine, VerdictLine, View
from fleet.report.wording import format_duration, format_time, say_status

_INDENT = 4
_CELLS_NAMED = 3


def render_terminal(view: View, console: Console) -> None:
    """Print the report as wide as the console is.

    Nothing is cut off: what does not fit goes on in a further block or line. Without colour and without Unicode it
    says the same.
    """
    ink = Ink.of(console)
    _print_head(view, console, ink)
    for matrix in view.matrices:
        print_matrix(console, matrix)
        console.print()
    _print_legend(view, console, ink)
    print_hosts(console, view.hosts)
    console.print()
    _print_failures(view, console, ink)
    _print_notes(view, console, ink)


def _print_head(view: View, console: Console, ink: Ink) -> None:
    run = view.run
    parts = [f"suite {run.suite}", run.inventory, *([f"limit {run.limit}"] if run.limit else [])]
    parts += [format_time(run.created), *([f"took {format_duration(run.took_s)}"] if run.took_s is not None else [])]
    console.print(_write_verdict(view.verdict, ink))
    console.print(ink.text(f"run {run.run_id} · {' · '.join(parts)}", "dim"))
    console.print()


def _write_verdict(verdict: VerdictLine, ink: Ink) -> Text:
    good = verdict.word in {"OK", "RUNNING"}
    style = "bold green" if verdict.word == "OK" else "bold yellow" if good else "bold red"
    line = Text.assemble(
        ink.text(f"{'✔' if good else '✖'} {verdict.word}", style), "  ", ink.text(verdict.coverage, "bold")
    )
    if verdict.remarks:
        line.append_text(ink.text(f" · {', '.join(verdict.remarks)}"))
    return line


def _print_legend(view: View, console: Console, ink: Ink) -> None:
    meanings = explain_symbols(view.matrices) + [f"{word} = {meaning}" for word, meaning in view.legend.items()]
    if meanings:
        console.print(ink.text(" · ".join(meanings), "dim"))
        console.print()


def _print_failures(view: View, console: Console, ink: Ink) -> None:
    if not view.failures:
        return
    console.print(ink.text(f"Failures ({len(view.failures)})", "bold"))
    console.print()
    for failure in view.failures:
        head = Text.assemble(ink.text("✖ ", "red"), ink.text(failure.alias, "bold"), ink.text(_place(failure), "red"))
        console.print(head)
        text = ink.text(_say_what(failure))
        if failure.hint:
            text.append_text(ink.text(f" → {failure.hint}", "bold"))
        print_indented(console, text, _INDENT)
    console.print()


def _place(failure: FailureLine) -> str:
    stage = f" at {failure.stage}" if failure.stage else ""
    reason = f" ({failure.reason})" if failure.reason and failure.reason != failure.status else ""
    return f"  {say_status(failure.status)}{stage}{reason}"


def _say_what(failure: FailureLine) -> str:
    if not failure.cells:
        return failure.message
    named = ", ".join(failure.cells[:_CELLS_NAMED])
    more = len(failure.cells) - _CELLS_NAMED
    return f"{named}{f' and {more} more cells' if more > 0 else ''}: {failure.message}"


def _print_notes(view: View, console: Console, ink: Ink) -> None:
    if not view.notes:
        return
    console.print(ink.text("Notes", "bold"))
    console.print()
    for note in view.notes:
        console.print(Text.assemble(ink.text("· ", "dim"), ink.text(note)))
    console.print()
