"""A view as a textfile for Prometheus' node_exporter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from fleet.errors import ExitCode
from fleet.report.lines import Line, list_lines
from fleet.report.view_model import View

_GAUGES = {
    "fleet_images_per_second": "Images per second, by the median step.",
    "fleet_step_seconds": "Median step.",
    "fleet_step_spread_ratio": "Scatter of the steps: 1.4826 x MAD / median.",
    "fleet_cell_ok": "1: the cell has a value.",
    "fleet_host_ok": "1: the host measured all it was to.",
    "fleet_hosts": "Hosts of the run.",
    "fleet_cells": "Cells of the run, over all hosts.",
    "fleet_cells_ok": "Cells with a value.",
    "fleet_incidents_open": "Confirmed regressions that are open in the run.",
    "fleet_run_exit_code": "What the run ended with; 0: all is well, 5: it is slower than before.",
    "fleet_run_start_timestamp_seconds": "When the run began.",
    "fleet_last_run_timestamp_seconds": "When the run ended: alert when it is long ago.",
    "fleet_last_success_timestamp_seconds": "When a run last measured all it was to: alert when it is long ago.",
}

Sample = tuple[str, Mapping[str, str], float]


def render_prometheus(view: View, earlier: str = "") -> str:
    """The report in Prometheus' text format. Without timestamps of samples, which node_exporter refuses.

    Args:
        earlier: what the file held before: when a run last ended well stays in it while others fail.
    """
    samples: dict[str, list[str]] = {name: [] for name in _GAUGES}
    for name, labels, value in _list_samples(view):
        samples[name].append(f"{name}{_write_labels(labels)} {value:.10g}")
    good = "fleet_last_success_timestamp_seconds"
    if not samples[good]:
        samples[good] = [line for line in earlier.split("\n") if line.startswith(f"{good}{{")][:1]
    lines = []
    for name, meaning in _GAUGES.items():
        if samples[name]:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge", *samples[name]]
    return "\n".join(lines) + "\n"


def _list_samples(view: View) -> Iterator[Sample]:
    run = {"suite": view.run.suite}
    verdict = view.verdict
    yield "fleet_hosts", run, verdict.hosts_total
    yield "fleet_cells", run, verdict.cells_total
    yield "fleet_cells_ok", run, verdict.cells_ok
    yield "fleet_incidents_open", run, verdict.regressions
    yield "fleet_run_exit_code", run, verdict.exit_code
    yield "fleet_run_start_timestamp_seconds", run, _read_time(view.run.created)
    if view.run.finished:
        finished = _read_time(view.run.finished)
        yield "fleet_last_run_timestamp_seconds", run, finished
        if verdict.exit_code in {ExitCode.OK, ExitCode.REGRESSION}:
            yield "fleet_last_success_timestamp_seconds", run, finished
    for host in view.hosts:
        yield "fleet_host_ok", {**run, "host": host.alias, "status": host.status}, float(host.status == "ok")
    for line in list_lines(view):
        yield from _list_of_cell(line, _describe(view, line))


def _list_of_cell(line: Line, labels: Mapping[str, str]) -> Iterable[Sample]:
    entry = line.entry
    yield "fleet_cell_ok", {**labels, "status": entry.status}, float(entry.kind == "value")
    if entry.images_per_s is not None:
        yield "fleet_images_per_second", labels, entry.images_per_s
    if entry.step_us is not None:
        yield "fleet_step_seconds", labels, entry.step_us / 1e6
    if entry.spread is not None:
        yield "fleet_step_spread_ratio", labels, entry.spread


def _describe(view: View, line: Line) -> dict[str, str]:
    cell = line.cell
    return {
        "suite": view.run.suite,
        "host": line.host,
        "cell": line.cell_id,
        "model": cell.model,
        "phase": cell.phase,
        "precision": cell.precision,
        "batch_size": str(cell.batch_size or "auto"),
        "device": cell.device,
        "devices": str(cell.devices or "all"),
    }


def _write_labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _read_time(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
