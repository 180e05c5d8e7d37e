"""The index: made from run directories alone, grown or rebuilt the same, and never in the way."""

from __future__ import annotations

import math
import shutil

import pytest

from fleet.model.disturbance import find_disturbance
from fleet.model.event import HostFinished
from fleet.model.journal import Annotation, IncidentState, PinnedBaseline
from fleet.model.result import CellStatus, HostStatus, Stage
from fleet.store.index import Index, Synced, open_index
from fleet.store.opening import reopen_run
from fleet.store.readings import STATUSES, read_environments, read_series, read_values
from fleet.store.rundir import Store
from tests.index_nights import HOSTS, NIGHTS, dump, store_night
from tests.run_builder import SHA, Ending, make_cells, make_facts, make_outcome, make_plan, store_run


def test_an_index_that_grew_is_the_same_as_one_that_is_rebuilt(store: Store, index: Index) -> None:
    for night in NIGHTS:
        store_night(store.root, night)
        assert index.sync().imported == [night]
        index.write(Annotation(time=night, message=f"night {night}"))
    index.write(PinnedBaseline(time="2026-01-03", run_ids=NIGHTS[:1], reason="first"))
    index.write(PinnedBaseline(time="2026-01-04", run_ids=NIGHTS[1:3], reason="better"))
    shutil.rmtree(store.runs_path / NIGHTS[3])
    assert index.sync().removed == [NIGHTS[3]]
    assert index.sync() == Synced()
    grown = dump(index)
    assert grown.count("result {") == 6 * 14
    assert grown.count("better") == 1 and "first" not in grown

    index.clear()
    assert dump(index) == ""
    assert index.sync().imported == [night for night in NIGHTS if night != NIGHTS[3]]
    assert dump(index) == grown
    with open_index(store, f"sqlite:///{store.root}/other.db") as other:
        other.sync()
        assert dump(other) == grown


def test_values_are_those_of_the_directories(store: Store, index: Index) -> None:
    for night in NIGHTS[:3]:
        store_night(store.root, night)
    index.sync()
    values = read_values(index.database, NIGHTS[:3])

    assert list(zip(values.aliases, values.cell_ids, strict=True)) == sorted(
        (alias, cell.id) for alias, cells in HOSTS.items() for cell in cells
    )
    for column, night in enumerate(NIGHTS[:3]):
        for alias, outcome in store.load(night).outcomes.items():
            for cell in outcome.cells:
                series = list(zip(values.aliases, values.cell_ids, strict=True)).index((alias, cell.cell_id))
                at = (series, column)
                assert STATUSES[int(values.status[at])] is cell.status
                assert values.protocol[at] == 1
                if cell.timing is None or cell.throughput is None:
                    assert math.isnan(values.step_us[at]) and math.isnan(values.images_per_s[at])
                    continue
                assert values.step_us[at] == pytest.approx(cell.timing.quantiles_us["p50"], abs=5e-4)
                assert values.images_per_s[at] == pytest.approx(cell.throughput.images_per_s, abs=5e-4)
                assert values.images[at] == 32
                assert values.steady[at] == cell.timing.steady
                assert values.disturbed[at] == bool(find_disturbance(cell, outcome))
    assert values.disturbed.sum() == 3
    assert values.payloads == (SHA,) * 3


def test_a_series_is_one_cell_on_one_host(store: Store, index: Index) -> None:
    for night in NIGHTS:
        store_night(store.root, night)
    index.sync()
    cell = HOSTS["gpu01"][1]
    series = read_series(index.database, "gpu01", cell.id)
    environments = read_environments(index.database, NIGHTS)

    assert series.run_ids == NIGHTS
    truth = [store.load(night).outcomes["gpu01"].cells[1] for night in NIGHTS]
    timings = [result.timing for result in truth if result.timing]
    assert series.values["step_us"] == pytest.approx([timing.quantiles_us["p50"] for timing in timings])
    assert series.values["ci_low_us"] == pytest.approx([timing.ci95_us[0] for timing in timings], rel=1e-4)
    assert set(series.status) == {CellStatus.OK}
    assert len(set(series.environment)) == 3  # the driver changed twice
    drivers = [environments[night, "gpu01"].driver for night in NIGHTS]
    assert drivers == ["570.0"] * 2 + ["570.1"] * 3 + ["570.2"] * 2
    assert environments[NIGHTS[0], "cpu01"].fingerprint == environments[NIGHTS[6], "cpu02"].fingerprint
    assert read_series(index.database, "gpu01", cell.id, NIGHTS[2:4]).run_ids == NIGHTS[2:4]
    assert read_series(index.database, "cpu01", cell.id).run_ids == ()


def test_the_newest_of_several_runs_counts(store: Store, index: Index) -> None:
    store_night(store.root, NIGHTS[0])
    store_run(store.root, make_plan({"cpu01": HOSTS["cpu01"][:2]}, NIGHTS[1]), {"cpu01": Ending()})
    index.sync()
    values = read_values(index.database, [*NIGHTS[:2], "20990101T000000Z-none"])

    newest = dict(zip(zip(values.aliases, values.cell_ids, strict=True), values.newest().tolist(), strict=True))
    assert [newest["cpu01", cell.id] for cell in HOSTS["cpu01"]] == [1, 1, 0, 0]
    assert newest["gpu01", HOSTS["gpu01"][0].id] == 0
    assert read_values(index.database, ["20990101T000000Z-none"]).step_us.shape == (0, 1)


