"""The details of a run: curves, ratios and energies have the right values, and a group is the median of its hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.model.result import CellResult, CellStatus, HostOutcome, Throughput
from fleet.model.suite import Cell
from fleet.model.telemetry import GpuTelemetry
from fleet.report.details import build_details
from fleet.report.details_model import Details
from fleet.report.html import render_html
from fleet.report.view import build_view
from fleet.store.reader import StoredRun
from tests.report.rich_run import make_timing
from tests.run_builder import Ending, make_cells, make_facts, make_plan, make_telemetry, store_run

BASE = Cell(model="resnet50", batch_size=32, device="gpu")


def vary(**changed: object) -> Cell:
    return BASE.model_copy(update=changed)


def build(root: Path, rates: dict[str, dict[Cell, float | str]]) -> Details:
    """Details of a run in which every host has these rates; a word in place of a rate is a cell's status."""
    plan = make_plan({alias: tuple(cells) for alias, cells in rates.items()})
    cpus = {alias for alias, cells in rates.items() if next(iter(cells)).device == "cpu"}
    endings = {alias: Ending(facts=make_facts("" if alias in cpus else "A100")) for alias in rates}
    run = store_run(root, plan, endings)
    outcomes = {alias: _give(outcome, rates[alias]) for alias, outcome in run.outcomes.items()}
    run = StoredRun(run.path, plan, outcomes, run.summary)
    return build_details(run, build_view(run))


def _give(outcome: HostOutcome, rates: dict[Cell, float | str]) -> HostOutcome:
    return outcome.model_copy(update={"cells": tuple(_measure(cell, rates[cell.cell]) for cell in outcome.cells)})


def _measure(cell: CellResult, rate: float | str) -> CellResult:
    if isinstance(rate, str):
        return cell.model_copy(update={"status": CellStatus(rate), "timing": None, "throughput": None})
    return cell.model_copy(update={"throughput": Throughput(images_per_s=rate, images_per_s_total=rate)})


def test_a_batch_curve_ends_where_memory_does(tmp_path: Path) -> None:
    sizes: dict[Cell, float | str] = {vary(batch_size=size): rate for size, rate in ((32, 50.0), (64, 96.0))}
    sizes |= {vary(batch_size=128): 100.0, vary(batch_size=256): "oom", vary(batch_size=512): "skipped"}
    (curve,) = build(tmp_path, {"a": sizes}).batches
    (line,) = curve.lines
    assert curve.workload == "resnet50"
    assert [(point.batch_size, point.images_per_s, point.word) for point in line.points] == [
        (32, 50, ""),
        (64, 96, ""),
        (128, 100, ""),
        (256, None, "OOM"),
        (512, None, "skipped"),
    ]
    assert (line.best, line.enough, line.memory_ends) == (128, 64, 256)


def test_efficiency_is_per_device_and_the_ceiling_begins_at_one(tmp_path: Path) -> None:
    rates: dict[Cell, float | str] = {vary(devices=1): 100.0, vary(devices=2): 190.0, vary(devices=4): 300.0}
    rates |= {vary(devices=2, variable_update="independent"): 200.0}
    both, ceiling = build(tmp_path, {"a": rates}).scaling
    assert [(p.devices, p.efficiency) for p in both.lines[0].points] == [(1, 1.0), (2, 0.95), (4, 0.75)]
    assert [(p.devices, p.efficiency) for p in ceiling.lines[0].points] == [(1, 1.0), (2, 1.0)]
    assert "independent" in ceiling.workload


