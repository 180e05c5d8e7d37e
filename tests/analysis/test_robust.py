"""Row-wise medians and spreads against the obvious way; the bootstrap's coverage by simulation."""

from __future__ import annotations

import base64
import statistics
import zlib

import numpy as np
import pytest

from fleet.analysis.robust import Floats, jitter_rows, median_rows, spread_rows, take_last
from fleet.analysis.steps import bootstrap_median, decode_steps
from fleet.model.result import Timing
from tests.run_builder import Ending, make_cells, make_outcome, make_plan

NAN = np.nan


def make_holes(seed: int) -> Floats:
    """50 rows of 9 nights, about a third not measured; the first row has none, the second one value."""
    random = np.random.default_rng(seed)
    values = random.uniform(1, 2, (50, 9))
    values[random.random(values.shape) < 0.35] = NAN
    values[0], values[1] = NAN, [NAN] * 4 + [7.0] + [NAN] * 4
    return values


def test_medians_and_spreads_are_those_of_the_numbers_of_each_row() -> None:
    values = make_holes(1)
    medians = median_rows(values)
    spreads = spread_rows(values, medians)
    assert np.isnan(medians[0])
    assert np.isnan(spreads[0])
    for row in range(1, len(values)):
        numbers = [v for v in values[row].tolist() if v == v]
        middle = statistics.median(numbers)
        assert medians[row] == pytest.approx(middle)
        mad = statistics.median(abs(v - middle) for v in numbers)
        assert spreads[row] == pytest.approx(1.4826 * mad / middle)
    assert np.isnan(median_rows(np.empty((2, 0)))).all()


def test_a_median_and_its_spread_hold_still_when_some_values_run_wild() -> None:
    calm = np.array([[99.0, 100, 101, 100, 100, 102, 98]])
    wild = np.array([[99.0, 100, 1e9, 100, 100, 102, 98]])
    assert median_rows(calm) == median_rows(wild) == 100
    assert spread_rows(calm, median_rows(calm)) == spread_rows(wild, median_rows(wild)) == pytest.approx(0.014826)


def test_the_last_numbers_are_taken_whatever_lies_between_them() -> None:
    for row, kept in zip(values := make_holes(2), take_last(values, 4), strict=True):
        numbers = [v for v in row.tolist() if v == v][-4:]
        assert np.isnan(kept[: 4 - len(numbers)]).all()
        assert kept[4 - len(numbers) :].tolist() == numbers


def test_the_scatter_of_neighbours_does_not_see_the_level_move() -> None:
    noise = np.random.default_rng(5).normal(0, 0.01, (20, 400))
    drifting = np.exp(noise + np.linspace(0, 0.3, 400) + 0.2 * (np.arange(400) > 200))
    drifting[:, ::7] = NAN
    assert jitter_rows(drifting) == pytest.approx(0.01, rel=0.2)
    assert np.all(spread_rows(drifting, median_rows(drifting)) > 0.1)


def draw_steps(random: np.random.Generator, count: int, correlation: float) -> Floats:
    """An AR(1) series around 1000."""
    shocks = random.normal(0, 10 * np.sqrt(1 - correlation**2), count)
    steps = [float(random.normal(0, 10))]
    for shock in shocks[1:]:
        steps.append(correlation * steps[-1] + float(shock))
    return 1000 + np.array(steps)


def test_the_interval_of_correlated_steps_holds_the_median_as_often_as_it_says() -> None:
    random = np.random.default_rng(3)
    held = naive = 0
    for _ in range(150):
        steps = draw_steps(random, 300, 0.5)
        low, high = bootstrap_median(steps, resamples=300)
        held += low <= 1000 <= high
        # Order statistics, as if the steps were independent: ranks n/2 ∓ 0.98 √n.
        ordered = np.sort(steps)
        naive += ordered[132] <= 1000 <= ordered[166]
    assert 0.87 <= held / 150 <= 0.98
    assert naive / 150 < 0.85


def test_the_interval_of_independent_steps_is_as_wide_as_theory_says() -> None:
    random = np.random.default_rng(4)
    widths = [np.diff(bootstrap_median(random.normal(1000, 10, 400), resamples=400)) for _ in range(40)]
    # The median of n normal values has the standard deviation √(π/2) σ ÷ √n.
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.sqrt(np.pi / 2) * 10 / 20, rel=0.12)


def test_the_interval_of_few_or_equal_steps_is_a_point_and_of_none_an_error() -> None:
    assert bootstrap_median(np.array([5.0])) == (5, 5)
    assert bootstrap_median(np.full(1000, 7.0)) == (7, 7)
    assert bootstrap_median(np.arange(50.0), seed=1) == bootstrap_median(np.arange(50.0), seed=1)
    with pytest.raises(ValueError, match="no steps"):
        bootstrap_median(np.array([]))


def make_timing(times: list[int], **changes: object) -> Timing:
    plan = make_plan({"a": make_cells("cpu", 1)})
    timing = make_outcome(plan.hosts[0], plan, Ending()).cells[0].timing
    assert timing is not None
    differences = np.diff(np.array(times, "<i4"), prepend=np.int32(0)).astype("<i4")
    text = base64.b64encode(zlib.compress(differences.tobytes())).decode()
    return timing.model_copy(update={"steps": len(times), "steps_us": text, **changes})


def test_stored_steps_come_back_without_the_dropped_ones() -> None:
    assert decode_steps(make_timing([900, 500, 510, 2_000_000_000, 490])).tolist() == [
        900,
        500,
        510,
        2_000_000_000,
        490,
    ]
    assert decode_steps(make_timing([900, 500, 510], dropped_steps=1)).tolist() == [500, 510]


@pytest.mark.parametrize(
    "changes",
    [
        {"steps_us": "no base64!"},
        {"steps_us": base64.b64encode(b"not zlib").decode()},
        {"steps": 2},
        {"steps": 4},
        {"steps_us": base64.b64encode(zlib.compress(bytes(12))[:-5]).decode()},
        # 100 MB of zeros in 100 kB: it is not unpacked.
        {"steps_us": base64.b64encode(zlib.compress(bytes(100_000_000))).decode()},
    ],
)
def test_damaged_steps_are_an_error_that_says_so(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="its step times"):
        decode_steps(make_timing([5, 6, 7], **changes))
