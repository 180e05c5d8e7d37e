"""Who is best, and who is alike."""

from __future__ import annotations

import pytest

from fleet.analysis.cohort import group_by_hardware, nominal_memory_gib
from fleet.analysis.ranking import Spread, find_best, relative_spread, summarise
from tests.run_builder import GIB, Ending, make_cells, make_facts, make_outcome, make_plan


def test_best_is_the_highest_and_what_ties_with_it() -> None:
    assert find_best({"a": 100.0, "b": 99.6, "c": 99.4}) == {"a", "b"}
    assert find_best({"a": 100.0}) == frozenset()
    assert find_best({}) == frozenset()


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
