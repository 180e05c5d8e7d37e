"""Who is best, and who is alike."""

from __future__ import annotations

import pytest

from fleet.analysis.cohort import group_by_hardware
from fleet.analysis.ranking import (
    Estimate,
    Spread,
    estimate_median,
    estimate_rate,
    find_best,
    relative_spread,
    summarise,
)
from fleet.model.facts import nominal_memory_gib
from fleet.model.result import Timing
from tests.run_builder import GIB, Ending, make_cells, make_facts, make_outcome, make_plan


def estimates(**values: tuple[float, float, float]) -> dict[str, Estimate]:
    return {name: Estimate(*value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("values", "best"),
    [
        (estimates(a=(100, 99, 101), b=(90, 89, 91)), {"a"}),
        # Noise: b's interval reaches into a's.
        (estimates(a=(100, 80, 120), b=(90, 70, 110), c=(60, 50, 70)), {"a", "b"}),
        # Sure of themselves, and as close as two runs of one machine.
        (estimates(a=(100, 99.99, 100.01), b=(99.6, 99.59, 99.61), c=(99.4, 99.39, 99.41)), {"a", "b"}),
        # Nobody can be told from the best: nobody is it.
        (estimates(a=(100, 60, 140), b=(70, 40, 100)), set()),
        (estimates(a=(100, 99, 101)), set()),
        ({}, set()),
    ],
)
def test_best_is_the_highest_and_what_cannot_be_told_from_it(values: dict[str, Estimate], best: set[str]) -> None:
    assert find_best(values) == best


def make_timing(ci95_us: tuple[float, float], halves_ratio: float) -> Timing:
    plan = make_plan({"a": make_cells("cpu", 1)})
    timing = make_outcome(plan.hosts[0], plan, Ending(rate=32)).cells[0].timing  # 32 images in a second
    assert timing is not None
    return timing.model_copy(update={"ci95_us": ci95_us, "halves_ratio": halves_ratio})


def test_a_rate_is_as_sure_as_its_median_step_and_its_halves() -> None:
    steady = estimate_rate(32, make_timing((800_000, 1_250_000), 1.0))
    assert (steady.value, steady.low, steady.high) == pytest.approx((32, 25.6, 40))
    # Sure of its median, and the second half takes 1.21 times as long as the first: 1.1 to either side.
    drifting = estimate_rate(32, make_timing((999_000, 1_001_000), 1.21))
    assert (drifting.low, drifting.high) == pytest.approx((32 / 1.1, 32 * 1.1))
    assert estimate_rate(32, None) == Estimate(32, 32, 32)


def test_the_median_of_many_hosts_does_not_hang_on_the_outermost() -> None:
    hosts = [Estimate(value, value, value) for value in (10.0, *[100.0 + i for i in range(58)], 900.0)]
    # 60 values: between the 22nd and the 39th.
    assert estimate_median(hosts) == Estimate(128.5, 120, 137)
    assert estimate_median(hosts[:3]) == Estimate(100, 10, 101)
    assert estimate_median([]) is None


def test_summary_names_the_slowest() -> None:
    assert summarise({"b": 1.0, "a": 1.0, "c": 4.0, "d": 2.0}) == Spread(4, 1.5, 1.0, 4.0, "a")
    assert summarise({}) is None


def test_spread_is_the_scaled_mad_over_the_median() -> None:
    plan = make_plan({"a": make_cells("cpu", 1)})
    timing = make_outcome(plan.hosts[0], plan, Ending()).cells[0].timing
    assert timing is not None
    assert relative_spread(timing) == pytest.approx(1.4826 * 0.004)
    assert relative_spread(timing.model_copy(update={"quantiles_us": {}})) is None


def test_hosts_group_by_hardware_whatever_their_kernel_keeps_of_the_memory() -> None:
    facts = {
        "a": make_facts("A100", 8, memory=62.8),
        "b": make_facts("A100", 8, memory=62.5),
        "c": make_facts("A100", 4, memory=62.5),
        "d": None,
        "e": make_facts("A100", 8, memory=125.7),
    }
    cohorts = group_by_hardware(facts)
    assert [cohort.aliases for cohort in cohorts] == [("a", "b"), ("c",), ("e",), ("d",)]
    assert cohorts[-1].facts is None
    assert (nominal_memory_gib(int(62.5 * GIB)), nominal_memory_gib(64 * GIB)) == (64, 64)
