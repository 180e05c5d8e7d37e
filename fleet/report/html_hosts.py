"""The page's part on hosts: one table of all, and a section for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from fleet.report.details_model import CardFact, CellReading, HostDetail
from fleet.report.html_table import (
    Head,
    Table,
    TableCell,
    fold_columns,
    write_number,
    write_rate,
    write_word,
)
from fleet.report.view_model import FailureLine, HostRow
from fleet.report.wording import count_things, format_duration, format_spread, say_end, say_status, shorten_digest

_GIB = 1 << 30
_SIGNS = {"ok": "✔", "partial": "▲", "skipped": "—"}
_STYLES = {"ok": "good", "partial": "result", "skipped": "unplanned"}


@dataclass(frozen=True)
class Ending:
    """One thing that failed on a host."""

    end: str
    cells: tuple[str, ...]
    message: str
    hint: str


@dataclass(frozen=True)
class HostSection:
    anchor: str
    alias: str
    status: TableCell
    hardware: str
    facts: tuple[tuple[str, str], ...]
    endings: tuple[Ending, ...]
    cards: Table | None
    cells: Table | None
    remark: str
    """What the table of cells does not have; empty for nothing."""
    files: tuple[tuple[str, str], ...]
    """Name and address of each."""


def link_hosts(hosts: Sequence[HostRow]) -> dict[str, str]:
    """Alias → the fragment of its section. An alias may be any text; its place is safe in an address."""
    return {host.alias: f"#host-{place}" for place, host in enumerate(hosts)}


def build_host_table(hosts: Sequence[HostRow], links: Mapping[str, str]) -> Table:
    """All hosts; what they share is said once."""
    names = ("host", "status", "cells", "GPU", "CPU", "GiB memory", "driver", "TensorFlow", "runtime", "image", "took")
    numbers = {"cells", "GiB memory", "took"}
    rows = tuple(
        (
            TableCell(host.alias, href=links[host.alias]),
            write_status(host),
            TableCell(f"{host.cells_ok}/{host.cells_total}", value=host.cells_ok, style="n"),
            TableCell(host.gpus or "—"),
            TableCell(host.cpu or "—", f"{host.cores} cores" if host.cores else ""),
            write_number(host.memory_bytes / _GIB if host.memory_bytes is not None else None),
            TableCell(host.driver or "—"),
            TableCell(host.tensorflow or "—", f"CUDA {host.cuda}" if host.cuda else ""),
            TableCell(f"{host.runtime} {host.runtime_version}".strip()),
            TableCell(host.image or "—", shorten_digest(host.image_digest)),
            _write_took(host),
        )
        for host in hosts
    )
    heads = tuple(Head(name, numeric=name in numbers) for name in names)
    table = Table("hosts", "Hosts", heads, rows, filtered=len(hosts) > 8)
    return fold_columns(table, 3)


def _write_took(host: HostRow) -> TableCell:
    if host.job_s is None:
        return TableCell("—", style="n unplanned")
    return TableCell(format_duration(host.job_s), value=host.job_s, style="n")


def write_status(host: HostRow) -> TableCell:
    """The status with its sign and colour."""
    sign, style = _SIGNS.get(host.status, "✖"), _STYLES.get(host.status, "failure")
    return TableCell(f"{sign} {say_status(host.status)}", style=style)


def build_host_sections(
    hosts: Sequence[HostRow],
    details: Sequence[HostDetail],
    failures: Sequence[FailureLine],
    run_href: str,
) -> tuple[HostSection, ...]:
    """A section for each host, in the order of the plan.

    Args:
        run_href: address of the run's directory as seen from the page; empty, or with a `/` at its end.
    """
    links = link_hosts(hosts)
    endings: dict[str, list[Ending]] = {}
    for line in failures:
        end = say_end(line.status, line.stage, line.reason, line.message)
        endings.setdefault(line.alias, []).append(Ending(end, line.cells, line.message, line.hint))
    sections = []
    for host, detail in zip(hosts, details, strict=True):
        anchor = links[host.alias].removeprefix("#")
        here = f"{run_href}{quote(detail.directory)}/"
        sections.append(
            HostSection(
                anchor=anchor,
                alias=host.alias,
                status=write_status(host),
                hardware=host.gpus if host.gpus not in {"", "none"} else host.cpu,
                facts=tuple((name, value) for name, value in _list_facts(host, detail) if value),
                endings=tuple(endings.get(host.alias, ())),
                cards=_build_cards(detail.cards, anchor),
                cells=_build_cells(detail.cells, anchor, here),
                remark=_remark(detail),
                files=tuple((name, here + quote(name)) for name in detail.files),
            )
        )
    return tuple(sections)


def _list_facts(host: HostRow, detail: HostDetail) -> list[tuple[str, str]]:
    threads = f"{host.cores or '?'} cores, {host.threads or '?'} threads"
    return [
        ("GPU", host.gpus),
        ("CPU", host.cpu),
        ("processors", threads if host.cores or host.threads else ""),
        ("memory", f"{host.memory_bytes / _GIB:,.1f} GiB" if host.memory_bytes else ""),
        ("driver", host.driver),
        ("TensorFlow", host.tensorflow),
        ("CUDA", host.cuda),
        ("container", host.container),
        ("runtime", f"{host.runtime} {host.runtime_version}".strip()),
        ("image", host.image),
        ("digest", host.image_digest),
        ("OS", host.os),
        ("kernel", host.kernel),
        *detail.facts,
    ]


def _remark(detail: HostDetail) -> str:
    if not detail.left_out:
        return ""
    verb = "is" if detail.left_out == 1 else "are"
    return f"{count_things(detail.left_out, 'cell')} with nothing to mind {verb} in the table of all hosts alone."


def _build_cards(cards: Sequence[CardFact], anchor: str) -> Table | None:
    """The cards, those that are set alike in one line."""
    if not cards:
        return None
    alike = Counter((card.name, card.power, card.ecc, card.mig, card.persistence, card.vbios) for card in cards)
    rows = tuple(
        (TableCell(f"{count}× {name or 'GPU'}"), _write_power(power), *(TableCell(text or "—") for text in rest))
        for (name, power, *rest), count in alike.items()
    )
    names = ("card", "power limit", "ECC", "MIG", "persistence", "VBIOS")
    heads = tuple(Head(name, numeric=False) for name in names)
    table = Table(f"{anchor}-cards", "GPUs and how they are set", heads, rows)
    return fold_columns(table, 1)


def _write_power(power: str) -> TableCell:
    if " of " not in power:
        return TableCell(power or "—")
    return TableCell(f"▲ {power}", "below the card's default", style="result")


def _build_cells(cells: Sequence[CellReading], anchor: str, here: str) -> Table | None:
    if not cells:
        return None
    names = (
        ("cell", ""),
        ("images/s", ""),
        ("step", "median, ms"),
        ("95 %", "of steps are faster, ms"),
        ("scatter", "1.48 × MAD ÷ median"),
        ("clock", "MHz, slowest card"),
        ("power", "W, all cards"),
        ("temperature", "°C, highest"),
        ("throttled", "s, by heat or quota"),
        ("memory", "GiB at most"),
    )
    heads = tuple(Head(name, small, numeric=bool(place)) for place, (name, small) in enumerate(names))
    rows = tuple(_write_cell(cell, here) for cell in cells)
    table = Table(f"{anchor}-cells", "Cells, and what the host did meanwhile", heads, rows)
    return fold_columns(table, 2)


def _write_cell(cell: CellReading, here: str) -> tuple[TableCell, ...]:
    rate = write_rate(cell.images_per_s)
    value = TableCell(f"{rate.text}{cell.marks}", value=rate.value, style="n")
    memory = cell.memory_bytes / _GIB if cell.memory_bytes is not None else None
    scatter = format_spread(cell.spread) if cell.spread is not None else "—"
    return (
        TableCell(cell.cell_id, href=here + quote(cell.file) if cell.file else ""),
        value if cell.images_per_s is not None else write_word(cell.word, cell.kind, cell.message),
        write_number(cell.step_ms),
        write_number(cell.p95_ms),
        TableCell(scatter, value=cell.spread, style="n"),
        write_number(cell.clock_mhz),
        write_number(cell.power_w),
        write_number(cell.temperature_c),
        write_number(cell.throttled_s, style="result" if cell.throttled_s else ""),
        write_number(memory),
    )
