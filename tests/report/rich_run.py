"""A stored run that has something for every view of a report: of any number of hosts, made without a machine."""

from __future__ import annotations

import base64
import itertools
import random
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

from fleet.model.event import HostFinished
from fleet.model.facts import Cpu, Gpu, HostFacts
from fleet.model.plan import HostPlan, Plan
from fleet.model.result import CellResult, CellStatus, HostOutcome, HostStatus, Stage, Throughput, Timing
from fleet.model.suite import Cell, Phase, Precision
from fleet.model.telemetry import CpuTelemetry, GpuTelemetry, Telemetry
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store
from tests.run_builder import RUN_ID, Ending, make_outcome, make_plan

CARDS: tuple[tuple[str, int, float, float], ...] = (
    ("NVIDIA H100 80GB HBM3", 80, 2100.0, 700.0),
    ("NVIDIA A100-SXM4-80GB", 80, 1240.0, 400.0),
    ("Tesla V100-SXM2-16GB", 16, 720.0, 300.0),
)
"""Name, GiB, images/s of resnet50 in fp16 at a large batch, watts."""

GAIN: Mapping[Precision, float] = {"fp32": 1.0, "tf32": 1.6, "fp16": 2.6, "bf16": 2.5}


def make_gpu_cells() -> tuple[Cell, ...]:
    """Batch sizes, precisions and numbers of GPUs of three models: 45 cells."""

    def cell(model: str, precision: Precision, batch: int, devices: int, phase: Phase = "train") -> Cell:
        return Cell(
            model=model,
            phase=phase,
            precision=precision,
            batch_size=batch,
            device="gpu",
            devices=devices,
            data_format="NCHW",
        )

    sizes = [cell(m, p, b, 1) for m in ("resnet50", "vgg16") for p in ("fp32", "fp16") for b in (32, 64, 128, 256, 512)]
    many = [cell(m, "fp16", 64, n) for m in ("resnet50", "vgg16") for n in (2, 4, 8)]
    return (*sizes, *many, cell("alexnet_conv", "fp32", 32, 1, "forward"), cell("resnet50", "bf16", 64, 1))


CPU_CELLS = (
    Cell(model="resnet50", batch_size=8),
    Cell(model="resnet50", batch_size=32),
    Cell(model="alexnet_conv", phase="forward", batch_size=32),
)


def store_rich_run(root: Path, hosts: int, *, names: str = "gpu{:03d}", seed: int = 7) -> StoredRun:
    """Of `hosts` hosts one in four has no GPU; from six on one is out of reach and one fails in some cells."""
    cells = make_gpu_cells()
    planned = {
        (f"cpu{place:03d}" if place % 4 == 3 or place == 2 == hosts - 1 else names.format(place)): (
            CPU_CELLS if place % 4 == 3 or place == 2 == hosts - 1 else cells
        )
        for place in range(hosts)
    }
    plan = make_plan(planned, RUN_ID)
    store = Store(root)
    noise = random.Random(seed)
    with store.create(plan) as writer:
        for place, host in enumerate(plan.hosts):
            outcome = _make_outcome(host, plan, place, noise)
            if outcome.cells:
                writer.keep(host.alias, {"log": b"ok\n", "cells/000.json": outcome.cells[0].model_dump_json().encode()})
            writer.record(HostFinished(alias=host.alias, outcome=outcome))
        writer.finish(exit_code=3 if hosts >= 6 else 0, interrupted=False)
        writer.move_latest()
    return store.load(plan.run_id)


def _make_outcome(host: HostPlan, plan: Plan, place: int, noise: random.Random) -> HostOutcome:
    gpu = host.cells[0].device == "gpu"
    card = CARDS[place % len(CARDS)]
    facts = _make_facts(card, place) if gpu else HostFacts(cpu=Cpu(model="AMD EPYC 7763 64-Core Processor", cores=64))
    if place == 4:
        refused = Ending(
            status=HostStatus.UNREACHABLE,
            stage=Stage.CONNECT,
            reason="refused",
            message="192.0.2.4:22 refused the connection.",
            hint=f"Start sshd there, then try: fleet ping -i lab.yaml --limit {host.alias}",
            facts=None,
        )
        return make_outcome(host, plan, refused)
    status = HostStatus.PARTIAL if place == 5 else HostStatus.OK
    outcome = make_outcome(host, plan, Ending(status=status, facts=facts, tensorflow="2.17.0"))
    speed = noise.gauss(1, 0.01) * (0.86 if place % 17 == 13 else 1)
    cells = tuple(
        _measure(cell, card if gpu else None, (place, number), speed, noise)
        for number, cell in enumerate(outcome.cells)
    )
    return outcome.model_copy(update={"cells": cells})


def _make_facts(card: tuple[str, int, float, float], place: int) -> HostFacts:
    name, gib, _, watts = card
    gpus = tuple(
        Gpu(
            index=number,
            uuid=f"GPU-{place}-{number}",
            name=name,
            memory_bytes=gib << 30,
            power_limit_w=watts * (0.7 if place == 1 else 1),
            power_default_w=watts,
            ecc="Enabled",
            mig="Disabled",
            persistence="Enabled",
        )
        for number in range(8)
    )
    cpu = Cpu(model="Intel(R) Xeon(R) Platinum 8480+", sockets=2, cores=112, threads=224, governor="performance")
    return HostFacts(cpu=cpu, memory_bytes=2 << 40, gpus=gpus, driver="550.90.07", runtime_version="27.1.1")


