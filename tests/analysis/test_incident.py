"""From findings to incidents: what opens one, what ends it, what is told, what the baseline makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fleet.analysis.baseline import make_baseline
from fleet.analysis.finding import Finding, Kind, Level, Subject, collect_findings, fold_findings
from fleet.analysis.incident import Ending, EventKind, Incident, Night, State, accept, advance, settle
from fleet.analysis.judgement import SeriesVerdict, confirm, judge
from fleet.analysis.robust import Floats

NAN = np.nan
CELL = Subject(Level.CELL, "gpu01", "resnet50/train/fp16/b64/gpu1/nchw")


def run(night: int) -> str:
    return f"202601{night:02d}T023000Z-aaaa" if night < 32 else f"202602{night - 31:02d}T023000Z-aaaa"


def make_finding(change: float, subject: Subject = CELL, kind: Kind = Kind.STEP, limit: float = 0.03) -> Finding:
    verdict = SeriesVerdict.WORSE if change > limit else SeriesVerdict.BETTER if change < -limit else SeriesVerdict.SAME
    settled = frozenset(Kind) if abs(change) < limit / 2 else frozenset[Kind]()
    return Finding(subject, verdict, kind, change, limit, spread=0.005, baseline=1000.0, settled=settled)


def live(*changes: float | None, kind: Kind = Kind.STEP) -> tuple[list[list[EventKind]], Night]:
    """Night after night of one cell; None: not measured. The events of each night, and the last."""
    night, told = Night(State(), (), ()), []
    for number, change in enumerate(changes, start=1):
        findings = {} if change is None else {CELL: make_finding(change, kind=kind)}
        night = advance(night.state, run(number), findings)
        told.append([event.kind for event in night.events])
    return told, night


def test_an_incident_is_told_once_and_ends_after_three_good_nights() -> None:
    told, night = live(0.06, 0.06, 0.05, 0.001, 0.0, -0.002)
    assert told == [[EventKind.OPENED], [], [], [], [], [EventKind.RESOLVED]]
    assert not night.state.open
    (ended,) = night.ended
    assert (ended.opened, ended.recovered, ended.ended) == (run(1), run(4), run(6))
    assert (ended.ending, ended.baseline, ended.change) == (Ending.RESOLVED, 1000, 0.06)


def test_good_nights_must_follow_each_other_and_be_good() -> None:
    told, night = live(0.06, 0.0, 0.0, 0.06, 0.0, 0.02, 0.0, 0.0)
    assert [kind for kinds in told for kind in kinds] == [
        EventKind.OPENED
    ]  # 2 % is no regression, and not settled either
    assert night.state.open[CELL].good_nights == 2
    assert night.state.open[CELL].recovered == run(7)


def test_nights_without_a_measurement_are_neither_good_nor_bad() -> None:
    told, night = live(0.06, None, 0.0, None, 0.0, 0.0)
    assert told[-1] == [EventKind.RESOLVED]
    assert night.ended[0].recovered == run(3)


def test_an_incident_becomes_worse_when_two_nights_say_so() -> None:
    told, night = live(0.06, 0.10, 0.07, 0.10, 0.11, 0.11, 0.11)
    assert told == [[EventKind.OPENED], [], [], [], [EventKind.WORSE], [], []]
    assert night.state.open[CELL].change == 0.11
    assert night.state.open[CELL].opened == run(1)


def test_faster_than_the_baseline_is_told_once_and_no_incident() -> None:
    told, night = live(-0.05, -0.05, 0.0, -0.06)
    assert told == [[EventKind.BETTER], [], [], [EventKind.BETTER]]
    assert not night.state.open
    # In an incident it is a good night.
    assert live(0.06, -0.05, -0.05, -0.05)[0][-1] == [EventKind.RESOLVED]


def test_acceptance_wants_a_reason_and_happens_once() -> None:
    incident = live(0.06)[1].state.open[CELL]
    with pytest.raises(ValueError, match="say why"):
        accept(incident, run(3), "  ")
    accepted = accept(incident, run(3), " new driver, known issue ")
    assert (accepted.ending, accepted.ended, accepted.reason) == (Ending.ACCEPTED, run(3), "new driver, known issue")
    with pytest.raises(ValueError, match="it was accepted in"):
        accept(accepted, run(4), "again")


def make_incident(**changes: object) -> Incident:
    return replace(Incident(CELL, Kind.STEP, run(15), 100.0, 0.1), **changes)  # type: ignore[arg-type]


def settle_one(nights: list[float], *incidents: Incident, pinned: float = 100.0) -> tuple[Floats, float]:
    run_ids = [run(night) for night in range(1, len(nights) + 1)]
    array = np.array([nights])
    settled, pins = settle(array, np.array([pinned]), run_ids, [(0, incident) for incident in incidents])
    assert array.tolist() == [nights] or np.isnan(nights).any()  # what was given is left alone
    return settled[0], float(pins[0])


def test_the_baseline_is_frozen_while_an_incident_is_open() -> None:
    nights = [100.0] * 14 + [110.0] * 20
    assert make_baseline(np.array([nights]), 0.03).level[0] == 110  # the rolling rule forgets
    settled, pinned = settle_one(nights, make_incident())
    frozen = make_baseline(settled[None], 0.03)
    assert (frozen.level[0], frozen.nights[0], pinned) == (100, 14, 100)


def test_nights_of_a_resolved_incident_do_not_count_until_it_recovered() -> None:
    nights = [100.0] * 14 + [110.0] * 5 + [101.0] * 3
    settled, _ = settle_one(nights, make_incident(ending=Ending.RESOLVED, recovered=run(20), ended=run(22)))
    assert np.isnan(settled).tolist() == [False] * 14 + [True] * 5 + [False] * 3


def test_an_accepted_level_is_the_baseline_at_once_with_the_scatter_of_before() -> None:
    before = [98.0, 100, 102, 100, 100, 99, 101] * 2
    settled, pinned = settle_one([*before, 111, 110, 109], accept(make_incident(), run(17), "why"))
    assert settled.tolist() == pytest.approx([*(1.1 * value for value in before), 111, 110, 109])
    assert pinned == 110
    baseline = make_baseline(settled[None], 0.03)
    assert baseline.level[0] == pytest.approx(110)
    assert judge(baseline, np.array([[110.0, 110, 110.5]])).verdicts[0] == "same"
    assert settle_one([*before, NAN, NAN], accept(make_incident(), run(16), "why"))[0][:14].tolist() == before


def test_drift_leaves_the_rolling_baseline_alone_and_moves_the_pinned_one_when_accepted() -> None:
    nights = [100.0 + night / 2 for night in range(20)]
    incident = make_incident(kind=Kind.DRIFT)
    assert settle_one(nights, incident)[0].tolist() == nights
    settled, pinned = settle_one(nights, accept(incident, run(18), "worn fans"))
    assert settled.tolist() == nights
    assert pinned == np.median(nights[14:18])


def test_a_step_lives_from_its_first_night_to_its_acceptance() -> None:
    """The whole chain, night by night: 14 good nights, a step of 6 % that stays, accepted after ten nights."""
    random = np.random.default_rng(1)
    values = 1000 * np.exp(random.normal(0, 0.004, 45)) * np.where(np.arange(45) < 20, 1, 1.06)
    state, events = State(), []
    incidents: list[Incident] = []
    for night in range(14, 45):
        run_ids = [run(number + 1) for number in range(night)]
        rows = [(0, incident) for incident in (*incidents, *state.open.values())]
        history, pinned = settle(values[None, :night], np.array([1000.0]), run_ids, rows)
        judgement = judge(make_baseline(history, 0.03, pinned=pinned), values[None, night - 2 : night + 1])
        known = np.array([CELL in state.open])
        confirmed = confirm(judgement, values[None, night : night + 1], known)
        done = advance(state, run(night + 1), collect_findings(confirmed, [CELL], state.open))
        state = done.state
        events += [(night, event.kind) for event in done.events]
        if night == 30:
            incidents.append(accept(state.open[CELL], run(night + 1), "firmware"))
            state = State()
    assert events == [(20, EventKind.OPENED)]


def test_findings_are_those_that_changed_and_those_that_are_watched() -> None:
    subjects = [replace(CELL, name=f"gpu{row:02d}") for row in range(5)]
    tonight = np.array([1000.0, 1100, 900, 1001, NAN])
    judgement = judge(make_baseline(np.full((5, 14), 1000.0), 0.03), np.column_stack([[1000.0] * 5] * 2 + [tonight]))
    findings = collect_findings(confirm(judgement, tonight[:, None]), subjects, [subjects[3], subjects[4]])
    assert {subject.name: str(finding.verdict) for subject, finding in findings.items()} == {
        "gpu01": "worse",
        "gpu02": "better",
        "gpu03": "same",
    }
    worse = findings[subjects[1]]
    assert (worse.change, worse.mads, worse.limit, worse.baseline) == pytest.approx((0.1, 20, 0.03, 1000))
    assert findings[subjects[3]].settled == {Kind.STEP}  # nothing is pinned


def test_what_moved_together_is_told_once() -> None:
    cohort = Subject(Level.COHORT, "8 × A100", CELL.cell_id)
    hosts = {"8 × A100": frozenset(f"gpu{i:02d}" for i in range(50))}
    cells = [make_finding(0.06, replace(CELL, name=f"gpu{i:02d}")) for i in range(50)]
    much = make_finding(0.20, replace(CELL, name="gpu00"))  # has a fault of its own
    elsewhere = make_finding(0.06, replace(CELL, name="other01"))
    slow_host = make_finding(0.10, Subject(Level.HOST, "gpu09"), limit=0.0125)
    of_slow_host = [make_finding(0.11, Subject(Level.CELL, "gpu09", f"cell{i}")) for i in range(9)]
    shift = make_finding(0.055, cohort, limit=0.006)
    whole = make_finding(0.05, Subject(Level.HOST, "gpu30"), limit=0.0125)
    told = fold_findings([*cells[1:], much, elsewhere, slow_host, *of_slow_host, shift, whole], hosts)
    assert {t.finding.subject for t in told} == {cohort, much.subject, elsewhere.subject, slow_host.subject}
    covers = {t.finding.subject: len(t.covers) for t in told}
    assert covers == {cohort: 50, much.subject: 0, elsewhere.subject: 0, slow_host.subject: 9}
    assert sum(covers.values()) + len(told) == 63


def test_a_host_that_tells_cells_of_its_own_is_not_told_by_its_cohort() -> None:
    shift = make_finding(0.05, Subject(Level.COHORT, "A100", CELL.cell_id), limit=0.006)
    host = make_finding(0.05, Subject(Level.HOST, "gpu01"), limit=0.0125)
    own = make_finding(0.05, Subject(Level.CELL, "gpu01", "other"))
    cohorts = {"A100": frozenset({"gpu01"})}
    assert [(t.finding, t.covers) for t in fold_findings([shift, host, own], cohorts)] == [(shift, ()), (host, (own,))]
    assert [(t.finding, t.covers) for t in fold_findings([shift, host], cohorts)] == [(shift, (host,))]


def test_cells_of_one_cohort_or_host_that_went_the_same_way_are_one_line() -> None:
    shifts = [make_finding(0.01 + i / 1000, Subject(Level.COHORT, "A100", f"cell{i}"), limit=0.006) for i in range(10)]
    faster = make_finding(-0.02, Subject(Level.COHORT, "A100", "cell10"), limit=0.006)
    other = make_finding(0.01, Subject(Level.COHORT, "V100", "cell0"), limit=0.006)
    cells = [make_finding(0.05, Subject(Level.CELL, "gpu01", f"cell{i + 20}")) for i in range(2)]
    told = fold_findings([*shifts, faster, other, *cells], {"A100": frozenset({"gpu01"}), "V100": frozenset()})
    assert [(t.finding, len(t.covers), t.likes) for t in told] == [
        (shifts[9], 9, 9),
        (faster, 0, 0),
        (other, 0, 0),
        (cells[0], 1, 1),
    ]
