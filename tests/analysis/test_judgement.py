"""A night's verdict: known answers, and how often it is right, by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from fleet.analysis.baseline import CPU_OR_MANY, ONE_GPU, choose_rules, find_detectable, make_baseline
from fleet.analysis.judgement import Judgement, confirm, judge, uphold
from fleet.analysis.robust import Floats
from fleet.model.suite import Cell
from tests.analysis.night_builder import NOISE, add_spikes, make_nights

NAN = np.nan
QUIET = [1000.0, 1002, 998, 1000, 1001, 999, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]
"""Median 1000, MAD 0: the floor of 0.5 % makes the spread, 2 % are four of it, and the least effect decides."""


def judge_one(history: list[float], tonight: float, *again: float, pinned: float = NAN, effect: float = 0.03) -> str:
    nights = np.array([history])
    judgement = judge(make_baseline(nights, effect, pinned=np.array([pinned])), np.array([[*history[-2:], tonight]]))
    return str(confirm(judgement, np.array([again or [NAN]])).verdicts[0])


@pytest.mark.parametrize(
    ("tonight", "again", "verdict"),
    [
        (1031, (1032,), "worse"),
        (969, (968,), "better"),
        (1029, (1040,), "same"),  # below the least effect
        (1031, (1029,), "same"),  # the second run does not agree
        (1031, (969,), "same"),
        (1031, (NAN,), "same"),  # there was none
        (1050, (1200,), "same"),  # both beyond, and not of a size
        (1050, (1200, 1050), "worse"),  # the third run decides
        (1050, (1200, 1020), "same"),
        (NAN, (NAN,), ""),
    ],
)
def test_a_step_counts_beyond_the_limit_and_when_a_second_run_agrees(
    tonight: float, again: tuple[float, ...], verdict: str
) -> None:
    assert judge_one(QUIET, tonight, *again) == verdict


def test_the_scatter_of_a_series_widens_its_limit() -> None:
    noisy = [1000.0 + 20 * (-1) ** night for night in range(14)]  # MAD 20: spread 2.965 %, limit 11.9 %
    baseline = make_baseline(np.array([noisy]), 0.03)
    assert baseline.spread[0] == pytest.approx(0.029652)
    assert baseline.limit[0] == pytest.approx(4 * 0.029652)
    assert baseline.again_limit[0] == pytest.approx(3 * 0.029652)
    assert judge_one(noisy, 1110, 1110) == "same"
    assert judge_one(noisy, 1120, 1120) == "worse"
    assert judge_one(noisy, 1120, 1090) == "worse"  # 9.0 %, 8.9 are wanted of a second run
    assert judge_one(noisy, 1120, 1088) == "same"


def test_the_least_effect_is_that_of_the_cell() -> None:
    cell = Cell(model="resnet50", batch_size=64, device="gpu")
    assert choose_rules(cell) is ONE_GPU
    for other in (cell.model_copy(update={"devices": 8}), cell.model_copy(update={"device": "cpu"})):
        assert choose_rules(other) is CPU_OR_MANY
    assert judge_one(QUIET, 1045, 1045, effect=ONE_GPU.effect) == "worse"
    assert judge_one(QUIET, 1045, 1045, effect=CPU_OR_MANY.effect) == "same"
    assert judge_one(QUIET, 1055, 1055, effect=CPU_OR_MANY.effect) == "worse"


def test_only_valid_nights_count_and_six_are_too_few() -> None:
    six = [1000.0, NAN, 1000, 1000, NAN, NAN, 1000, 1000, 1000]
    assert judge_one(six, 2000, 2000) == "learning"
    assert judge_one([1000.0, *six], 2000, 2000) == "worse"
    # Fourteen valid nights, however far they reach back; what is older is forgotten.
    history = make_baseline(np.array([[5.0] * 20 + [1000.0] * 7 + [NAN] * 30 + [1000.0] * 7]), 0.03)
    assert (history.level[0], history.nights[0]) == (1000, 14)


def test_a_machine_that_is_slow_by_another_amount_every_time_is_confirmed_by_the_night_before() -> None:
    nights = np.array([[*QUIET, 1400.0]])
    first = judge(make_baseline(np.array([QUIET]), 0.03), nights)
    assert confirm(first, np.array([[1100.0]])).unsure.tolist() == [True]
    assert judge_one([*QUIET, 1400], 1100, 1400) == "worse"


def test_drift_is_three_nights_tonight_and_the_second_run_beyond_the_pinned_level() -> None:
    history = [1100.0] * 14  # the rolling baseline has followed
    assert judge_one(history, 1101, 1102) == "same"
    assert judge_one(history, 1101, 1102, pinned=1040) == "worse"
    assert judge_one(history, 1101, 1102, pinned=1060) == "same"
    assert judge_one(history, 1101, 1102, pinned=1200) == "better"
    assert judge_one(history, 1101, 1080, pinned=1040) == "same"
    # Two spikes in three nights are no drift when tonight, or tonight's second run, is as ever.
    spiked = [1000.0] * 12 + [1200, 1200]
    assert judge_one(spiked, 1000, 1000, pinned=1000) == "same"
    assert judge_one([1000.0] * 13 + [1200], 1200, 1000, pinned=1000) == "same"


def test_settled_is_within_half_the_limit() -> None:
    tonight = np.array([[1000.0, 1000, value] for value in (1014, 1016, 986, 984, NAN)])
    judgement = judge(make_baseline(np.array([QUIET] * 5), 0.03), tonight)
    assert judgement.step_settled.tolist() == [True, False, True, False, False]
    assert not judgement.drift_settled.any()  # nothing is pinned
    recent = np.full((3, 3), 1000.0)
    pinned = make_baseline(np.array([QUIET] * 3), 0.03, pinned=np.array([1000.0, 980, 970]))
    assert judge(pinned, recent).drift_settled.tolist() == [True, True, False]


def test_an_open_incident_needs_no_second_run() -> None:
    judgement = judge(make_baseline(np.array([QUIET, QUIET]), 0.03), np.array([[1000.0, 1000, 1100]] * 2))
    confirmed = confirm(judgement, np.full((2, 1), NAN), known=np.array([True, False]))
    assert confirmed.verdicts.tolist() == ["worse", "same"]


def judge_next(history: list[float], *runs: float, known: bool = False) -> str:
    """The verdict on the last of two runs in a row."""
    nights = np.array([[*history, *runs]])
    count = len(history)
    before, now = (judge(make_baseline(nights[:, :end], 0.03), nights[:, : end + 1]) for end in (count, count + 1))
    return str(uphold(now, before, np.array([known])).verdicts[0])


@pytest.mark.parametrize(
    ("history", "runs", "verdict"),
    [
        (QUIET, (1031, 1032), "worse"),
        (QUIET, (969, 968), "better"),
        (QUIET, (1031, 969), "same"),
        (QUIET, (1029, 1100), "same"),  # the run before was within its limit
        (QUIET, (1050, 1200), "worse"),  # slow by another amount every time
        (QUIET[:6], (800, 800), "same"),  # the run before was still learning
        (QUIET[:6], (1300, 1300), "same"),
        (QUIET[:7], (1300, 1300), "worse"),
        (QUIET[:5], (1300, 1300), "learning"),
    ],
)
def test_a_run_confirms_what_the_one_before_was_suspected_of(
    history: list[float], runs: tuple[float, ...], verdict: str
) -> None:
    assert judge_next(history, *runs) == verdict


def test_the_next_run_confirms_from_three_spreads_on() -> None:
    noisy = [1000.0 + 20 * (-1) ** night for night in range(14)]  # spread 2.965 %
    assert judge_next(noisy, 1120, 1095) == "worse"
    assert judge_next(noisy, 1120, 1075) == "same"
    assert judge_next(noisy, 1095, 1120) == "same"  # 9.5 % was no suspicion
    assert judge_next(noisy, 1250, 1095) == "same"  # not of a size
    assert judge_next(noisy, 1000, 1120, known=True) == "worse"


def rerun(judgement: Judgement, runs: list[Floats]) -> Judgement:
    """As a night goes: suspects once more, those that are unsure a third time."""
    second = np.where(judgement.suspect, runs[0], NAN)[:, None]
    unsure = confirm(judgement, second).unsure
    return confirm(judgement, np.column_stack([second, np.where(unsure, runs[1], NAN)]))


def test_false_alarms_and_found_steps_of_six_thousand_cells() -> None:
    nights = add_spikes(make_nights(6000, 17, seed=1), seed=2)
    again = [add_spikes(make_nights(6000, 1, seed=3 + i), seed=5 + i)[:, 0] for i in range(2)]
    baseline = make_baseline(nights[:, :14], ONE_GPU.effect)
    quiet = rerun(judge(baseline, nights[:, 14:]), again)
    assert np.count_nonzero(judge(baseline, nights[:, 14:]).suspect) > 100  # the spikes
    assert np.count_nonzero(quiet.step) <= 6
    stepped = nights[:, 14:] * np.array([1, 1, 1.05])
    found = rerun(judge(baseline, stepped), [1.05 * run for run in again])
    assert 0.9 <= np.mean(found.step == 1) <= 0.98


def test_a_step_of_five_per_cent_in_normal_noise_is_found_in_nine_of_ten_nights() -> None:
    random = np.random.default_rng(1)
    nights, again = np.exp(random.normal(0, 0.008, (20_000, 15))), np.exp(random.normal(0, 0.008, (2, 20_000)))
    nights[:, -1] *= 1.05
    found = rerun(judge(make_baseline(nights[:, :14], ONE_GPU.effect), nights[:, -3:]), [1.05 * run for run in again])
    assert 0.9 <= np.mean(found.step == 1) <= 0.94


@pytest.mark.parametrize("noise", [NOISE, 0.02, 0.05])
def test_the_detectable_effect_is_found_in_nine_of_ten_nights(noise: float) -> None:
    nights = make_nights(4000, 63, seed=1, noise=noise)
    again = [make_nights(4000, 1, seed=2 + i, noise=noise)[:, 0] for i in range(2)]
    baseline = make_baseline(nights[:, :60], ONE_GPU.effect)
    detectable = find_detectable(baseline, nights[:, :60])
    nights[:, -1] *= 1 + detectable
    found = rerun(judge(baseline, nights[:, -3:]), [(1 + detectable) * run for run in again])
    assert np.mean(found.step == 1) == pytest.approx(0.9, abs=0.025)
