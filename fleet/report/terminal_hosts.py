"""The host table on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.terminal_matrix import GROUP_ABOVE
from fleet.report.view_model import HostRow
from fleet.report.wording import fold_names, format_duration, format_rate, say_status, shorten_digest

_GIB = 1 << 30
_UNKNOWN = "?"


@dataclass(frozen=True)
class _Fact:
    head: str
    read: Callable[[HostRow], str]
    shared: Callable[[str], str]
    """How it is said once, when all hosts agree."""
    number: bool = False
    own: bool = False
    """A host's own: always a column, never said once for all."""
    personal: bool = False
    """Differs from host to host though nothing is different; left out when alike hosts share a line."""


_FACTS = (
    _Fact("status", lambda host: say_status(host.status), str, own=True),
    _Fact(
        "cells",
        lambda host: f"{host.cells_ok}/{host.cells_total}",
        lambda value: f"{value} cells",
        number=True,
        own=True,
    ),
    _Fact("hardware", lambda host: host.hardware, str, own=True),
    _Fact("CPU", lambda host: host.cpu if host.hardware != host.cpu else "", str),
    _Fact("cores", lambda host: _write_number(host.cores), lambda value: f"{value} cores", number=True),
    _Fact("threads", lambda host: _write_number(host.threads), lambda value: f"{value} threads", number=True),
    _Fact("GiB", lambda host: _write_memory(host.memory_bytes), lambda value: f"{value} GiB memory", number=True),
    _Fact("driver", lambda host: host.driver, lambda value: f"driver {value}"),
    _Fact("TensorFlow", lambda host: host.tensorflow, lambda value: f"TensorFlow {value}"),
    _Fact("CUDA", lambda host: host.cuda, lambda value: f"CUDA {value}"),
    _Fact("runtime", lambda host: host.runtime, str),
    _Fact("image", lambda host: host.image, str),
    _Fact("digest", lambda host: shorten_digest(host.image_digest), lambda value: f"digest {value}"),
    _Fact(
        "took",
        lambda host: format_duration(host.job_s) if host.job_s is not None else "",
        lambda value: f"took {value}",
        number=True,
        personal=True,
    ),
)


def print_hosts(console: Console, hosts: Sequence[HostRow]) -> None:
    """Print one line per host, or per set of hosts that are alike in everything shown when there are many."""
    ink = Ink.of(console)
    many = len(hosts) > GROUP_ABOVE
    facts = [fact for fact in _FACTS if not (many and fact.personal)]
    lines = _merge(hosts, facts) if many else [([host.alias], [fact.read(host) for fact in facts]) for host in hosts]
    keys = [
        Column(ink.text("host"), tuple(ink.text("\n".join(fold_names(names)), "bold") for names, _ in lines), widest=24)
    ]
    if many:
        counts = tuple(ink.text(str(len(names))) for names, _ in lines)
        keys.append(Column(ink.text("count"), counts, "right", numeric=True))
    columns: list[Column] = []
    shared: list[str] = []
    for place, fact in enumerate(facts):
        values = [row[place] for _, row in lines]
        known = {value for value in values if value}
        if len(known) == 1 and not fact.own:
            shared.append(fact.shared(known.pop()))
        elif known:
            columns.append(_build_column(fact, values, ink))
    console.print(ink.text("Hosts", "bold"))
    console.print()
    print_blocks(console, keys, columns)
    if shared:
        console.print(ink.text(f"all hosts, as far as known: {' · '.join(shared)}", "dim"))


def _merge(hosts: Sequence[HostRow], facts: Sequence[_Fact]) -> list[tuple[list[str], list[str]]]:
    merged: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        merged.setdefault(tuple(fact.read(host) for fact in facts), []).append(host.alias)
    return [(names, list(values)) for values, names in merged.items()]


def _build_column(fact: _Fact, values: Sequence[str], ink: Ink) -> Column:
    cells: tuple[Text, ...] = tuple(ink.text(value or _UNKNOWN, _choose_style(fact, value)) for value in values)
    return Column(ink.text(fact.head), cells, "right" if fact.number else "left", widest=26, numeric=fact.number)


def _choose_style(fact: _Fact, value: str) -> str:
    if not value:
        return "dim"
    if fact.head != "status":
        return ""
    return {"ok": "green", "partial": "yellow", "skipped": "dim"}.get(value, "red")


def _write_number(value: int | None) -> str:
    return "" if value is None else str(value)


def _write_memory(size: int | None) -> str:
    return "" if size is None else format_rate(size / _GIB)
