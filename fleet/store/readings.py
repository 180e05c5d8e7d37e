"""What the index knows about many runs at once, as arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, select

from fleet.model.environment import Environment
from fleet.model.result import CellStatus
from fleet.model.suite import Cell
from fleet.store import tables
from fleet.store.database import Database
from fleet.store.tables import STATUS_CODES

Floats = NDArray[np.float64]

STATUSES = {code: status for status, code in STATUS_CODES.items()}
ABSENT = -1
"""Stands where a status would: the run has no result of the cell on the host."""

_AT_ONCE = 50_000
"""Rows that are Python's objects at a time: a year of a hundred hosts has two million, and would take a gigabyte."""

_SCALES = {
    "step_us": (tables.result.c.step_ns, 1e-3),
    "energy_j_per_image": (tables.result.c.energy_uj_per_image, 1e-6),
    "clock_mhz": (tables.result.c.clock_mhz, 1.0),
    "temperature_c": (tables.result.c.temperature_c, 1.0),
    "throttled_share": (tables.result.c.throttled_bp, 1e-4),
    "batch_size": (tables.result.c.batch_size, 1.0),
    "devices": (tables.result.c.devices, 1.0),
}
"""What is read of a result: the column, and what one of it is."""

_SPREADS = {name: tables.result.c[f"{name}_bp"] for name in ("p05", "p25", "p75", "p95", "mean", "ci_low", "ci_high")}


@dataclass(frozen=True)
class Values:
    """Results of some runs. A series is one cell on one host; arrays have the shape (series, runs). NaN: not known."""

    run_ids: tuple[str, ...]
    payloads: tuple[str, ...]
    """sha256 of what measured, by run."""
    aliases: tuple[str, ...]
    """By series: they are sorted by host and cell."""
    cell_ids: tuple[str, ...]
    status: NDArray[np.int8]
    """`STATUS_CODES`, or ABSENT."""
    protocol: NDArray[np.int32]
    """ABSENT: not known."""
    step_us: Floats
    """Median."""
    images: Floats
    """In such a step. A cell that leaves its batch size open is other work when this is another number."""
    steady: NDArray[np.bool_]
    disturbed: NDArray[np.bool_]
    """Others used the machine meanwhile."""

    @property
    def images_per_s(self) -> Floats:
        """By the median."""
        return self.images / self.step_us * 1e6

    def select(self, rows: Sequence[int]) -> Values:
        """These series alone."""
        chosen = np.array(rows, dtype=np.intp)
        arrays = ("status", "protocol", "step_us", "images", "steady", "disturbed")
        return replace(
            self,
            aliases=tuple(self.aliases[row] for row in rows),
            cell_ids=tuple(self.cell_ids[row] for row in rows),
            **{name: getattr(self, name)[chosen] for name in arrays},
        )

    def newest(self) -> NDArray[np.int64]:
        """By series, the last of the runs that has a result of it."""
        there = self.status[:, ::-1] != ABSENT
        return np.asarray(self.status.shape[1] - 1 - np.argmax(there, axis=1), dtype=np.int64)


@dataclass(frozen=True)
class Series:
    """One cell on one host, all runs that have a result of it, oldest first; arrays have one entry a run."""

    alias: str
    cell_id: str
    run_ids: tuple[str, ...]
    payloads: tuple[str, ...]
    status: tuple[CellStatus, ...]
    reason: tuple[str | None, ...]
    protocol: NDArray[np.int32]
    environment: tuple[str | None, ...]
    """Fingerprints: equal ones are equal environments."""
    steady: NDArray[np.bool_]
    disturbed: NDArray[np.bool_]
    values: dict[str, Floats]
    """`step_us` (median) and its `p05_us`, `p25_us`, `p75_us`, `p95_us`, `mean_us`, `ci_low_us`, `ci_high_us`;
    `images_per_s`; `energy_j_per_image`; `clock_mhz`; `temperature_c`; `throttled_share`; and where the cell leaves
    them open `batch_size` and `devices`, which make other work of it."""


def list_complete(database: Database, suite: str | None = None) -> tuple[str, ...]:
    """Ids of the runs in the index, oldest first; those of one suite where it is given."""
    wanted = select(tables.run.c.run_id)
    with database.reading() as connection:
        found = connection.execute(wanted if suite is None else wanted.where(tables.run.c.suite == suite)).scalars()
        return tuple(sorted(found))


