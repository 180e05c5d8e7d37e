"""The index over a year of 100 hosts with 60 cells each: how large it gets, and how long what is asked of it takes.

    python tests/bench/store.py                     # SQLite
    python tests/bench/store.py --postgres          # a server of the bench's own as well
    python tests/bench/store.py --nights 30         # a shorter year

The last night is a real run directory, with 300 step times in every cell, which is read and imported; the other nights
are rows of the same kind. Times are the best of five, warm. The bars are for processor time, since a machine has other
work too; PostgreSQL's own is not in it. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from fleet.model.event import HostFinished
from fleet.model.facts import Gpu
from fleet.model.plan import Plan
from fleet.model.result import CellResult
from fleet.model.suite import Cell
from fleet.model.telemetry import GpuTelemetry
from fleet.store.importing import insert_run
from fleet.store.index import Index, open_index
from fleet.store.readings import list_complete, read_series, read_values
from fleet.store.rows import HostRows, RunRows, read_rows
from fleet.store.rundir import Store
from tests.postgres import Postgres
from tests.run_builder import Ending, make_facts, make_outcome, make_plan, make_telemetry

MOST_MB = 120.0
MOST_IMPORT_S = 2.0
MOST_READ_S = 1.0
BEGIN = datetime(2026, 1, 1, 2, 30)


@dataclass(frozen=True)
class Measured:
    what: str
    value: float
    unit: str
    most: float | None = None
    """The bar; None: there is none."""
    wall_s: float | None = None


def make_cells() -> tuple[Cell, ...]:
    """Sixty of those a lab would run every night."""
    models = ("resnet50", "vgg16", "inception3", "alexnet", "densenet40", "bert_base_128")
    return tuple(
        Cell(model=model, phase=phase, precision=precision, batch_size=batch, device="gpu", data_format="NCHW")
        for model in models
        for phase, precision in (
            ("train", "fp32"),
            ("train", "fp16"),
            ("forward", "fp16"),
            ("forward", "bf16"),
            ("train", "tf32"),
        )
        for batch in (32, 256)
    )


def name_night(night: int) -> str:
    return f"{BEGIN + timedelta(days=night):%Y%m%dT%H%M%SZ}-{night:04d}"


def store_night(store: Store, night: int, hosts: int) -> Plan:
    """A run directory as a night on machines with one GPU leaves it: about 150 kB a host."""
    rng = np.random.default_rng(night)
    plan = make_plan({f"gpu{place:03d}": make_cells() for place in range(hosts)}, name_night(night))
    facts = make_facts("NVIDIA A100-SXM4-80GB").model_copy(
        update={"gpus": (Gpu(uuid="GPU-0", name="A100", memory_bytes=80 << 30),)}
    )
    with store.create(plan, b"payload") as writer:
        for host in plan.hosts:
            outcome = make_outcome(host, plan, Ending(rate=float(rng.uniform(2000, 3000)), facts=facts))
            cells = tuple(_fill_cell(cell, rng) for cell in outcome.cells)
            writer.record(HostFinished(alias=host.alias, outcome=outcome.model_copy(update={"cells": cells})))
        writer.finish(exit_code=0)
    return plan


def _fill_cell(cell: CellResult, rng: np.random.Generator) -> CellResult:
    """With step times, quantiles that differ, and a GPU's telemetry."""
    assert cell.timing and cell.throughput
    middle = float(rng.lognormal(np.log(40_000), 1.2))
    quantiles = {
        name: middle * (1 + float(part))
        for name, part in zip(("p05", "p25", "p50", "p75", "p95", "p99"), np.sort(rng.normal(0, 0.01, 6)), strict=True)
    }
    timing = cell.timing.model_copy(
        update={
            "quantiles_us": quantiles,
            "mean_us": quantiles["p50"] * 1.002,
            "ci95_us": (quantiles["p50"] * 0.9989, quantiles["p50"] * 1.0012),
            "total_s": 20.0,
            "steps_us": base64.b64encode(rng.bytes(800)).decode(),
        }
    )
    gpu = GpuTelemetry(
        uuid="GPU-0",
        pci_bus_id="0000:65:00.0",
        samples=40,
        sm_mhz_p50=float(rng.integers(1300, 1410)),
        power_w_mean=310.5,
        energy_j=float(rng.uniform(5000, 8000)),
        temperature_c_max=float(rng.integers(50, 80)),
        throttle_s={"sw_power_cap": 3.0, "hw_thermal": 0.0},
    )
    rate = (cell.cell.batch_size or 1) / quantiles["p50"] * 1e6
    throughput = cell.throughput.model_copy(update={"images_per_s": rate, "images_per_s_total": rate * 0.998})
    return cell.model_copy(
        update={"timing": timing, "throughput": throughput, "telemetry": make_telemetry(gpus=(gpu,))}
    )