def test_a_precision_is_compared_with_fp32_of_the_same_host(tmp_path: Path) -> None:
    fast: dict[Cell, float | str] = {vary(): 100.0, vary(precision="fp16"): 260.0, vary(precision="bf16"): 250.0}
    poor: dict[Cell, float | str] = {
        vary(): 100.0,
        vary(precision="fp16"): 102.0,
        vary(precision="bf16"): "unsupported",
    }
    lost: dict[Cell, float | str] = {vary(): "crash", vary(precision="fp16"): 300.0}
    (gain,) = build(tmp_path, {"a": fast, "b": poor, "c": lost}).precision
    assert gain.labels == ("a", "b")  # of c there is nothing to say
    assert [(row.precision, [ratio.value for ratio in row.ratios]) for row in gain.rows] == [
        ("fp16", [2.6, 1.02]),
        ("bf16", [2.5, None]),
    ]


def test_a_gpu_is_compared_with_a_cpu_at_the_same_batch_where_there_is_one(tmp_path: Path) -> None:
    gpu: dict[Cell, float | str] = {vary(): 400.0, vary(batch_size=64): 500.0, vary(model="vgg16"): 90.0}
    cpu: dict[Cell, float | str] = {
        vary(device="cpu"): 10.0,
        vary(device="cpu", batch_size=8): 12.0,
        vary(device="cpu", model="vgg16", batch_size=8): 3.0,
    }
    ratios = build(tmp_path, {"a": gpu, "z": cpu}).devices
    assert ratios is not None
    assert [(row.batches, row.cpu_images_per_s, row.ratios[0].value) for row in ratios.rows] == [
        ("batch 32 on both", 10, 40),
        ("batch 8 on the CPU, 32 on the GPU", 3, 30),
    ]


def test_hosts_stand_by_their_geometric_mean(tmp_path: Path) -> None:
    cells = (vary(), vary(batch_size=64))
    (standings,) = build(
        tmp_path, {"a": {cells[0]: 100.0, cells[1]: 50.0}, "b": {cells[0]: 25.0, cells[1]: 50.0}}
    ).standings
    assert [(line.label, line.relative, line.cells, line.behind) for line in standings.lines] == [
        ("a", 1, 2, 0),
        ("b", pytest.approx(0.5), 2, 1),
    ]


def test_an_order_that_says_nothing_is_told_so(tmp_path: Path) -> None:
    pages = []
    for rates in ((100.0, 99.0, 98.5), (100.0, 99.0, 90.0)):  # values are sure to 1 %
        endings = {f"h{place}": Ending(rate) for place, rate in enumerate(rates)}
        run = store_run(tmp_path / str(rates[2]), make_plan(dict.fromkeys(endings, make_cells(count=1))), endings)
        view = build_view(run)
        details = build_details(run, view)
        assert [line.behind for line in details.standings[0].lines] == [0, 0, int(rates[2] == 90)]
        pages.append(render_html(view, details))
    said = "Nobody can be told from the best in any cell"
    assert [said in page for page in pages] == [True, False]


def test_many_hosts_are_groups_by_their_median(tmp_path: Path) -> None:
    cells = (vary(), vary(batch_size=64))
    rates: dict[str, dict[Cell, float | str]] = {
        f"h{place:02d}": {cells[0]: 100.0 + place, cells[1]: 200.0 + place} for place in range(21)
    }
    details = build(tmp_path, rates)
    (line,) = details.batches[0].lines
    assert line.label == "1× A100, 21 hosts"
    assert [point.images_per_s for point in line.points] == [110, 210]
    assert details.standings[0].lines[0].slowest == "h00"


