"""Who else used a machine while a cell was measured."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.model.result import CellResult, HostOutcome
from fleet.model.telemetry import CPU_BUSY, GPU_BUSY, GpuApp, GpuTelemetry


def find_disturbance(cell: CellResult, outcome: HostOutcome) -> str:
    """What others took of the machine, in words that follow its name; empty: nothing that counts, or not known.

    Of a GPU it is looked who is on it before the cell and after it, and once more from the host when the job has ended:
    who came and went between is not seen.
    """
    if cell.telemetry is None:
        return ""
    said = []
    for gpu in cell.telemetry.gpus:
        names = sorted({name_app(app) for app in list_others(gpu, outcome)})
        if names:
            said.append(f"{', '.join(names)} on its GPU")
            break
    cpu = cell.telemetry.cpu
    if cpu.other_busy_share is not None and (share := cpu.other_busy_share + (cpu.steal_share or 0.0)) >= CPU_BUSY:
        said.append(f"{share * 100:.0f} % of its processors")
    return " and ".join(said)


def list_others(gpu: GpuTelemetry, outcome: HostOutcome) -> Iterator[GpuApp]:
    """Whoever was seen on the GPU and holds more of it than a context that is kept open does, each as often as seen."""
    at_the_end = (outcome.others_after or {}).get(gpu.uuid, ())
    for app in (*(gpu.others_before or ()), *(gpu.others_after or ()), *at_the_end):
        if _counts(app, gpu, outcome):
            yield app


def name_app(app: GpuApp) -> str:
    """Its program, without the directory."""
    return (app.name or "").rpartition("/")[2] or "a process"


def _counts(app: GpuApp, gpu: GpuTelemetry, outcome: HostOutcome) -> bool:
    """What holds nobody knows how much counts."""
    known = outcome.facts.gpus if outcome.facts else ()
    whole = next((row.memory_bytes for row in known if row.uuid == gpu.uuid), None)
    return app.memory_bytes is None or whole is None or app.memory_bytes > GPU_BUSY * whole