def vary_night(last: RunRows, night: int) -> RunRows:
    """The rows of another night: every value a little off, one cell in a hundred without one."""
    rng = np.random.default_rng(night)
    fields = ("step_ns", "energy_uj_per_image", "clock_mhz")
    spreads = ("p05_bp", "p25_bp", "p75_bp", "p95_bp", "mean_bp", "ci_low_bp", "ci_high_bp")
    hosts = []
    for host in last.hosts:
        results = {}
        noise = rng.normal(1, 0.008, (len(host.results), len(fields) + len(spreads))).tolist()
        failed = (rng.random(len(host.results)) < 0.01).tolist()
        for (name, row), factors, gone in zip(host.results.items(), noise, failed, strict=True):
            values = {key: round(row[key] * f) for key, f in zip((*fields, *spreads), factors, strict=True)}
            blank = {"status": 1, "reason": "ran_out", **dict.fromkeys((*values, "steady", "disturbed"))}
            results[name] = {**row, **(blank if gone else values)}
        hosts.append(HostRows(host.alias, host.outcome, host.environment, results))
    return RunRows({**last.run, "run_id": name_night(night), "stamp": night}, tuple(hosts), last.cells, ())


def measure(index: Index, nights: int, hosts: int) -> Iterator[Measured]:
    """Fill the index and ask it."""
    plan = store_night(index.store, nights - 1, hosts)
    path = index.store.runs_path / plan.run_id
    last = read_rows(path)
    spent_s = 0.0
    for night in range(nights - 1):
        rows = vary_night(last, night)
        begin = time.process_time()
        with index.database.writing() as connection:
            insert_run(connection, "", rows)
        spent_s += time.process_time() - begin
    results = sum(len(host.results) for host in last.hosts)
    yield Measured("rows imported", results * (nights - 1) / spent_s / 1000, "thousand/s")
    yield _clock("a night read from its directory", lambda: read_rows(path))
    yield _clock("a night imported, read included", lambda: index.import_run(path), MOST_IMPORT_S)
    yield Measured("results", results * nights / 1e6, "million")
    yield Measured("size", _size_mb(index), "MB", MOST_MB if index.database.is_sqlite else None)
    yield from _measure_reading(index, plan)


def _measure_reading(index: Index, plan: Plan) -> Iterator[Measured]:
    database, cell = index.database, plan.hosts[-1].cells[23].id
    runs = list_complete(database)
    values = read_values(database, runs[-15:])
    assert values.step_us.shape == (sum(len(host.cells) for host in plan.hosts), min(15, len(runs)))
    assert len(read_series(database, plan.hosts[-1].alias, cell).run_ids) == len(runs)
    asked: dict[str, Callable[[], object]] = {
        "the list of runs": index.list_runs,
        "matrix of the last run": lambda: read_values(database, list_complete(database)[-1:]),
        "a cell's year on a host": lambda: read_series(database, plan.hosts[-1].alias, cell),
        "last night and the 14 before, all cells": lambda: read_values(database, list_complete(database)[-15:]),
    }
    for what, ask in asked.items():
        yield _clock(what, ask, MOST_READ_S)


def _clock(what: str, ask: Callable[[], object], most: float | None = None) -> Measured:
    times = []
    for _ in range(5):
        begin, wall = time.process_time(), time.perf_counter()
        ask()
        times.append((time.process_time() - begin, time.perf_counter() - wall))
    return Measured(what, min(times)[0], "s", most, min(wall for _, wall in times))


def _size_mb(index: Index) -> float:
    """As it lies on the disk when nobody has it open."""
    if index.database.is_sqlite:
        with index.database.reading() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            return float(pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one()) / 1e6
    with index.database.reading() as connection:
        return float(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()) / 1e6


def show(name: str, measured: Iterator[Measured]) -> bool:
    """Print the table as it grows; whether every bar is held."""
    print(f"\n{name}")
    held = True
    for line in measured:
        bar = "" if line.most is None else f"at most {line.most:g}" + ("" if line.value <= line.most else "  MISSED")
        held &= not bar.endswith("MISSED")
        wall = "" if line.wall_s is None else f"(wall {line.wall_s:.3f} s)"
        print(f"  {line.what:42} {line.value:10.3f} {line.unit:12} {wall:16} {bar}", flush=True)
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        store = Store(Path(folder))
        with open_index(store) as index:
            held = show("SQLite", measure(index, options.nights, options.hosts))
        if options.postgres:
            with Postgres() as server:
                other = Store(Path(folder) / "other")
                with open_index(other, server.make_database()) as index:
                    held &= show("PostgreSQL", measure(index, options.nights, options.hosts))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