def test_energy_is_of_all_cards_and_power_of_one(tmp_path: Path) -> None:
    cell = vary(devices=2)
    plan = make_plan({"a": (cell,)})
    facts = make_facts("A100", 2)
    cards = tuple(
        card.model_copy(update={"uuid": f"u{place}", "power_limit_w": 400.0}) for place, card in enumerate(facts.gpus)
    )
    run = store_run(tmp_path, plan, {"a": Ending(facts=facts.model_copy(update={"gpus": cards}))})
    readings = tuple(
        GpuTelemetry(uuid=f"u{place}", pci_bus_id="0", samples=9, power_w_mean=300.0 + 20 * place, energy_j=energy)
        for place, energy in enumerate((1000.0, 3000.0))
    )
    outcome = run.outcomes["a"]
    measured = outcome.cells[0].model_copy(
        update={
            "telemetry": make_telemetry(gpus=readings),  # of 10 s
            "throughput": Throughput(images_per_s=850.0, images_per_s_total=800.0),
        }
    )
    run = StoredRun(run.path, plan, {"a": outcome.model_copy(update={"cells": (measured,)})}, run.summary)
    (energy,) = build_details(run, build_view(run)).energy
    (reading,) = energy.rows[0].readings
    assert reading is not None
    assert (reading.images_per_j, reading.power_w, reading.limit_share) == (2.0, 310.0, 0.8)


def test_step_times_keep_their_spikes_and_their_warm_up(tmp_path: Path) -> None:
    steps = [5000] * 8 + [1000] * 1992
    steps[1500] = 9000
    run = store_run(tmp_path, make_plan({"a": make_cells(count=2)}), {"a": Ending()})
    outcome = run.outcomes["a"]
    cells = (outcome.cells[0].model_copy(update={"timing": make_timing(steps, dropped=8)}), outcome.cells[1])
    run = StoredRun(run.path, run.plan, {"a": outcome.model_copy(update={"cells": cells})}, run.summary)
    traces = build_details(run, build_view(run)).steps
    assert traces is not None
    (trace,) = traces.traces  # the other's text of step times is damaged
    assert (trace.steps, trace.dropped_steps, sum(trace.counts)) == (2000, 8, 1992)
    assert len(trace.places) <= 400
    assert dict(zip(trace.places, trace.step_us, strict=True))[1501] == 9000
    assert (trace.edges_us[0], trace.edges_us[-1]) == pytest.approx((1000, 9000))


def test_a_value_of_two_steps_says_so(tmp_path: Path) -> None:
    run = store_run(tmp_path, make_plan({"a": make_cells(count=2)}), {"a": Ending()})
    outcome = run.outcomes["a"]
    cells = tuple(
        cell.model_copy(update={"timing": make_timing(steps)})
        for cell, steps in zip(outcome.cells, ([5000, 4000], [5000] * 6), strict=True)
    )
    run = StoredRun(run.path, run.plan, {"a": outcome.model_copy(update={"cells": cells})}, run.summary)
    view = build_view(run)
    (note,) = [note for note in view.notes if "rest" in note]
    assert note.startswith("1 of 2 values rests on 2 steps, on a: too few to say how sure it is")
    page = render_html(view, build_details(run, view))
    assert f"a: {cells[0].cell_id}, 2 steps" in page and "lines+markers" in page


def test_a_host_has_its_files_and_only_those_it_gave(tmp_path: Path) -> None:
    run = store_run(tmp_path, make_plan({"a:1": make_cells()}), {"a:1": Ending()})
    directory = run.path / "hosts" / "a%3A1"
    (directory / "cells").mkdir()
    (directory / "cells" / "001.json").write_text("{}")
    (directory / "log").write_text("")
    (directory / "Odd name").write_text("")
    (directory / "link").symlink_to("/etc/passwd")
    (host,) = build_details(run, build_view(run)).hosts
    assert (host.directory, host.files) == ("hosts/a%3A1", ("host.json", "log"))
    assert [cell.file for cell in host.cells] == ["", "cells/001.json", ""]


def test_a_program_gets_all_cells_where_a_page_shows_those_with_something_to_mind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.report.host_detail._MOST_VALUES", 2)
    run = store_run(tmp_path, make_plan({"a": make_cells()}), {"a": Ending(unsteady=[1])})
    view = build_view(run)
    page, document = build_details(run, view), build_details(run, view, whole=True)
    assert [(len(host.cells), host.left_out) for host in page.hosts] == [(1, 2)]
    assert [(len(host.cells), host.left_out) for host in document.hosts] == [(3, 0)]
