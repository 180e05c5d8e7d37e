"""From a stored run and its view to the details: every further view, and why one is not there."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.analysis.verdict import is_measured
from fleet.model.result import CellResult
from fleet.report.batch_curve import build_batch_curves
from fleet.report.details_model import Details, Omission
from fleet.report.device_ratio import build_device_ratios
from fleet.report.energy import build_energy
from fleet.report.host_detail import build_host_details
from fleet.report.precision_gain import build_precision_gain
from fleet.report.scaling import build_scaling
from fleet.report.standing import build_standings
from fleet.report.step_trace import build_step_traces
from fleet.report.view_model import View
from fleet.report.wording import make_line
from fleet.store.reader import StoredRun


def build_details(run: StoredRun, view: View, *, whole: bool = False) -> Details:
    """What a report of this run shows beyond its view. The same run, in the same directory, gives the same details.

    Args:
        whole: every host has all its cells, however many there are.
    """
    matrices = view.matrices
    results = _collect_results(run)
    entries = {
        (entry.alias, row.cell_id): entry
        for matrix in matrices
        for row in matrix.rows
        for entry in row.entries
        if entry.kind != "unplanned"
    }
    found = Details(
        standings=tuple(known for matrix in matrices if (known := build_standings(matrix)) is not None),
        batches=tuple(curve for matrix in matrices for curve in build_batch_curves(matrix)),
        scaling=tuple(curve for matrix in matrices for curve in build_scaling(matrix)),
        precision=tuple(gain for matrix in matrices if (gain := build_precision_gain(matrix)) is not None),
        devices=build_device_ratios(matrices),
        steps=build_step_traces(results),
        energy=tuple(energy for matrix in matrices if (energy := build_energy(run, matrix, results)) is not None),
        hosts=build_host_details(run, entries, whole=whole),
        omissions=(),
    )
    return Details(**{**vars(found), "omissions": tuple(_find_omissions(found))})


def _collect_results(run: StoredRun) -> dict[tuple[str, str], CellResult]:
    """What was measured, by the alias and the cell's id as they are shown, in the order of the plan."""
    return {
        (make_line(host.alias), make_line(result.cell_id)): result
        for host in run.plan.hosts
        if (outcome := run.outcomes.get(host.alias)) is not None
        for result in outcome.cells
        if is_measured(result)
    }


def _find_omissions(found: Details) -> Iterator[Omission]:
    if not found.standings:
        yield Omission("standing", "no two hosts measured the same cell")
    if not found.batches:
        yield Omission("batch", "no workload was measured at two batch sizes on one host")
    if not found.scaling:
        yield Omission("scaling", "no workload was measured on two numbers of GPUs of one host")
    if not found.precision:
        yield Omission("precision", "no workload was measured in fp32 and in another precision on one host")
    if found.devices is None:
        yield Omission("devices", "no workload was measured both on CPU hosts and on one GPU")
    if found.steps is None:
        yield Omission("steps", "no step times are kept")
    if not found.energy:
        yield Omission("energy", "neither power nor energy could be read on any host")
