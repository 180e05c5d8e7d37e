"""Rows into tables, and out of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import Connection, Table, delete, insert, select

from fleet.model.journal import Annotation, Entry, IncidentState
from fleet.store import tables
from fleet.store.journal import list_pinned
from fleet.store.rows import HostRows, Row, RunRows


def insert_run(connection: Connection, root: str, rows: RunRows) -> None:
    """Put a run in the place of what was known of it."""
    delete_runs(connection, [str(rows.run["run_id"])])
    made = connection.execute(insert(tables.run).values({**rows.run, "root": root}).returning(tables.run.c.id))
    run = made.scalar_one()
    cells = {name: {"cell_id": name, **cell.model_dump()} for name, cell in rows.cells.items()}
    known = dict(host.environment for host in rows.hosts if host.environment)
    environments = {name: {"fingerprint": name, **row} for name, row in known.items()}
    aliases: dict[str, Row] = {host.alias: {"alias": host.alias} for host in rows.hosts}
    hosts = _number(connection, tables.host, "alias", aliases)
    cell_numbers = _number(connection, tables.cell, "cell_id", cells)
    environment_numbers = _number(connection, tables.environment, "fingerprint", environments)

    def make_outcome(host: HostRows) -> Row:
        number = environment_numbers[host.environment[0]] if host.environment else None
        return {"run": run, "host": hosts[host.alias], **host.outcome, "environment": number}

    outcomes = [make_outcome(host) for host in rows.hosts]
    results = [
        {"run": run, "host": hosts[host.alias], "cell": cell_numbers[name], **row}
        for host in rows.hosts
        for name, row in host.results.items()
    ]
    _insert_all(connection, tables.outcome, outcomes)
    # In the order of the key the pages of the table are filled to the brim.
    _insert_all(connection, tables.result, sorted(results, key=lambda row: (row["host"], row["cell"])))


def delete_runs(connection: Connection, run_ids: Collection[str]) -> None:
    """Take these runs out. What is shared with others stays, and so does what is shared with nobody any more."""
    for run_id in run_ids:
        number = connection.execute(select(tables.run.c.id).where(tables.run.c.run_id == run_id)).scalar()
        if number is not None:
            connection.execute(delete(tables.result).where(tables.result.c.run == number))
            connection.execute(delete(tables.outcome).where(tables.outcome.c.run == number))
            connection.execute(delete(tables.run).where(tables.run.c.id == number))


def insert_journal(connection: Connection, root: str, stamp: str, entries: Iterable[Entry]) -> None:
    """Put a journal in the place of what was known of it; of two entries on the same the later one counts."""
    delete_journal(connection, root)
    entries = list(entries)
    said = [(entry, {"root": root, **entry.model_dump(exclude={"entry"})}) for entry in entries]
    states = [(entry, row) for entry, row in said if isinstance(entry, IncidentState)]
    incidents = {(entry.level, entry.name, entry.cell_id, entry.opened): row for entry, row in states}
    annotations = [row for entry, row in said if isinstance(entry, Annotation)]
    pinned = [
        {"root": root, **baseline.model_dump(exclude={"entry"}), "run_ids": json.dumps(baseline.run_ids)}
        for baseline in list_pinned(entries).values()
    ]
    _insert_all(connection, tables.journal, [{"root": root, "stamp": stamp}])
    _insert_all(connection, tables.baseline, pinned)
    _insert_all(connection, tables.incident, [*incidents.values()])
    _insert_all(connection, tables.annotation, [row | {"place": place} for place, row in enumerate(annotations)])


def delete_journal(connection: Connection, root: str) -> None:
    for table in (tables.journal, tables.baseline, tables.incident, tables.annotation):
        connection.execute(delete(table).where(table.c.root == root))


def _number(connection: Connection, table: Table, key: str, rows: Mapping[str, Row]) -> dict[str, int]:
    """The number of each of `rows`, which are known by the column `key`; what is new gets one."""
    column = table.c[key]

    def look_up() -> dict[str, int]:
        found = connection.execute(select(column, table.c.id).where(column.in_(list(rows))))
        return {row[0]: row[1] for row in found}

    known = look_up()
    new = [rows[name] for name in sorted(rows.keys() - known.keys())]
    _insert_all(connection, table, new)
    return look_up() if new else known


def _insert_all(connection: Connection, table: Table, rows: list[Row]) -> None:
    if rows:
        connection.execute(insert(table), rows)
