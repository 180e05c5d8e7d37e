"""The report on a terminal, or in a file that a terminal's output was sent to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from fleet.report.failure_groups import FailureGroup, group_failures
from fleet.report.legend import explain_symbols
from fleet.report.setting_lines import SIGNS, name_place
from fleet.report.terminal_blocks import Ink, print_indented
from fleet.report.terminal_hosts import print_hosts
from fleet.report.terminal_matrix import print_matrix
from fleet.report.terminal_names import shorten_hosts
from fleet.report.terminal_wrap import wrap_words
from fleet.report.view_model import SettingLine, VerdictLine, View
from fleet.report.wording import count_things, fold_names, format_duration, format_time, say_end, say_rules

_INDENT = 4
_SIGNS = {"OK": ("✔", "bold green"), "RUNNING": ("▸", "bold yellow"), "INCOMPLETE": ("▸", "bold yellow")}
"""A run that is not complete is no failure."""

_CELLS_NAMED = 3
_CHANGES = 20
"""At most so many lines of what changed; the rest are counted, and in `fleet report --json`."""

_SETTINGS = 20
"""At most so many lines of settings; the rest are counted, and in `fleet report --json`."""

_COLOURS = {"fault": "red", "warning": "yellow", "note": "dim"}

_SENTENCES = 4
"""At most so many hosts' own sentences in one group of failures; the rest are counted, and in `fleet report --json`."""


def render_terminal(view: View, console: Console) -> None:
    """Print the report as wide as the console is.

    Nothing is cut off: what does not fit goes on in a further block or line. Without colour and without Unicode it
    says the same.
    """
    ink = Ink.of(console)
    short, domain = shorten_hosts(view)
    _print_head(view, console, ink)
    _print_list("What changed", _shorten(view.changes), console, ink)
    if _has_results(view):
        for matrix in short.matrices:
            print_matrix(console, matrix)
            console.print()
        _print_legend(view, console, ink)
    print_hosts(console, short.hosts)
    if domain:
        print_indented(console, ink.text(f"all hosts: their names end in {domain}", "dim"), 0)
    console.print()
    _print_failures(view, console, ink)
    _print_settings(view.settings, console, ink)
    _print_list("Notes", view.notes, console, ink)
    if view.to_come:
        for line in wrap_words(f"▸ {view.to_come}", console.width):
            console.print(ink.text(line, "bold"), soft_wrap=True)
        console.print()


def _has_results(view: View) -> bool:
    """Whether a matrix would show more than the failures below it."""
    entries = (entry for matrix in view.matrices for row in matrix.rows for entry in row.entries)
    return any(entry.kind in {"value", "result"} for entry in entries)


def _print_head(view: View, console: Console, ink: Ink) -> None:
    run = view.run
    parts = [f"suite {run.suite}", run.inventory, *([f"limit {run.limit}"] if run.limit else [])]
    parts += [format_time(run.created), *([f"took {format_duration(run.took_s)}"] if run.took_s is not None else [])]
    print_indented(console, _write_verdict(view.verdict, ink), 0)
    print_indented(console, ink.text(f"run {run.run_id} · {' · '.join(parts)}", "dim"), 0)
    print_indented(console, ink.text(f"each cell: {say_rules(run.rules)}", "dim"), 0)
    console.print()


def _write_verdict(verdict: VerdictLine, ink: Ink) -> Text:
    sign, style = _SIGNS.get(verdict.word, ("✖", "bold red"))
    line = Text.assemble(ink.text(f"{sign} {verdict.word}", style), "  ", ink.text(verdict.coverage, "bold"))
    if verdict.remarks:
        line.append_text(ink.text(f" · {', '.join(verdict.remarks)}"))
    return line


def _print_legend(view: View, console: Console, ink: Ink) -> None:
    meanings = explain_symbols(view.matrices) + [f"{word} = {meaning}" for word, meaning in view.legend.items()]
    if meanings:
        for line in _pack(meanings, console.width):
            print_indented(console, ink.text(line, "dim"), 0)
        console.print()


