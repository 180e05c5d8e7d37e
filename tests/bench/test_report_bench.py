"""The bench of the verdicts: its year is what it says, its score counts right, and the bars hold in a small one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench import report
from tests.bench.report_score import score_flags
from tests.bench.report_year import SETTLED, FaultKind, Lab, Year, make_year

LAB = Lab(cohorts=(16, 8, 8), cells=12, nights=80, steps=40, drifts=10)


@pytest.fixture(scope="module")
def year() -> Year:
    return make_year(LAB, seed=1)


def test_a_year_has_the_noise_and_the_faults_that_it_says(year: Year) -> None:
    faulty = {row for fault in year.faults for row in fault.rows}
    flat = np.array([row for row in range(len(year.times_us)) if row not in faulty])
    logs = np.log(year.times_us[flat])
    away = logs - np.nanmedian(logs, axis=1)[:, None]
    calm = away[~np.isnan(away) & (away < 0.03)]
    assert calm.std() == pytest.approx(0.008, rel=0.15)
    assert np.isnan(year.times_us).mean() == pytest.approx(0.01, abs=0.008)
    assert np.mean(away > 0.05) == pytest.approx(0.02, abs=0.008)
    again = np.log(year.again_us[0][flat]) - np.log(year.times_us[flat])
    assert np.nanmedian(np.abs(again)) > 0.003  # another run, not the same one
    for fault in year.faults:
        if fault.kind in {FaultKind.STEP, FaultKind.HOST, FaultKind.COHORT}:
            before = np.nanmedian(year.times_us[list(fault.rows), : fault.first], axis=1)
            during = np.nanmedian(year.times_us[list(fault.rows), fault.first : fault.end], axis=1)
            assert np.median(during / before) == pytest.approx(1 + fault.size, abs=0.012)
    assert len([fault for fault in year.faults if fault.kind is FaultKind.STEP]) == 40
    assert not np.array_equal(make_year(LAB, seed=2).times_us, year.times_us, equal_nan=True)


def test_a_rule_that_knows_is_right_and_one_that_always_speaks_is_not(year: Year) -> None:
    steps = [fault for fault in year.faults if fault.kind is FaultKind.STEP]
    knowing = np.zeros(year.times_us.shape, dtype=np.bool_)
    for fault in steps:
        knowing[fault.rows[0], fault.first : fault.end] = ~np.isnan(
            year.times_us[fault.rows[0], fault.first : fault.end]
        )
    score = score_flags("knows", year, knowing)
    assert (score.steps, score.drifts, score.flat, score.false_alarms) == (1, 0, 0, 0)
    silent = score_flags("silent", year, np.zeros_like(knowing))
    assert (silent.steps, silent.false_alarms) == (0, 0)
    flags = np.zeros_like(knowing)
    flags[:, SETTLED:] = True
    loud = score_flags("loud", year, flags)
    changed = {FaultKind.STEP, FaultKind.DRIFT, FaultKind.HOST}
    expected = {row for fault in year.faults if fault.kind in changed for row in fault.rows}
    assert (loud.steps, loud.drifts, loud.flat) == (1, 1, 1)
    assert loud.false_alarms == len(year.times_us) - len(expected)


def test_the_bars_hold_in_a_small_year(capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main(["--nights", "80", "--cells", "12", "--steps", "100"]) == 0
    lines = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in lines[0][1:]] == ["fleet", "previous night ± 5 %", "mean ± 3 σ"]
    figures = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in lines[2:]}
    ours, *plain = (float(value) for value in figures["false alarms a night"])
    assert all(value > 10 * ours for value in plain)


def test_a_missed_bar_is_named(year: Year) -> None:
    score = score_flags("silent", year, np.zeros(year.times_us.shape, dtype=np.bool_))
    assert report.list_missed(score, night_s=2.0) == [
        "steps: 0.0% found, 90% wanted",
        "drifts: 0.0% found, 100% wanted",
        "slow hosts: 0.0% found, 95% wanted",
        "a night took 2.00 s to judge, 1 allowed",
    ]