def read_values(database: Database, run_ids: Sequence[str]) -> Values:
    """All results of these runs, in the given order; a run that is not in the index has none.

    The matrix of the last run is `read_values(database, runs[-1:])`; a night and the fourteen before it are
    `read_values(database, runs[-15:])`.

    Raises:
        StoreError: the database cannot be read.
    """
    result = tables.result.c
    wanted = (result.run, result.host, result.cell, result.status, result.step_ns, result.batch_size, result.devices)
    with database.reading() as connection:
        runs = _number_runs(connection, run_ids)
        own = result.run.in_([number for number, _ in runs.values()])
        query = select(*wanted, result.steady, result.disturbed).where(own)
        run, host, cell, status, step_ns, batch_size, devices, steady, disturbed = _fetch_columns(connection, query, 9)
        protocol = _read_protocols(connection, run, host)
        aliases = dict(connection.execute(select(tables.host.c.id, tables.host.c.alias)).all())
        cells = {row["id"]: row for row in connection.execute(select(tables.cell)).mappings()}
    pairs, place = np.unique(_pair(host, cell), return_inverse=True)
    names = [(aliases[pair >> 32], cells[pair & 0xFFFFFFFF]["cell_id"]) for pair in pairs.tolist()]
    rank = {place: series for series, place in enumerate(sorted(range(len(names)), key=names.__getitem__))}
    columns = {runs[run_id][0]: column for column, run_id in enumerate(run_ids) if run_id in runs}
    at = (_look_up(rank, place.astype(np.float64)), _look_up(columns, run))

    def spread(values: Floats, blank: float) -> Floats:
        array = np.full((len(names), len(run_ids)), blank, dtype=np.float64)
        array[at] = values
        return array

    return Values(
        run_ids=tuple(run_ids),
        payloads=tuple(runs.get(run_id, (0, ""))[1] for run_id in run_ids),
        aliases=tuple(alias for alias, _ in sorted(names)),
        cell_ids=tuple(cell_id for _, cell_id in sorted(names)),
        status=spread(status, ABSENT).astype(np.int8),
        protocol=spread(protocol, ABSENT).astype(np.int32),
        step_us=spread(step_ns, np.nan) * 1e-3,
        images=spread(_count_images(cells, cell, batch_size, devices), np.nan),
        steady=spread(steady, 0) == 1,
        disturbed=spread(disturbed, 0) == 1,
    )


def _read_protocols(connection: Connection, run: Floats, host: Floats) -> Floats:
    """The protocol of each result, by its run and host; ABSENT where it is not known."""
    outcome = tables.outcome.c
    own = outcome.run.in_(np.unique(run).astype(np.int64).tolist())
    query = select(outcome.run, outcome.host, outcome.protocol).where(own)
    told_run, told_host, protocol = _fetch_columns(connection, query, 3)
    pairs = _pair(told_run, told_host)
    order = np.argsort(pairs)
    return np.nan_to_num(protocol[order][np.searchsorted(pairs[order], _pair(run, host))], nan=ABSENT)


def _fetch_columns(connection: Connection, query: Select[Any], count: int) -> list[Floats]:
    """The columns of an answer; NULL becomes NaN."""
    parts = [
        [np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)]
        for rows in connection.execute(query).partitions(_AT_ONCE)
    ]
    return [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.empty(0)] * count


def _pair(high: Floats, low: Floats) -> NDArray[np.int64]:
    return high.astype(np.int64) << 32 | low.astype(np.int64)


def _look_up(numbers: Mapping[int, int], keys: Floats) -> NDArray[np.int64]:
    """For each of `keys` its number; all are known."""
    known = np.array(sorted(numbers), dtype=np.float64)
    values = np.array([numbers[key] for key in sorted(numbers)], dtype=np.int64)
    return values[np.searchsorted(known, keys)]


def _count_images(cells: Mapping[int, RowMapping], cell: Floats, batch_size: Floats, devices: Floats) -> Floats:
    """Images in what was timed as a step. NaN: the cell leaves something open, and nothing was found."""
    numbers = {key: place for place, key in enumerate(sorted(cells))}
    place = _look_up(numbers, cell)

    def fix(name: str, found: Floats) -> Floats:
        said = np.array([cells[key][name] or np.nan for key in sorted(cells)], dtype=np.float64)[place]
        return np.where(np.isnan(said), found, said)

    blank = np.full(len(cell), np.nan)
    return fix("batch_size", batch_size) * fix("devices", devices) * fix("steps_per_call", blank)


