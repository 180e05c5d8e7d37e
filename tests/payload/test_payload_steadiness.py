"""Where the warm-up really ended: planted in step times, and in a real measurement."""

from __future__ import annotations

import math
import random
import time

import pytest

from payload.measure import Report, measure
from payload.spec import Rules
from payload.steadiness import count_dropped
from payload.timing import find_median, summarise

numpy = pytest.importorskip("numpy", reason="numpy: it comes with tensorflow")


def draw(seed: int, count: int, noise: float = 0.01) -> list[float]:
    """Steps around 10 ms, a few of them hiccups of three times that."""
    source = random.Random(seed)
    return [10000 * (1 + source.gauss(0, noise)) * (3 if source.random() < 0.02 else 1) for _ in range(count)]


@pytest.mark.parametrize("warmup_steps", [0, 5, 10])
def test_a_slow_warm_up_does_not_move_the_median(warmup_steps: int) -> None:
    """The first 40 steps of a process take twice as long; `warmup_steps` of them are not timed at all."""
    moved = []
    for seed in range(60):
        clean = draw(seed, 150)[warmup_steps:]
        slow = [round(t * (2 if i < 40 - warmup_steps else 1)) for i, t in enumerate(clean)]
        dropped = count_dropped(slow)
        assert 40 - warmup_steps <= dropped <= len(slow) // 2
        found = summarise(warmup_steps, 0, slow, 1.5, dropped)
        moved.append(abs(found["quantiles_us"]["p50"] / find_median(clean) - 1))
        assert (found["steps"], found["dropped_steps"]) == (len(slow), dropped)
    assert max(moved) < 0.005
    # What would have happened: more than the half per cent, in every single one.
    blind = [find_median([t * (2 if i < 40 else 1) for i, t in enumerate(draw(seed, 100))]) for seed in range(60)]
    assert min(blind) > 10000 * 1.005


def test_a_warm_up_that_fades_is_cut_where_little_is_left_of_it() -> None:
    for seed in range(40):
        steady = draw(seed, 400, 0.005)
        fading = [round(t * (1 + math.exp(-i / 40))) for i, t in enumerate(steady)]
        dropped = count_dropped(fading)
        moved = find_median(fading[dropped:]) / find_median(steady) - 1
        assert abs(moved) < 0.005 and 40 <= dropped <= 200
        assert find_median(fading) / find_median(steady) - 1 > 0.005


def test_steady_steps_and_hiccups_are_all_counted() -> None:
    assert all(count_dropped([round(t) for t in draw(seed, 200, 0.002)]) == 0 for seed in range(100))
    assert count_dropped([7000] * 100) == 0
    assert count_dropped([70000, 71000, *[7000, 7001] * 50]) == 0, "two slow steps are no trend"
    assert count_dropped([20000] * 9 + [10000] * 10) == 0, "nothing can be told of 19 steps"
    assert count_dropped([20000] * 5 + [10000] * 15) == 5


def test_never_more_than_half_is_dropped() -> None:
    for seed in range(50):
        source = random.Random(seed)
        level, steps = 0.0, []
        for _ in range(200):
            level += source.gauss(0, 100)
            steps.append(round(20000 + level))
        assert 0 <= count_dropped(steps) <= 100


class SlowStart:
    """Steps of 10 ms, the first 25 of 60: real time, for the measurement has a real clock."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self) -> float:
        time.sleep(0.06 if self.taken < 25 else 0.01)
        self.taken += 1
        return 1.0


def test_steps_that_were_warm_up_are_taken_again() -> None:
    timing = measure(SlowStart(), Rules(5, 0.0, 40, 0.0, 30.0, 60.0), Report())["timing"]
    assert timing["dropped_steps"] >= 20
    assert timing["steps"] - timing["dropped_steps"] >= 40
    assert timing["quantiles_us"]["p50"] < 40000
    assert timing["ended_by"] == "rules"
    assert timing["total_s"] >= 20 * 0.06 + 40 * 0.01


def test_to_the_letter_means_so_many_steps_and_no_others() -> None:
    timing = measure(SlowStart(), Rules(5, 0.0, 40, 0.0, 30.0, 60.0, compat=True), Report())["timing"]
    assert (timing["steps"], timing["dropped_steps"]) == (40, 0)


def test_the_upper_limit_holds_and_is_said() -> None:
    for _ in range(4):  # a machine that is busy with other things has no fast steps for a while
        timing = measure(SlowStart(), Rules(5, 0.0, 4000, 0.0, 2.5, 60.0), Report())["timing"]
        if timing["dropped_steps"]:
            break
    assert timing["ended_by"] == "max_s"
    assert 2.5 <= timing["total_s"] < 5
    assert 20 <= timing["dropped_steps"] < timing["steps"] // 2 + 1


def test_steps_go_on_until_the_median_is_certain_enough() -> None:
    source = random.Random(5)

    def step() -> float:
        time.sleep(source.choice([0.001, 0.003]))
        return 1.0

    def measure_until(target: float) -> tuple[int, float]:
        timing = measure(step, Rules(1, 0.0, 30, 0.0, 20.0, 60.0, ci_target=target), Report())["timing"]
        low, high = timing["ci95_us"]
        assert timing["ended_by"] == "rules"
        return timing["steps"], (high - low) / 2 / timing["quantiles_us"]["p50"]

    assert measure_until(0.0)[0] < 90
    _, certainty = measure_until(0.3)
    assert certainty < 0.36, "asked for with fewer resamples than are reported"
    timing = measure(step, Rules(1, 0.0, 30, 0.0, 0.5, 60.0, ci_target=0.0001), Report())["timing"]
    assert timing["ended_by"] == "max_s"


def test_processor_time_is_that_of_the_timed_steps() -> None:
    def spin() -> float:
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass
        return 1.0

    timing = measure(spin, Rules(10, 0.0, 10, 0.0, 30.0, 60.0), Report())["timing"]
    assert 0.1 <= timing["cpu_s"] < 0.2
    timing = measure(lambda: time.sleep(0.01), Rules(1, 0.0, 10, 0.0, 30.0, 60.0), Report())["timing"]
    assert timing["cpu_s"] < 0.05 and timing["total_s"] >= 0.1


def test_a_loss_that_is_not_finite_is_marked_where_the_rules_allow_it() -> None:
    losses = [5.0, 4.0, float("nan"), float("inf")]
    result = measure(lambda: losses.pop(0), Rules(1, 0.0, 3, 0.0, 30.0, 60.0, compat=True), Report())
    assert result["loss"] == {"first": 4.0, "last": None, "finite": False}
    assert result["timing"]["steps"] == 3
    result = measure(lambda: 1.0, Rules(1, 0.0, 3, 0.0, 30.0, 60.0, compat=True), Report())
    assert result["loss"] == {"first": 1.0, "last": 1.0, "finite": True}
