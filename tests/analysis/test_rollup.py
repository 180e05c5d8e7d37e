"""What drowns in one cell stands out in many: hosts, cohorts, outliers, change points."""

from __future__ import annotations

import math
import statistics
import time

import numpy as np
import pytest

from fleet.analysis.baseline import make_baseline
from fleet.analysis.changepoint import ChangePoint, find_changes
from fleet.analysis.judgement import judge
from fleet.analysis.outlier import find_outliers, find_slow_hosts
from fleet.analysis.rollup import COHORT, HOST, expect_spread, roll_up
from tests.analysis.night_builder import add_spikes, make_nights

NAN = np.nan


def test_a_group_does_what_the_median_of_its_members_does() -> None:
    random = np.random.default_rng(1)
    nights = np.exp(random.normal(0, 0.1, (20, 9))) * random.uniform(1, 1000, (20, 1))
    nights[3, 4] = nights[17, 0] = NAN
    groups = [np.arange(0, 9), np.arange(9, 20)]
    rolled = roll_up(nights, groups)
    for row, members in enumerate(groups):
        usual = [statistics.median(v for v in nights[m].tolist() if v == v) for m in members]
        for night in range(9):
            ratios = [math.log(nights[m, night] / u) for m, u in zip(members, usual, strict=True)]
            expected = math.exp(statistics.median(r for r in ratios if r == r))
            assert rolled[row, night] == pytest.approx(expected)


def test_a_night_with_few_of_the_members_says_nothing() -> None:
    nights = np.ones((20, 3))
    nights[:11, 1] = NAN
    assert np.isnan(roll_up(nights, [np.arange(20)])).tolist() == [[False, True, False]]
    assert np.isnan(roll_up(nights, [np.arange(13, 20)])).all()  # seven are no group


def count_found(shift: float, size: int, seed: int) -> tuple[float, float]:
    """Of a group of so many series: in what part of nights a shift of all is found, and is seen where there is none."""
    groups = 1500 // size
    nights = add_spikes(make_nights(groups * size, 40, seed), seed + 1)
    members = list(np.arange(groups * size).reshape(groups, size))
    rules = COHORT if size < 60 else HOST
    floor = expect_spread(make_baseline(nights, rules.effect).spread, members, rules)
    rolled = roll_up(nights, members)
    found, false = [], []
    for night in range(20, 40):
        baseline = make_baseline(rolled[:, :night], rules.effect, floor)
        recent = rolled[:, night - 2 : night + 1]
        false.append(np.mean(judge(baseline, recent).step != 0))
        found.append(np.mean(judge(baseline, recent * np.array([1, 1, 1 + shift])).step == 1))
    return float(np.mean(found)), float(np.mean(false))


@pytest.mark.parametrize(("size", "shift"), [(60, 0.02), (50, 0.01), (8, 0.03)])
def test_shifts_of_a_group_are_found_that_no_member_shows(size: int, shift: float) -> None:
    found, false = count_found(shift, size, seed=size)
    assert found >= 0.95
    assert false <= 0.002


def test_the_floor_of_a_group_is_the_scatter_of_a_median() -> None:
    medians = np.median(np.random.default_rng(2).normal(1, 0.01, (4000, 50)), axis=1)
    floor = expect_spread(np.full(50, 0.01), [np.arange(50)], COHORT)
    assert floor[0] == pytest.approx(1.25 * medians.std(), rel=0.05)
    assert expect_spread(np.full(9, 1e-6), [np.arange(9)], COHORT)[0] == COHORT.floor


def test_the_odd_one_out_is_found_by_median_and_mad() -> None:
    times = np.array([[100.0], [101], [99], [100], [100], [102], [98], [108]])
    outliers = find_outliers(times)
    assert outliers.slow[:, 0].tolist() == [False] * 7 + [True]
    middle = math.log(100)
    mad = statistics.median(abs(math.log(v) - middle) for v in times[:, 0].tolist())
    assert outliers.z[7, 0] == pytest.approx((math.log(108) - middle) / (1.4826 * mad))
    assert outliers.change[7, 0] == pytest.approx(0.08)
    # Mean and three standard deviations never find one of eight.
    assert times.mean() + 3 * times.std(ddof=1) > 108


def test_fewer_than_four_hosts_have_no_odd_one() -> None:
    times = np.array([[100.0, 100], [100, 100], [150, 150], [NAN, 100]])
    outliers = find_outliers(times)
    assert outliers.slow.tolist() == [[False, False], [False, False], [False, True], [False, False]]
    assert np.isnan(outliers.change[:, 0]).all()


def test_differences_below_three_per_cent_are_none_however_sure() -> None:
    assert not find_outliers(np.array([[100.0], [100], [100], [100], [102.9]])).slow.any()
    assert find_outliers(np.array([[100.0], [100], [100], [100], [103.1]])).slow[4, 0]


def test_a_host_of_eight_that_is_eight_per_cent_slow_is_found() -> None:
    cells = add_spikes(make_nights(8 * 300, 60, seed=1), seed=2).reshape(300, 8, 60)
    assert not any(find_slow_hosts(group).slow.any() for group in cells)
    cells[:, 3] *= 1.08
    assert np.mean([find_outliers(group).slow[3] for group in cells]) >= 0.95
    assert all(find_slow_hosts(group).slow[:, 0].tolist() == [i == 3 for i in range(8)] for group in cells)


def test_the_night_of_a_change_is_marked() -> None:
    nights = np.array([100.0] * 20 + [106.0] * 15 + [90.0] * 20)
    nights[[4, 30]] *= 2  # spikes
    nights[[5, 25, 26]] = NAN
    assert find_changes(nights) == (ChangePoint(20, 100, 106), ChangePoint(35, 106, 90))
    assert find_changes(nights)[0].change == pytest.approx(0.06)


def test_changes_below_the_merge_are_none() -> None:
    assert find_changes(np.array([100.0] * 30 + [102.5] * 30)) == ()
    assert len(find_changes(np.array([100.0] * 30 + [103.5] * 30))) == 1


@pytest.mark.parametrize("nights", [[], [NAN] * 30, [5.0], [5.0] * 9, [5.0] * 400])
def test_series_without_a_change_have_none(nights: list[float]) -> None:
    assert find_changes(np.array(nights)) == ()


def test_changes_in_a_year_of_noise_and_spikes() -> None:
    year = add_spikes(make_nights(60, 365, seed=3), seed=4)
    began = time.perf_counter()
    flat = sum(len(find_changes(series)) > 0 for series in year)
    assert (time.perf_counter() - began) / 60 < 0.1
    assert flat <= 3
    stepped = year * np.where(np.arange(365) < 200, 1, 1.05)
    nearest = [min((abs(change.night - 200) for change in find_changes(series)), default=999) for series in stepped]
    assert sum(distance <= 3 for distance in nearest) >= 58