def _measure(
    result: CellResult,
    card: tuple[str, int, float, float] | None,
    where: tuple[int, int],
    speed: float,
    noise: random.Random,
) -> CellResult:
    """The cell as a machine of this kind might have measured it: `where` are the places of its host and of the cell."""
    cell, (place, number) = result.cell, where
    lacking = _find_lack(cell, card, where)
    if lacking is not None:
        said = f"The cell ended as {lacking[0].value}."
        bare = {"timing": None, "throughput": None, "telemetry": None, "message": said}
        return result.model_copy(update={"status": lacking[0], "reason": lacking[1], **bare})
    work = {"vgg16": 0.55, "alexnet_conv": 6.0}.get(cell.model, 1.0)
    rate = (card[2] if card else 60.0) * work * speed * cell.devices * 0.965 ** (cell.devices.bit_length() - 1)
    rate *= GAIN[cell.precision] / GAIN["fp16"] if card else 1
    rate *= cell.batch_size / (cell.batch_size + (24 if card else 2))
    steps = _draw_steps(cell.batch_size * cell.devices / rate * 1e6, unsteady=place == 3 or number == 7, noise=noise)
    timing = make_timing(steps, dropped=8 if number == 5 and place % 3 == 0 else 0)
    rate = cell.batch_size * cell.devices / timing.quantiles_us["p50"] * 1e6
    return result.model_copy(
        update={
            "timing": timing,
            "throughput": Throughput(images_per_s=rate, images_per_s_total=rate * 0.99),
            "telemetry": _make_telemetry(cell, card, place, timing.total_s),
        }
    )


def _find_lack(
    cell: Cell, card: tuple[str, int, float, float] | None, where: tuple[int, int]
) -> tuple[CellStatus, str] | None:
    if where[0] == 5 and where[1] in {2, 3}:
        return CellStatus.CRASH, "signal"
    if card and cell.batch_size * (2 if cell.precision == "fp32" else 1) * (3 if cell.model == "vgg16" else 2) > (
        card[1] * 24
    ):
        return CellStatus.OOM, "device_memory"
    if card and card[1] == 16 and cell.precision == "bf16":
        return CellStatus.UNSUPPORTED, "no_bf16"
    return None


def _draw_steps(middle_us: float, *, unsteady: bool, noise: random.Random) -> list[int]:
    """A hundred step times, slow ones at the beginning, a few late."""
    times = []
    for place in range(100):
        drift = 1 + 0.05 * (unsteady and place > 50) + 0.4 * 2.7 ** (-place / 2)
        late = 1.3 if noise.random() < 0.02 else 1.0
        times.append(max(1, round(middle_us * drift * late * noise.gauss(1, 0.006))))
    return times


def make_timing(steps: list[int], dropped: int = 0) -> Timing:
    """What the payload makes of step times in microseconds."""
    differences = [steps[0], *(after - before for before, after in itertools.pairwise(steps))]
    packed = base64.b64encode(zlib.compress(struct.pack(f"<{len(steps)}i", *differences))).decode()
    counted = sorted(steps[dropped:])
    quantiles = {f"p{q:02d}": float(counted[min(len(counted) - 1, len(counted) * q // 100)]) for q in (5, 25, 50)}
    quantiles |= {f"p{q:02d}": float(counted[min(len(counted) - 1, len(counted) * q // 100)]) for q in (75, 95, 99)}
    middle = quantiles["p50"]
    half = len(steps[dropped:]) // 2
    first, second = (sorted(part)[len(part) // 2] for part in (steps[dropped:][:half], steps[dropped:][half:]))
    return Timing.model_validate(
        {
            "warmup_steps": 10,
            "warmup_s": 14 * middle / 1e6,
            "steps": len(steps),
            "dropped_steps": dropped,
            "total_s": sum(steps) / 1e6,
            "steps_us": packed,
            "quantiles_us": quantiles,
            "mean_us": sum(counted) / len(counted),
            "sd_us": middle * 0.02,
            "mad_us": sorted(abs(step - middle) for step in counted)[len(counted) // 2],
            "ci95_us": (middle * 0.998, middle * 1.002),
            "halves_ratio": second / first,
            "steady": abs(second / first - 1) <= 0.01,
        }
    )


def _make_telemetry(cell: Cell, card: tuple[str, int, float, float] | None, place: int, window_s: float) -> Telemetry:
    cpu = CpuTelemetry(
        other_busy_share=0.2 if place == 6 else 0.01, steal_share=0.0, frequency_mhz_p50=3100, energy_j=280 * window_s
    )
    watts = card[3] * (0.68 if place == 1 else 0.93) if card else 0.0
    gpus = tuple(
        GpuTelemetry(
            uuid=f"GPU-{place}-{number}",
            pci_bus_id=f"0000:{number:02x}:00.0",
            samples=20,
            sm_mhz_p50=1410,
            power_w_mean=watts,
            energy_j=watts * window_s,
            temperature_c_max=67,
            throttle_s={"sw_power_cap": 1.0, "hw_thermal": 2.5 if place == 3 else 0.0},
        )
        for number in range(cell.devices if card else 0)
    )
    return Telemetry(window_s=window_s, samples=20, sampler_cpu_s=0.01, cpu=cpu, gpus=gpus)
