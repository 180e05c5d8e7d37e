"""Runs judged through the index: the same on SQLite and on PostgreSQL, and the same again when it is built anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.analysis.incident import Ending as IncidentEnding
from fleet.analysis.incident import accept
from fleet.analysis.record import make_state
from fleet.cli.incidents import describe_incidents
from fleet.cli.judging import judge_runs, read_record
from fleet.model.journal import PinnedBaseline
from fleet.store.index import Index, open_index
from fleet.store.rundir import Store
from tests.bench.report_score import score_told
from tests.bench.report_stored import play_stored
from tests.bench.report_year import Lab, make_year
from tests.index_nights import dump
from tests.postgres import Postgres
from tests.report.trend_pages import FALLS, name_night, store_story


def test_an_incident_is_opened_explained_and_accepted(store: Store, index: Index) -> None:
    store_story(store.root, 3, nights=FALLS + 2)
    index.sync()
    index.write(PinnedBaseline(time="t", run_ids=(name_night(0),), reason="as delivered"))
    record = judge_runs(index)
    assert [(one.subject.name, one.opened) for one in record.open] == [("gpu01", name_night(FALLS + 1))] * 3
    (line,) = describe_incidents(index, record, record.open)
    assert line.what.startswith("kernel 5.10.0 → 6.1.0: gpu01 ")
    states = index.read_incidents()
    assert [state.name for state in states] == ["gpu02"] * 3 + ["gpu01"] * 3
    assert [pin.run_ids for pin in index.read_baselines()] == [(name_night(0),)]

    index.write(*(make_state(accept(one, name_night(FALLS + 1), "new BIOS"), "t") for one in record.open))
    assert not read_record(index).open
    assert {state.ending for state in index.read_incidents()} == {IncidentEnding.RESOLVED, IncidentEnding.ACCEPTED}
    before = dump(index)
    index.clear()
    index.sync()
    assert dump(index) == before
    assert judge_runs(index) == read_record(index)


@pytest.mark.needs("postgres")
@pytest.mark.long
def test_a_synthetic_lab_is_judged_alike_on_both(postgres: Postgres, tmp_path: Path) -> None:
    year = make_year(Lab(cohorts=(16, 8), cells=12, nights=54, steps=20, drifts=2), seed=3)
    told = []
    for name, url in (("here", None), ("there", postgres.make_database())):
        (tmp_path / name).mkdir()
        with open_index(Store(tmp_path / name), url) as index:
            told.append(play_stored(year, index).told)
    assert told[0] == told[1]
    score = score_told("stored", year, told[0], later=1)
    assert score.steps >= 0.8
    assert score.false_alarms < 0.5


def test_runs_are_judged_once(store: Store, index: Index) -> None:
    store_story(store.root, 2, nights=9)
    index.sync()
    first = judge_runs(index)
    assert first.judged is not None
    assert first.judged.run_id == name_night(8)
    journal = (store.root / "journal.jsonl").read_bytes()
    assert judge_runs(index) == first
    assert (store.root / "journal.jsonl").read_bytes() == journal