def test_a_run_that_is_completed_again_is_read_again(store: Store, index: Index) -> None:
    plan = make_plan({"cpu01": make_cells()}, NIGHTS[0])
    lost = Ending(status=HostStatus.CONTACT_LOST, stage=Stage.RUN, reason="closed")
    store_run(store.root, plan, {"cpu01": lost}, exit_code=4)
    index.sync()
    (before,) = index.list_runs()
    writer, _ = reopen_run(store.runs_path / NIGHTS[0])
    with writer:
        writer.record(HostFinished(alias="cpu01", outcome=make_outcome(plan.hosts[0], plan, Ending())))
        writer.finish(exit_code=0)

    assert index.sync().imported == [NIGHTS[0]]
    (after,) = index.list_runs()
    assert (before.hosts_ok, before.exit_code, before.cells_ok) == (0, 4, 0)
    assert (after.hosts_ok, after.exit_code, after.cells_ok) == (1, 0, 3)


def test_what_cannot_be_read_is_told_and_costs_nothing_else(store: Store, index: Index) -> None:
    for night in NIGHTS[:4]:
        store_night(store.root, night)
    (store.runs_path / NIGHTS[0] / "plan.json").write_text("{")
    (store.runs_path / NIGHTS[1] / "run.json").write_text("{}")
    (store.runs_path / NIGHTS[2] / "hosts" / "cpu02" / "host.json").write_bytes(b"\xff")
    (store.root / "journal.jsonl").write_text('{"entry": "annotation", "time": "t", "message": "one"}\n{"entry": "a\n')
    index.write(Annotation(time="t", message="two"))
    done = index.sync()

    assert done.imported == [NIGHTS[2], NIGHTS[3]]
    assert [problem.partition(" ")[0] for problem in done.problems] == ["run"] * 3
    assert "plan.json cannot be read" in done.problems[0] and NIGHTS[0] in done.problems[0]
    assert "run.json cannot be read" in done.problems[1]
    assert "cpu02/host.json cannot be read" in done.problems[2]
    assert [entry.state for entry in index.list_runs()] == ["complete", "complete", "damaged", "damaged"]
    assert index.list_runs() == store.runs()
    assert [annotation.message for annotation in index.read_annotations()] == ["one", "two"]
    (store.runs_path / NIGHTS[3] / "plan.json").write_text("{")
    (store.runs_path / NIGHTS[3] / "run.json").touch()
    assert "plan.json" in index.sync().problems[-1]
    assert [entry.state for entry in index.list_runs()] == ["damaged", "complete", "damaged", "damaged"]


def test_the_last_word_on_an_incident_or_a_baseline_counts(store: Store, index: Index) -> None:
    first = IncidentState(
        time="t", level="host", name="cpu01", kind="step", opened=NIGHTS[0], baseline=1.5, change=0.06
    )
    other = first.model_copy(update={"level": "cell", "cell_id": HOSTS["cpu01"][0].id})
    worse = first.model_copy(update={"change": 0.12})
    for state in (first, other, worse):
        index.write(state)
    pinned = PinnedBaseline(time="t", run_ids=NIGHTS[:2], alias="cpu01", reason="new cooling")
    index.write(pinned)
    index.write(pinned.model_copy(update={"alias": "cpu02"}))

    assert index.read_incidents() == (other, worse)
    assert index.read_baselines() == (pinned, pinned.model_copy(update={"alias": "cpu02"}))
    index.write(pinned.model_copy(update={"run_ids": ()}))
    ended = worse.model_copy(update={"ending": "resolved", "ended": NIGHTS[3]})
    index.write(ended)
    assert [baseline.alias for baseline in index.read_baselines()] == ["cpu02"]
    assert index.read_incidents() == (other, ended)


def test_what_hosts_say_never_stops_an_import(store: Store, index: Index) -> None:
    facts = make_facts("GPU\0\ud7ff\u202e\x1b[31m" * 1000, gpus=3).model_copy(
        update={"kernel": "6.1\0" * 10_000, "memory_bytes": 10**40, "driver": "\x00"}
    )
    plan = make_plan({"gpu01": make_cells("gpu", 4)}, NIGHTS[0])
    outcome = make_outcome(plan.hosts[0], plan, Ending(facts=facts, words={1: (CellStatus.CRASH, "\0" * 9999)}))
    timing, rate = outcome.cells[0].timing, outcome.cells[0].throughput
    assert timing and rate
    huge = dict.fromkeys(timing.quantiles_us, 1e300)
    wrong: list[dict[str, object]] = [
        {"protocol": 10**30, "timing": timing.model_copy(update={"quantiles_us": huge, "mean_us": 1e308})},
        {},
        {"timing": timing.model_copy(update={"quantiles_us": {}, "ci95_us": (-1e308, 1e308)})},
        {"throughput": rate.model_copy(update={"images_per_s": 1e300, "images_per_s_total": 0.0}), "cell_id": "?"},
    ]
    cells = tuple(cell.model_copy(update=said) for cell, said in zip(outcome.cells, wrong, strict=True))
    outcome = outcome.model_copy(update={"cells": cells})
    with store.create(plan) as writer:
        writer.record(HostFinished(alias="gpu01", outcome=outcome))
        writer.finish(exit_code=0)

    assert index.sync().imported == [NIGHTS[0]]
    values = read_values(index.database, [NIGHTS[0]])
    assert len(values.cell_ids) == 3  # one was not planned
    assert math.isnan(values.step_us[0, 0])
    (environment,) = read_environments(index.database, [NIGHTS[0]]).values()
    assert environment.kernel is not None and len(environment.kernel) < 600 and "\0" not in environment.kernel
