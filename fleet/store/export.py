"""The results of all runs as one Parquet file, for other programs."""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, ColumnElement, Float, Integer, Select, Table, and_, case, select

from fleet.errors import ExitCode, FleetError
from fleet.store import tables
from fleet.store.database import Database
from fleet.store.files import explain_error, resolve_target
from fleet.store.tables import STATUS_CODES

_ROWS = 100_000
"""Of a group; so many are in memory at a time."""

_LEFT_OUT = {"id", "root", "stamp", "run", "host", "cell", "environment", "fields"}
"""Columns that say something within the index only."""

_FOUND = {"batch_size": "found_batch_size", "devices": "found_devices"}
"""Of a result; its cell has columns of the same names."""


def export_parquet(database: Database, file: Path, regressed: Set[str] = frozenset()) -> int:
    """Write every result of the index to `file`, oldest run first, one row each; how many there are.

    Columns have the names and units of the index (`fleet.store.tables`), status in words; `found_batch_size` and
    `found_devices` are what a cell that leaves them open was measured with.

    Args:
        regressed: runs with a regression, whose `exit_code` says so.

    Raises:
        FleetError: pyarrow is not installed.
        StoreError: the database cannot be read, the file cannot be written, or something else is there.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        hint = f"Install it with: {shlex.quote(sys.executable)} -m pip install pyarrow"
        raise FleetError(f"Parquet needs {error.name}, which is not installed.", hint) from error
    query = _select_all(regressed)
    types = [_choose_type(pa, column) for column in query.selected_columns]
    schema = pa.schema(list(zip(query.selected_columns.keys(), types, strict=True)))
    file = resolve_target(file)
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}.tmp")
    written = 0
    try:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for rows in _read_groups(database, query):
                columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), types, strict=True)]
                writer.write_table(pa.table(columns, schema=schema))
                written += len(rows)
        temporary.replace(file)
    except OSError as error:
        raise explain_error(error, file) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    return written


def _select_all(regressed: Set[str]) -> Select[Any]:
    words = case({code: status.value for status, code in STATUS_CODES.items()}, value=tables.result.c.status)
    own = [
        words.label("status") if column.name == "status" else column.label(_FOUND.get(column.name, column.name))
        for column in _keep(tables.result)
    ]
    host = [column.label(f"host_{column.name}") for column in _keep(tables.outcome) if column.name != "protocol"]
    joined = (
        tables.result.join(tables.run, tables.run.c.id == tables.result.c.run)
        .join(tables.host, tables.host.c.id == tables.result.c.host)
        .join(tables.cell, tables.cell.c.id == tables.result.c.cell)
        .join(
            tables.outcome,
            and_(tables.outcome.c.run == tables.result.c.run, tables.outcome.c.host == tables.result.c.host),
        )
        .outerjoin(tables.environment, tables.environment.c.id == tables.outcome.c.environment)
    )
    ended = tables.run.c.exit_code
    worse = and_(ended == ExitCode.OK.value, tables.run.c.run_id.in_(sorted(regressed)))
    code = case((worse, ExitCode.REGRESSION.value), else_=ended).label("exit_code")
    run = [code if column.name == "exit_code" else column for column in _keep(tables.run)]
    shared = [*run, tables.host.c.alias, *_keep(tables.cell), tables.outcome.c.protocol, *own]
    return select(*shared, *host, *_keep(tables.environment)).select_from(joined)


def _keep(table: Table) -> list[Column[Any]]:
    return [column for column in table.columns if column.name not in _LEFT_OUT]


def _choose_type(pa: Any, column: ColumnElement[Any]) -> Any:
    kinds = ((Boolean, pa.bool_()), (BigInteger, pa.int64()), (Integer, pa.int32()), (Float, pa.float64()))
    return next((kind for sort, kind in kinds if isinstance(column.type, sort)), pa.string())


def _read_groups(database: Database, query: Select[Any]) -> Iterator[list[Sequence[Any]]]:
    group: list[Sequence[Any]] = []
    with database.reading() as connection:
        # By the run's id, which sorts by time on every database; a server may sort text by a language.
        runs = sorted(connection.execute(select(tables.run.c.run_id, tables.run.c.id)).all())
        for _, number in runs:
            own = query.where(tables.result.c.run == number).order_by(tables.result.c.host, tables.result.c.cell)
            group += connection.execute(own).all()
            if len(group) >= _ROWS:
                yield group
                group = []
    if group:
        yield group
