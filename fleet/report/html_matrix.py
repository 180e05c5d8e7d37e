"""The cross-machine matrix on the page: cells × hosts, or hosts × cells and cells × hardware where there are many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet.report.columns import GROUP_ABOVE, find_shared, label_groups, name_workload
from fleet.report.details_model import Standings
from fleet.report.html_table import Head, Table, TableCell, choose_bar, format_percent, write_rate, write_word
from fleet.report.legend import mark_entry
from fleet.report.view_model import Entry, GroupEntry, Matrix, Row
from fleet.report.wording import format_rate, format_spread


def build_matrix_tables(matrix: Matrix, standings: Standings | None, links: Mapping[str, str]) -> Iterator[Table]:
    """One table for few hosts; for many, one by hardware and one with a line for each host.

    Args:
        links: alias → where on the page its own section is.
    """
    if len(matrix.hosts) <= GROUP_ABOVE:
        yield _build_host_columns(matrix, links)
    else:
        yield _build_hardware_columns(matrix)
        yield _build_host_rows(matrix, standings, links)


def name_device(matrix: Matrix) -> str:
    return matrix.device.upper()


def _head_row(row: Row, without: frozenset[str]) -> TableCell:
    model, _, rest = name_workload(row.cell, without).partition(" ")
    return TableCell(model.rstrip(","), rest)


def list_shared(matrix: Matrix) -> str:
    """What all cells of the matrix agree in, for below the table; empty where they agree in nothing."""
    cell = matrix.rows[0].cell
    shared = find_shared(matrix.rows)
    said = {
        "phase": cell.phase.replace("_", " "),
        "precision": cell.precision,
        "batch_size": f"batch {cell.batch_size or 'auto'} per device",
        "devices": f"{cell.devices or 'all'} {name_device(matrix)}",
        "data_format": cell.data_format,
    }
    return ", ".join(text for name, text in said.items() if name in shared)


def _build_host_columns(matrix: Matrix, links: Mapping[str, str]) -> Table:
    without = find_shared(matrix.rows)
    hardware = {alias: group.label for group in matrix.groups for alias in group.aliases}
    heads = [Head(alias, hardware.get(alias, ""), href=links.get(alias, "")) for alias in matrix.hosts]
    rows = tuple(
        (_head_row(row, without), *(_write_entry(entry, _find_top(row)) for entry in row.entries))
        for row in matrix.rows
    )
    caption = f"{name_device(matrix)} hosts: images per second, higher is better"
    return Table(
        f"matrix-{matrix.device}", caption, (Head("cell", numeric=False), *heads), rows, filtered=len(rows) > 8
    )


def _find_top(row: Row) -> float:
    return max((entry.images_per_s for entry in row.entries if entry.images_per_s is not None), default=0.0)


def _write_entry(entry: Entry, top: float) -> TableCell:
    if entry.images_per_s is None:
        return write_word(entry.word, entry.kind)
    share = entry.images_per_s / top if top > 0 else None
    said = [format_percent(share)] if share is not None and not entry.best else []
    said += [format_spread(entry.spread)] if entry.spread is not None else []
    said += [entry.found] if entry.found else []
    cell = write_rate(entry.images_per_s, best=entry.best, share=share, small=" · ".join(said))
    return TableCell(f"{cell.text}{mark_entry(entry)}", cell.small, cell.value, cell.style)


def _build_hardware_columns(matrix: Matrix) -> Table:
    without = find_shared(matrix.rows)
    heads = [Head(label) for label in label_groups(matrix.groups)]
    rows = []
    for row in matrix.rows:
        top = max((entry.median for entry in row.groups if entry.median is not None), default=0.0)
        cells = [
            _write_group(entry, len(group.aliases), top) for entry, group in zip(row.groups, matrix.groups, strict=True)
        ]
        rows.append((_head_row(row, without), *cells))
    caption = f"{len(matrix.hosts)} {name_device(matrix)} hosts by identical hardware: median images per second"
    return Table(
        f"hardware-{matrix.device}",
        caption,
        (Head("cell", numeric=False), *heads),
        tuple(rows),
        filtered=len(rows) > 8,
    )


def _write_group(entry: GroupEntry, size: int, top: float) -> TableCell:
    words = ", ".join(f"{said.count} {said.word}" for said in entry.words)
    if entry.median is None:
        kinds = [said.kind for said in entry.words]
        return write_word(words, "failure" if "failure" in kinds else kinds[0] if kinds else "unplanned")
    said = [f"{entry.measured} of {size} hosts"] if entry.measured != size else []
    if entry.slowest and entry.lowest is not None and entry.highest is not None:
        said.append(f"{format_rate(entry.lowest)}–{format_rate(entry.highest)}, slowest {entry.slowest}")
    said += [words] if words else []
    share = entry.median / top if top > 0 else None
    return write_rate(entry.median, best=entry.best, share=share, small="; ".join([*entry.found, *said]))


def _build_host_rows(matrix: Matrix, standings: Standings | None, links: Mapping[str, str]) -> Table:
    without = find_shared(matrix.rows)
    hardware = {alias: group.label for group in matrix.groups for alias in group.aliases}
    cells = [_head_row(row, without) for row in matrix.rows]
    heads = [
        Head("host", numeric=False),
        Head("hardware", numeric=False),
        Head("relative", "to the best of each cell"),
        *(Head(cell.text, cell.small) for cell in cells),
    ]
    tops = [_find_top(row) for row in matrix.rows]
    relative = standings.by_host if standings else {}
    rows = tuple(
        (
            TableCell(alias, href=links.get(alias, "")),
            TableCell(hardware.get(alias) or "not known"),
            _write_relative(relative.get(alias)),
            *(_write_brief(row.entries[place], top) for row, top in zip(matrix.rows, tops, strict=True)),
        )
        for place, alias in enumerate(matrix.hosts)
    )
    caption = f"Every {name_device(matrix)} host: images per second, higher is better"
    return Table(f"matrix-{matrix.device}", caption, tuple(heads), rows, filtered=True)


def _write_relative(share: float | None) -> TableCell:
    if share is None:
        return TableCell("—", style="n unplanned")
    return TableCell(format_percent(share), value=share, style=f"n {choose_bar(share)}")


def _write_brief(entry: Entry, top: float) -> TableCell:
    """An entry without its scatter: hundreds of hosts times dozens of cells."""
    if entry.images_per_s is None:
        return write_word(entry.word, entry.kind)
    cell = write_rate(entry.images_per_s, best=entry.best, share=entry.images_per_s / top if top > 0 else None)
    return TableCell(f"{cell.text}{mark_entry(entry)}", entry.found, cell.value, cell.style)
