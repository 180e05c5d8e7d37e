"""How long a host will take for its cells, for people who wait: floating-point operations ÷ a speed, bounded by the
suite's rules. The speed is the host's own where it has been measured before, and an assumption where not."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from fleet.model.inventory import Settings
from fleet.model.result import CellResult, CellStatus
from fleet.model.suite import Cell, Device, ModelInfo, Precision, Rules

TRAINING_FACTOR = 3
"""A training step costs three forward passes: the gradients by activations and by weights are one each."""

CPU_FLOPS_PER_S = 2e11
"""A CPU host, all cores together. One core of a 2023 Xeon reaches 1.0 to 1.3e11 on resnet50 and alexnet
(TensorFlow 2.15, oneDNN, one pinned core); a shared or an older machine has two such cores' worth at least."""

GPU_FLOPS_PER_S: Mapping[Precision, float] = {"fp32": 8e12, "tf32": 2e13, "fp16": 2e13, "bf16": 2e13}
"""One GPU. An RTX 3090 trains resnet50 at 430 to 540 images/s in fp32 and 1,270 in fp16 (published figures), which is
1.0 to 1.2e13 and 2.9e13; somewhat less is assumed, for older ones."""

STEP_S = 0.002
"""No step is faster: the host's own work."""

TELLING_STEP_S = 0.05
"""The shortest step that tells how fast a host computes."""

_SPEED_RULES = ("compat", "intra_threads", "inter_threads", "numa_node")
"""With other ones of these a host has another speed."""

CELL_START_S: Mapping[Device, float] = {"cpu": 9.0, "gpu": 25.0}
"""A fresh process per cell: importing TensorFlow and tracing; on a GPU also the driver, cuDNN and autotuning."""

JOB_START_S: Mapping[str, float] = {"docker": 12.0, "native": 6.0}
"""From the first connection to the first cell: push, start, and one process that finds out what the machine is."""

SEARCH_USUAL = 9
"""Attempts that the search for the largest batch usually takes: five times doubled, four times halved."""

SEARCHED_BATCH_SIZE = 256
"""What it is expected to end with."""


@dataclass(frozen=True)
class Past:
    """What a host did the last time."""

    rules: Rules
    cells: tuple[CellResult, ...]


@dataclass(frozen=True)
class Pace:
    """How fast a host is expected to be."""

    start_s: float
    """From the start of a cell's process to its first step."""
    flops_per_s: Mapping[Precision, float]
    """Of one device."""
    seen_s: Mapping[str, float] = field(default_factory=dict)
    """Canonical id → how long the cell took, by the same rules."""


def find_pace(device: Device, rules: Rules, models: Mapping[str, ModelInfo], past: Past | None) -> Pace:
    """What is assumed of any host, and what the host's last run shows in its place.

    A precision that was not measured, or not in steps long enough, keeps its assumption.
    """
    flops_per_s = dict.fromkeys(GPU_FLOPS_PER_S, CPU_FLOPS_PER_S) if device == "cpu" else dict(GPU_FLOPS_PER_S)
    if past is None:
        return Pace(CELL_START_S[device], flops_per_s)
    cells = [cell for cell in past.cells if cell.cell.device == device and cell.cell.model in models]
    alike = all(getattr(past.rules, name) == getattr(rules, name) for name in _SPEED_RULES)
    for precision in flops_per_s if alike else ():
        flops_per_s[precision] = _find_speed(cells, precision, models) or flops_per_s[precision]
    starts = [
        cell.duration_s - cell.timing.warmup_s - cell.timing.total_s
        for cell in cells
        if cell.timing and cell.cell.batch_size != 0  # a search is many starts
    ]
    seen_s = {cell.cell_id: cell.duration_s for cell in cells if past.rules == rules and cell.duration_s > 0}
    return Pace(max(0.0, median(starts or [CELL_START_S[device]])), flops_per_s, seen_s)


def estimate_job(
    cells: Sequence[Cell], settings: Settings, rules: Rules, models: Mapping[str, ModelInfo], pace: Pace
) -> float:
    """Seconds from the first connection to the last cell."""
    if not cells:
        return 0.0
    return round(
        JOB_START_S[settings.runtime] + sum(estimate_cell(cell, rules, models[cell.model], pace) for cell in cells), 1
    )


def estimate_run(working_s: Iterable[float], waiting_s: Sequence[float], wave: int = 0) -> float:
    """Seconds until the last host is done.

    Args:
        working_s: what hosts at work still need; below 0 when they should have been done.
        waiting_s: what the others will take, in the order in which they begin.
        wave: at most so many are at work at the same time; 0: all of them.
    """
    ends = [*working_s]
    free = [max(0.0, end_s) for end_s in ends]
    everybody = len(free) + len(waiting_s)
    free += [0.0] * (min(wave or everybody, everybody) - len(free))
    heapq.heapify(free)
    for host_s in waiting_s:
        ends.append(free[0] + host_s)
        heapq.heapreplace(free, ends[-1])
    return max(ends, default=0.0)


def estimate_cell(cell: Cell, rules: Rules, model: ModelInfo, pace: Pace) -> float:
    """Seconds one cell is expected to take, from the start of its process to its document.

    A step is 2 floating-point operations per multiply-add, three times that when gradients are taken; the devices of
    one host work side by side. It is never more than the rules allow, whatever a damaged history says.
    """
    children = 1 if cell.batch_size else 1 + SEARCH_USUAL
    longest_s = children * rules.cell_timeout_s
    if cell.id in pace.seen_s:
        return min(pace.seen_s[cell.id], longest_s)
    if cell.batch_size == 0:
        found = estimate_cell(cell.model_copy(update={"batch_size": SEARCHED_BATCH_SIZE}), rules, model, pace)
        return min(found + SEARCH_USUAL * pace.start_s, longest_s)
    flops = _count_flops(cell, model) * cell.batch_size * cell.steps_per_call
    step_s = max(STEP_S, flops / pace.flops_per_s[cell.precision])
    warmup_s = max(rules.warmup_steps * step_s, rules.warmup_s)
    timed_s = max(min(max(rules.steps * step_s, rules.min_s), rules.max_s), 2 * step_s)
    return min(pace.start_s + warmup_s + timed_s, longest_s)


def _count_flops(cell: Cell, model: ModelInfo) -> int:
    """Of one image."""
    return 2 * model.forward_macs * (1 if cell.phase == "forward" else TRAINING_FACTOR)


def _find_speed(cells: Iterable[CellResult], precision: Precision, models: Mapping[str, ModelInfo]) -> float | None:
    """Floating-point operations a second and device of all cells in this precision together.

    A step that is short is the host's own work more than the model's: it says nothing of larger ones.
    """
    flops = seconds = 0.0
    for cell in cells:
        step_s = cell.timing.quantiles_us.get("p50", 0.0) / 1e6 if cell.timing else 0.0
        if cell.status is CellStatus.OK and cell.cell.precision == precision and step_s >= TELLING_STEP_S:
            images = (cell.measured.batch_size or 1) * cell.cell.steps_per_call
            flops += images * _count_flops(cell.cell, models[cell.cell.model])
            seconds += step_s
    return flops / seconds if seconds else None
