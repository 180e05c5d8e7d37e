"""Who used a machine while it was measured."""

from __future__ import annotations

import pytest

from fleet.model.disturbance import find_disturbance
from fleet.model.facts import Gpu
from fleet.model.result import CellResult, HostOutcome
from fleet.model.telemetry import CpuTelemetry, GpuApp, GpuTelemetry
from tests.run_builder import GIB, Ending, make_cells, make_facts, make_outcome, make_plan, make_telemetry

PLAN = make_plan({"gpu01": make_cells("gpu", 1)})
FACTS = make_facts().model_copy(update={"gpus": (Gpu(uuid="GPU-a", memory_bytes=80 * GIB),)})
OUTCOME = make_outcome(PLAN.hosts[0], PLAN, Ending(facts=FACTS))
PYTHON = GpuApp(pid=4242, name="/opt/bin/python3", memory_bytes=58 * GIB)
CONTEXT = GpuApp(pid=7, name="dcgm", memory_bytes=4 * GIB)


def measure(others: float | None = 0.01, *gpus: GpuTelemetry) -> CellResult:
    return OUTCOME.cells[0].model_copy(update={"telemetry": make_telemetry(others, gpus)})


def see(uuid: str = "GPU-a", **others: tuple[GpuApp, ...] | None) -> GpuTelemetry:
    return GpuTelemetry(uuid=uuid, pci_bus_id="0000:65:00.0", samples=20, **others)


@pytest.mark.parametrize(
    ("share", "said"),
    [(None, ""), (0.0, ""), (0.099, ""), (0.1, "10 % of its processors"), (0.8, "80 % of its processors")],
)
def test_processors(share: float | None, said: str) -> None:
    assert find_disturbance(measure(share), OUTCOME) == said


def test_what_a_hypervisor_gives_to_others_counts_too() -> None:
    cell = measure()
    assert cell.telemetry is not None
    cpu = CpuTelemetry(other_busy_share=0.02, steal_share=0.3)
    cell = cell.model_copy(update={"telemetry": cell.telemetry.model_copy(update={"cpu": cpu})})
    assert find_disturbance(cell, OUTCOME) == "32 % of its processors"


def test_who_was_on_the_gpu_before_or_after() -> None:
    assert find_disturbance(measure(0.01, see(others_before=(PYTHON,))), OUTCOME) == "python3 on its GPU"
    assert find_disturbance(measure(0.5, see(others_after=(PYTHON, PYTHON))), OUTCOME) == (
        "python3 on its GPU and 50 % of its processors"
    )


def test_who_keeps_a_gpu_open_does_not_count() -> None:
    assert find_disturbance(measure(0.01, see(others_before=(CONTEXT,), others_after=None)), OUTCOME) == ""
    assert find_disturbance(measure(0.01, see("GPU-b", others_before=(CONTEXT,))), OUTCOME) == "dcgm on its GPU"
    unknown = GpuApp(pid=9, name=None, memory_bytes=None)
    assert find_disturbance(measure(0.01, see(others_after=(unknown,))), OUTCOME) == "a process on its GPU"


def after(*apps: GpuApp) -> HostOutcome:
    return OUTCOME.model_copy(update={"others_after": {"GPU-a": apps}})


def test_whom_the_host_saw_when_the_job_had_ended() -> None:
    assert find_disturbance(measure(0.01, see()), after(PYTHON)) == "python3 on its GPU"
    assert find_disturbance(measure(0.01, see()), after(CONTEXT)) == ""
    assert find_disturbance(measure(0.01, see("GPU-b")), after(PYTHON)) == ""


def test_a_cell_without_telemetry_says_nothing() -> None:
    assert find_disturbance(measure().model_copy(update={"telemetry": None}), after(PYTHON)) == ""