def _pack(phrases: Sequence[str], width: int) -> list[str]:
    """The phrases on as few lines as their order allows, none broken that fits on one."""
    lines: list[str] = []
    for phrase in phrases:
        if lines and cell_len(f"{lines[-1]} · {phrase}") <= width:
            lines[-1] += f" · {phrase}"
        else:
            lines.append(phrase)
    return lines


def _print_failures(view: View, console: Console, ink: Ink) -> None:
    if not view.failures:
        return
    console.print(ink.text(f"Failures ({len(view.failures)})", "bold"))
    console.print()
    planned = [host.alias for host in view.hosts]
    for group in group_failures(view.failures, planned, view.run.limit):
        _print_group(group, console, ink)
    console.print()


def _print_group(group: FailureGroup, console: Console, ink: Ink) -> None:
    names = ", ".join(fold_names(group.aliases))
    end = say_end(group.status, group.stage, group.reason, group.messages[0][1])
    crowd = len(group.aliases) > 1 and cell_len(f"✖ {names}  {end}") > console.width
    who = count_things(len(group.aliases), "host") if crowd else names
    print_indented(console, Text.assemble(ink.text("✖ ", "red"), ink.text(who, "bold"), ink.text(f"  {end}", "red")), 0)
    texts = [ink.text(sentence) for sentence in _list_sentences(group)]
    if group.hint and len(texts) == 1:
        texts[0].append_text(ink.text(f" → {group.hint}", "bold"))
    elif group.hint:
        texts.append(ink.text(f"→ {group.hint}", "bold"))
    for text in [ink.text(names, "bold"), *texts] if crowd else texts:
        print_indented(console, text, _INDENT)


def _list_sentences(group: FailureGroup) -> list[str]:
    """What happened: once, or for each set of hosts to which something else happened."""
    cells = f"{_name_cells(group.cells)}: " if group.cells else ""
    if len(group.messages) == 1:
        return [cells + group.messages[0][1]]
    sentences = [
        # Most begin with the address already.
        message if message.startswith(aliases[0]) else f"{', '.join(fold_names(aliases))}: {message}"
        for aliases, message in group.messages[:_SENTENCES]
    ]
    if len(group.messages) > _SENTENCES:
        sentences.append(f"And {len(group.messages) - _SENTENCES} more, in fleet report --json.")
    return [cells + sentences[0], *sentences[1:]]


def _name_cells(cells: Sequence[str]) -> str:
    more = len(cells) - _CELLS_NAMED
    return ", ".join(cells[:_CELLS_NAMED]) + (f" and {count_things(more, 'more cell')}" if more > 0 else "")


def _print_settings(settings: Sequence[SettingLine], console: Console, ink: Ink) -> None:
    if not settings:
        return
    console.print(ink.text("Settings to look at", "bold"))
    console.print()
    for line in settings[:_SETTINGS]:
        sign = ink.text(f"{SIGNS[line.severity]} ", _COLOURS[line.severity])
        text = Text.assemble(sign, ink.text(name_place(line), "bold"), ink.text(f"  {line.evidence}"))
        if line.remedy:
            text.append_text(ink.text(f" → {line.remedy}", "bold"))
        print_indented(console, text, 0)
    if len(settings) > _SETTINGS:
        print_indented(console, ink.text(f"and {len(settings) - _SETTINGS} more, in fleet report --json"), 0)
    console.print()


def _shorten(changes: Sequence[str]) -> Sequence[str]:
    if len(changes) <= _CHANGES:
        return changes
    return [*changes[:_CHANGES], f"and {len(changes) - _CHANGES} more, in fleet report --json"]


def _print_list(title: str, lines: Sequence[str], console: Console, ink: Ink) -> None:
    if not lines:
        return
    console.print(ink.text(title, "bold"))
    console.print()
    for line in lines:
        print_indented(console, Text.assemble(ink.text("· ", "dim"), ink.text(line)), 0)
    console.print()
