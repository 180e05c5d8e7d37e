"""The columns of a matrix: its hosts, or sets of identical ones where there are too many to tell apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from statistics import median_low

from fleet.model.suite import Cell
from fleet.report.view_model import EntryKind, HardwareGroup, Matrix, Row
from fleet.report.wording import count_things

GROUP_ABOVE = 16
"""With more hosts than this, identical ones share a column."""


@dataclass(frozen=True)
class Reading:
    """A column in one row of the matrix: a rate, of several hosts their median, or a word for why there is none."""

    images_per_s: float | None
    word: str
    kind: EntryKind
    batch_size: int | None
    """As measured, per step and device; of several hosts the median."""
    devices: int | None


@dataclass(frozen=True)
class Column:
    label: str
    """Unique within its matrix."""
    aliases: tuple[str, ...]
    readings: tuple[Reading, ...]
    """One for each row of the matrix."""


def build_columns(matrix: Matrix) -> tuple[Column, ...]:
    """One column for each host; with more than `GROUP_ABOVE` hosts, for each hardware group."""
    if len(matrix.hosts) > GROUP_ABOVE:
        return build_group_columns(matrix)
    return tuple(
        Column(alias, (alias,), tuple(_read(row, (place,), None) for row in matrix.rows))
        for place, alias in enumerate(matrix.hosts)
    )


def build_group_columns(matrix: Matrix) -> tuple[Column, ...]:
    """One column for each hardware group, the largest first."""
    places = {alias: place for place, alias in enumerate(matrix.hosts)}
    return tuple(
        Column(
            label,
            group.aliases,
            tuple(_read(row, [places[alias] for alias in group.aliases], number) for row in matrix.rows),
        )
        for number, (group, label) in enumerate(zip(matrix.groups, label_groups(matrix.groups), strict=True))
    )


def label_groups(groups: Sequence[HardwareGroup]) -> tuple[str, ...]:
    """What to call each group: its hardware and how many hosts, and its first host where that is no difference."""
    labels = [f"{group.label or 'hardware not known'}, {count_things(len(group.aliases), 'host')}" for group in groups]
    counts = Counter(labels)
    return tuple(
        f"{label}: {group.aliases[0]}{' …' if len(group.aliases) > 1 else ''}" if counts[label] > 1 else label
        for group, label in zip(groups, labels, strict=True)
    )


def _read(row: Row, places: Sequence[int], group: int | None) -> Reading:
    entries = [row.entries[place] for place in places]
    rate = row.groups[group].median if group is not None else entries[0].images_per_s
    batches = [entry.batch_size for entry in entries if entry.batch_size is not None]
    devices = [entry.devices for entry in entries if entry.devices is not None]
    words = Counter((entry.word, entry.kind) for entry in entries if entry.word)
    word, kind = words.most_common(1)[0][0] if words else ("", entries[0].kind)
    return Reading(
        rate,
        "" if rate is not None else word,
        "value" if rate is not None else kind,
        median_low(batches) if batches else None,
        median_low(devices) if devices else None,
    )


def find_shared(rows: Sequence[Row]) -> frozenset[str]:
    """Names of the parameters, the model's aside, in which all cells of a matrix agree."""
    return find_common([row.cell for row in rows])


def find_common(cells: Sequence[Cell]) -> frozenset[str]:
    """As `find_shared`, of these cells."""
    return frozenset(
        name for name in Cell.model_fields if name != "model" and len({getattr(cell, name) for cell in cells}) == 1
    )


def name_workload(cell: Cell, without: Set[str] = frozenset()) -> str:
    """A cell as people say it, `resnet50 train fp16, batch 64, 2 GPUs, NCHW, xla`, without some of its parameters."""
    words = [cell.model]
    words += [getattr(cell, name).replace("_", " ") for name in ("phase", "precision") if name not in without]
    parts = [" ".join(words)]
    if "batch_size" not in without:
        parts.append(f"batch {cell.batch_size or 'auto'}")
    if "devices" not in without:
        parts.append(name_devices(cell))
    if "data_format" not in without:
        parts.append(cell.data_format)
    return ", ".join([*parts, *cell.variants])


def name_family(cell: Cell) -> str:
    """`resnet50 train fp16`, whatever the batch size and the number of devices."""
    return name_workload(cell, {"batch_size", "devices", "data_format"})


def name_devices(cell: Cell) -> str:
    """`1 GPU`, `all GPUs`, `CPU`."""
    if cell.device == "cpu":
        return "CPU" if cell.devices == 1 else count_things(cell.devices, "CPU")
    return count_things(cell.devices, "GPU") if cell.devices else "all GPUs"
