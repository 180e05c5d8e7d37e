"""Runs built from the real nouns, for tests of what is made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fleet.model.event import HostFinished
from fleet.model.facts import Cpu, Gpu, HostFacts, Software
from fleet.model.inventory import Connection, Settings
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import (
    CellResult,
    CellStatus,
    HostOutcome,
    HostStatus,
    Stage,
    Throughput,
    Timing,
)
from fleet.model.suite import Cell, Device, Phase, Precision, Rules
from fleet.model.telemetry import CpuTelemetry, GpuTelemetry, Telemetry
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store

RUN_ID = "20260101T023000Z-k3x9"
SHA = "ab" * 32
DIGEST = "sha256:" + "0123456789ab" * 5 + "cdef"
GIB = 1 << 30


def make_cells(device: Device = "cpu", count: int = 3) -> tuple[Cell, ...]:
    """Up to eighteen different cells."""
    models = ("resnet50", "alexnet", "alexnet_conv")
    phases: tuple[Phase, ...] = ("train", "forward", "forward_backward")
    precisions: tuple[Precision, ...] = ("fp32", "fp16")
    return tuple(
        Cell(model=model, phase=phase, precision=precision, batch_size=32, device=device)
        for precision in precisions
        for model in models
        for phase in phases
    )[:count]


def make_plan(
    hosts: Mapping[str, tuple[Cell, ...]], run_id: str = RUN_ID, devices: Mapping[str, Device] | None = None
) -> Plan:
    """A plan of these hosts and their cells; a host is a GPU host when its first cell is a GPU's."""
    kinds = {alias: cells[0].device if cells else "cpu" for alias, cells in hosts.items()} | dict(devices or {})
    return Plan(
        run_id=run_id,
        created=f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T02:30:00Z",
        fleet_version="0.1.0",
        inventory="lab.yaml",
        limit=None,
        suite="quick",
        rules=Rules(),
        payload_sha256=SHA,
        forks=32,
        hosts=tuple(
            HostPlan(
                alias=alias,
                job_id=f"{run_id.lower()}-{place:03d}",
                groups=(),
                connection=Connection(),
                settings=Settings(devices="cpu" if kinds[alias] == "cpu" else "all"),
                cells=cells,
                estimate_s=60,
                deadline_s=600,
            )
            for place, (alias, cells) in enumerate(hosts.items())
        ),
    )


def make_facts(
    gpu: str = "", gpus: int = 1, cpu: str = "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", memory: float = 251.4
) -> HostFacts:
    return HostFacts(
        cpu=Cpu(model=cpu, sockets=2, cores=64, threads=128),
        memory_bytes=int(memory * GIB),
        gpus=tuple(Gpu(index=i, name=gpu, memory_bytes=80 * GIB) for i in range(gpus)) if gpu else (),
        driver="570.86.10" if gpu else None,
        runtime_version="27.1.1",
        clock_offset_s=0.02,
    )


@dataclass(frozen=True)
class Ending:
    """How a host of a built run ends. `rate` is the first cell's images/s; each further cell is half as fast again."""

    rate: float = 100.0
    status: HostStatus = HostStatus.OK
    stage: Stage = Stage.CLEAN
    reason: str | None = None
    message: str = ""
    hint: str = ""
    facts: HostFacts | None = field(default_factory=make_facts)
    tensorflow: str = "2.17.0"
    digest: str = DIGEST
    words: Mapping[int, tuple[CellStatus, str]] = field(default_factory=dict)
    """Place of a cell → the status and reason it has instead of a value."""
    unsteady: Sequence[int] = ()
    others: Mapping[int, float] = field(default_factory=dict)
    """Place of a cell → the part of the processors that others kept busy meanwhile; 0.01 where none is given."""


def make_outcome(host: HostPlan, plan: Plan, ending: Ending) -> HostOutcome:
    ran = ending.status in {HostStatus.OK, HostStatus.PARTIAL}
    return HostOutcome(
        alias=host.alias,
        job_id=host.job_id,
        status=ending.status,
        stage=ending.stage,
        reason=ending.reason,
        message=ending.message,
        hint=ending.hint,
        facts=ending.facts,
        software=Software(
            tensorflow=ending.tensorflow,
            image=host.settings.image,
            image_digest=ending.digest,
            runtime="docker",
        )
        if ran
        else None,
        job_s=83.4 if ran else None,
        cells=tuple(_make_cell(host, plan, ending, place) for place in range(len(host.cells))) if ran else (),
    )


def _make_cell(host: HostPlan, plan: Plan, ending: Ending, place: int) -> CellResult:
    cell = host.cells[place]
    status, reason = ending.words.get(place, (CellStatus.OK, ""))
    rate = ending.rate / 1.5**place
    step_us = (cell.batch_size or 96) / rate * 1e6
    ok = status is CellStatus.OK
    return CellResult(
        schema_="fleet.result/1",
        kind="cell",
        protocol=1,
        payload_sha256=plan.payload_sha256,
        run_id=plan.run_id,
        job_id=host.job_id,
        alias=host.alias,
        index=place,
        cell_id=cell.id,
        cell=cell,
        status=status,
        stage="done" if ok else "measure",
        reason=reason or None,
        message=None if ok else f"The cell ended as {status.value}. Look at its log.",
        started_unix_s=1.0,
        duration_s=10.0,
        timing=_make_timing(step_us, steady=place not in ending.unsteady) if ok else None,
        throughput=Throughput(images_per_s=rate, images_per_s_total=rate * 0.99) if ok else None,
        telemetry=make_telemetry(ending.others.get(place, 0.01)) if ok else None,
    )


def make_telemetry(others: float | None = 0.01, gpus: tuple[GpuTelemetry, ...] = ()) -> Telemetry:
    cpu = CpuTelemetry(other_busy_share=others, steal_share=0.0)
    return Telemetry(window_s=10.0, samples=20, sampler_cpu_s=0.01, cpu=cpu, gpus=gpus)


def _make_timing(step_us: float, *, steady: bool) -> Timing:
    return Timing(
        warmup_steps=10,
        warmup_s=1,
        steps=100,
        total_s=step_us / 1e4,
        steps_us="eJwDAAAAAAE=",
        quantiles_us={"p05": step_us, "p25": step_us, "p50": step_us, "p75": step_us, "p95": step_us, "p99": step_us},
        mean_us=step_us,
        sd_us=step_us * 0.01,
        mad_us=step_us * 0.004,
        ci95_us=(step_us * 0.99, step_us * 1.01),
        halves_ratio=1.0 if steady else 1.05,
        steady=steady,
    )


def store_run(
    root: Path, plan: Plan, endings: Mapping[str, Ending], *, exit_code: int = 0, interrupted: bool = False
) -> StoredRun:
    """Write the run through the real store and read it back; a planned host without an ending leaves it incomplete."""
    store = Store(root)
    with store.create(plan) as writer:
        for host in plan.hosts:
            if host.alias in endings:
                outcome = make_outcome(host, plan, endings[host.alias])
                writer.record(HostFinished(alias=host.alias, outcome=outcome))
        if len(endings) == len(plan.hosts):
            writer.finish(exit_code=exit_code, interrupted=interrupted)
            writer.move_latest()
    return store.load(plan.run_id)
