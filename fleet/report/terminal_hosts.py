"""The host table on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from fleet.model.facts import nominal_memory_gib
from fleet.model.result import Stage
from fleet.report.columns import GROUP_ABOVE
from fleet.report.terminal_blocks import Column, Ink, print_blocks, print_indented
from fleet.report.view_model import HostRow
from fleet.report.wording import fold_names, format_duration, format_rate, say_status, shorten_digest

_GIB = 1 << 30
_UNKNOWN = "?"
_NEVER = "—"
"""Stands for the time of a job that was never started."""

_BEFORE_THE_JOB = {Stage.CONNECT, Stage.PROBE, Stage.PUSH, Stage.START, Stage.PULL, Stage.LAUNCH}


def _write_runtime(host: HostRow) -> str:
    if not host.runtime_version:
        return ""
    name = "native python" if host.runtime == "native" else host.runtime
    return f"{name} {host.runtime_version.removeprefix('Python ')}"


def _write_took(host: HostRow) -> str:
    if host.job_s is None:
        return _NEVER if host.stage in _BEFORE_THE_JOB else ""
    return format_duration(host.job_s)


@dataclass(frozen=True)
class _Fact:
    head: str
    read: Callable[[HostRow], str]
    shared: Callable[[str], str]
    """How it is said once, when all hosts agree; empty: not worth saying."""
    number: bool = False
    own: bool = False
    """A host's own: always a column, never said once for all."""
    alike: Callable[[HostRow], str] | None = None
    """Read instead where alike hosts share a line: what differs though nothing is different is left out or rounded."""


_FACTS = (
    _Fact("status", lambda host: say_status(host.status), str, own=True),
    _Fact(
        "cells",
        lambda host: f"{host.cells_ok}/{host.cells_total}",
        lambda value: f"{value} cells",
        number=True,
        own=True,
    ),
    _Fact("GPU", lambda host: host.gpus, lambda value: "no GPU" if value == "none" else value),
    _Fact("CPU", lambda host: host.cpu, str),
    _Fact("cores", lambda host: _write_number(host.cores), lambda value: f"{value} cores", number=True),
    _Fact("threads", lambda host: _write_number(host.threads), lambda value: f"{value} threads", number=True),
    _Fact(
        "GiB",
        lambda host: "" if host.memory_bytes is None else format_rate(host.memory_bytes / _GIB),
        lambda value: f"{value} GiB memory",
        number=True,
        alike=lambda host: "" if host.memory_bytes is None else str(nominal_memory_gib(host.memory_bytes)),
    ),
    _Fact(
        "driver",
        lambda host: host.driver or ("none" if host.gpus == "none" else ""),
        lambda value: "" if value == "none" else f"driver {value}",
    ),
    _Fact("TensorFlow", lambda host: host.tensorflow, lambda value: f"TensorFlow {value}"),
    _Fact("CUDA", lambda host: host.cuda, lambda value: f"CUDA {value}"),
    _Fact("runtime", _write_runtime, str),
    _Fact("image", lambda host: host.image, str),
    _Fact("digest", lambda host: shorten_digest(host.image_digest), lambda value: f"digest {value}"),
    _Fact(
        "took",
        _write_took,
        str,
        number=True,
        own=True,
        alike=lambda host: "",
    ),
)


def print_hosts(console: Console, hosts: Sequence[HostRow]) -> None:
    """Print one line per host, or per set of hosts that are alike in everything shown when there are many."""
    ink = Ink.of(console)
    many = len(hosts) > GROUP_ABOVE
    lines = _merge(hosts) if many else [([host.alias], [fact.read(host) for fact in _FACTS]) for host in hosts]
    aliases = tuple(ink.text(", ".join(fold_names(names)), "bold") for names, _ in lines)
    keys = [Column(ink.text("host"), aliases, widest=max(24, console.width // (3 if many else 2)))]
    if many:
        counts = tuple(ink.text(str(len(names))) for names, _ in lines)
        keys.append(Column(ink.text("count"), counts, "right", numeric=True))
    columns: list[Column] = []
    shared: list[str] = []
    whole = True
    for place, fact in enumerate(_FACTS):
        values = [row[place] for _, row in lines]
        known = {value for value in values if value}
        if len(known) == 1 and not fact.own:
            shared.append(fact.shared(known.pop()))
            whole = whole and all(values)
        elif known - {_NEVER}:
            columns.append(_build_column(fact, values, ink))
    console.print(ink.text("Hosts", "bold"))
    console.print()
    print_blocks(console, keys, columns, even=False)
    if shared:
        who = hosts[0].alias if len(hosts) == 1 else "all hosts" if whole else "all hosts, as far as known"
        print_indented(console, ink.text(f"{who}: {' · '.join(said for said in shared if said)}", "dim"), 0)


def _merge(hosts: Sequence[HostRow]) -> list[tuple[list[str], list[str]]]:
    merged: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        merged.setdefault(tuple((fact.alike or fact.read)(host) for fact in _FACTS), []).append(host.alias)
    return [(names, list(values)) for values, names in merged.items()]


def _build_column(fact: _Fact, values: Sequence[str], ink: Ink) -> Column:
    cells: tuple[Text, ...] = tuple(ink.text(value or _UNKNOWN, _choose_style(fact, value)) for value in values)
    return Column(ink.text(fact.head), cells, "right" if fact.number else "left", widest=26, numeric=fact.number)


def _choose_style(fact: _Fact, value: str) -> str:
    if not value:
        return "dim"
    if fact.head != "status":
        return ""
    return {"ok": "green", "partial": "yellow", "skipped": "dim", "no outcome": "yellow"}.get(value, "red")


def _write_number(value: int | None) -> str:
    return "" if value is None else str(value)