def read_series(database: Database, alias: str, cell_id: str, run_ids: Sequence[str] | None = None) -> Series:
    """The history of a cell on a host; of these runs alone where they are given.

    Raises:
        StoreError: the database cannot be read.
    """
    result, outcome, told = tables.result.c, tables.outcome.c, tables.environment.c.fingerprint
    wanted = [column for column, _ in _SCALES.values()] + list(_SPREADS.values())
    columns = (result.status, result.reason, outcome.protocol, told, result.steady, result.disturbed)
    with database.reading() as connection:
        host = connection.execute(select(tables.host.c.id).where(tables.host.c.alias == alias)).scalar()
        cells = connection.execute(select(tables.cell).where(tables.cell.c.cell_id == cell_id)).mappings().all()
        cell = cells[0]["id"] if cells else None
        every = connection.execute(select(tables.run.c.run_id)).scalars().all() if run_ids is None else run_ids
        runs = _number_runs(connection, sorted(every))
        names = {number: (run_id, payload) for run_id, (number, payload) in runs.items()}
        # The whole key is named, so that each row is looked up and none is searched for.
        own: ColumnElement[bool] = and_(result.run.in_(list(names)), result.host == host, result.cell == cell)
        same = and_(outcome.run == result.run, outcome.host == result.host)
        both = tables.result.join(tables.outcome, same)
        both = both.outerjoin(tables.environment, tables.environment.c.id == outcome.environment)
        query = select(result.run, *columns, *wanted).select_from(both).where(own)
        rows = sorted(connection.execute(query).all(), key=lambda row: names[row[0]])
    table = np.array([row[-len(wanted) :] for row in rows], dtype=np.float64).reshape(-1, len(wanted))
    values = {name: table[:, place] * scale for place, (name, (_, scale)) in enumerate(_SCALES.items())}
    for place, name in enumerate(_SPREADS, start=len(_SCALES)):
        values[f"{name}_us"] = values["step_us"] * (1 + table[:, place] * 1e-4)
    own_cell = np.full(len(rows), cell or 0, dtype=np.float64)
    images = _count_images({row["id"]: row for row in cells}, own_cell, values["batch_size"], values["devices"])
    values["images_per_s"] = images / values["step_us"] * 1e6
    return Series(
        alias=alias,
        cell_id=cell_id,
        run_ids=tuple(names[row[0]][0] for row in rows),
        payloads=tuple(names[row[0]][1] for row in rows),
        status=tuple(STATUSES[row[1]] for row in rows),
        reason=tuple(row[2] for row in rows),
        protocol=np.array([ABSENT if row[3] is None else row[3] for row in rows], dtype=np.int32),
        environment=tuple(row[4] for row in rows),
        steady=np.array([row[5] is True for row in rows], dtype=np.bool_),
        disturbed=np.array([row[6] is True for row in rows], dtype=np.bool_),
        values=values,
    )


def read_environments(database: Database, run_ids: Sequence[str]) -> dict[tuple[str, str], Environment]:
    """By run id and alias, what the hosts of these runs measured with, where it is known.

    Raises:
        StoreError: the database cannot be read.
    """
    outcome = tables.outcome
    with database.reading() as connection:
        runs = {number: run_id for run_id, (number, _) in _number_runs(connection, run_ids).items()}
        query = (
            select(outcome.c.run, tables.host.c.alias, outcome.c.environment)
            .join(tables.host, tables.host.c.id == outcome.c.host)
            .where(outcome.c.run.in_(list(runs)), outcome.c.environment.is_not(None))
        )
        found = connection.execute(query).all()
        fields = select(tables.environment.c.id, tables.environment.c.fields)
        wanted = fields.where(tables.environment.c.id.in_({row[2] for row in found}))
        environments = {number: Environment.model_validate_json(text) for number, text in connection.execute(wanted)}
    return {(runs[run], alias): environments[number] for run, alias, number in found}


def read_cells(database: Database, cell_ids: Collection[str]) -> dict[str, Cell]:
    """The cells with these ids.

    Raises:
        StoreError: the database cannot be read.
    """
    wanted = set(cell_ids)
    with database.reading() as connection:
        rows = connection.execute(select(tables.cell)).mappings().all()
    fields = [name for name in Cell.model_fields if name in tables.cell.c]
    return {row["cell_id"]: Cell(**{name: row[name] for name in fields}) for row in rows if row["cell_id"] in wanted}


def _number_runs(connection: Connection, run_ids: Sequence[str]) -> dict[str, tuple[int, str]]:
    """By id, the number of a run in the tables, and its payload."""
    run = tables.run.c
    rows = connection.execute(select(run.run_id, run.id, run.payload_sha256).where(run.run_id.in_(list(run_ids))))
    return {run_id: (number, payload) for run_id, number, payload in rows}
