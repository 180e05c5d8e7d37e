"""Nights for tests of the index, and everything that an index holds, as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Connection, select

from fleet.model.plan import Plan
from fleet.model.result import CellStatus
from fleet.store import tables
from fleet.store.index import Index
from tests.run_builder import Ending, make_cells, make_facts, make_plan, store_run

NIGHTS = tuple(f"202601{day:02d}T023000Z-n{day:03d}" for day in range(1, 8))
HOSTS = {"cpu01": make_cells("cpu", 4), "cpu02": make_cells("cpu", 4), "gpu01": make_cells("gpu", 6)}


def store_night(root: Path, run_id: str, endings: Mapping[str, Ending] | None = None) -> Plan:
    """A night of three hosts on which everything differs a little from the others."""
    night = int(run_id[6:8])
    plan = make_plan(HOSTS, run_id)
    gpu = make_facts("NVIDIA A100-SXM4-80GB", 8).model_copy(update={"driver": f"570.{night // 3}"})
    usual = {
        "cpu01": Ending(rate=100 + night),
        "cpu02": Ending(rate=90, words={night % 4: (CellStatus.OOM, "ran_out")}, unsteady=[2], others={0: 0.4}),
        "gpu01": Ending(rate=2000.5 / night, facts=gpu),
    }
    store_run(root, plan, usual | dict(endings or {}))
    return plan


def dump(index: Index) -> str:
    """Everything that is in the index, without the numbers that stand for names."""
    with index.database.reading() as connection:
        named = {table: _read_names(connection, table, key) for table, key in _KEYS.items()}
        lines = []
        for table in tables.metadata.sorted_tables:
            if table.name in _KEYS and table.name != "run":
                continue  # what is shared is told where it is used
            for row in connection.execute(select(table)).mappings():
                said = {name: named[name][value] if name in named and value else value for name, value in row.items()}
                said |= {"id": None, "root": None}
                lines.append(f"{table.name} {json.dumps(said, sort_keys=True)}")
    return "\n".join(sorted(lines))


_KEYS = {"run": "run_id", "host": "alias", "cell": "cell_id", "environment": "fields"}


def _read_names(connection: Connection, name: str, key: str) -> dict[int, str]:
    table = tables.metadata.tables[name]
    return dict(connection.execute(select(table.c.id, table.c[key])).all())
