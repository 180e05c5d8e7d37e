"""Step times: what is kept, what is computed, and how long a measurement goes on."""

from __future__ import annotations

import base64
import random
import statistics
import struct
import time
import zlib

import pytest

from fleet.model.result import Timing
from payload.lines import format_steps
from payload.measure import NotFinite, Report, measure
from payload.spec import Rules
from payload.timing import decode_steps, encode_steps, find_median, summarise

numpy = pytest.importorskip("numpy", reason="numpy: it comes with tensorflow")


@pytest.mark.parametrize("steps", [[0, 0], [5, 3, 9], [2**31 - 1, 0, 2**31 - 1], list(range(1000, 5000, 7))])
def test_step_times_survive_their_encoding(steps: list[int]) -> None:
    assert decode_steps(encode_steps(steps)) == steps


def test_step_times_can_be_read_by_the_words_of_the_contract() -> None:
    raw = zlib.decompress(base64.b64decode(encode_steps([100, 90, 120])))
    assert struct.unpack("<3i", raw) == (100, -10, 30)
    assert decode_steps(encode_steps([10**12])) == [2**31 - 1]


def test_the_numbers_are_numpys() -> None:
    source = random.Random(7)
    steps = [int(source.gauss(10000, 400)) for _ in range(301)]
    timing = Timing.model_validate(summarise(10, 0.5, steps, 3.1))
    for name, value in timing.quantiles_us.items():
        assert value == pytest.approx(numpy.percentile(steps, int(name[1:])))
    assert timing.mean_us == pytest.approx(numpy.mean(steps))
    assert timing.sd_us == pytest.approx(numpy.std(steps))
    assert timing.mad_us == pytest.approx(numpy.median(numpy.abs(numpy.array(steps) - numpy.median(steps))))
    assert timing.halves_ratio == pytest.approx(numpy.median(steps[150:]) / numpy.median(steps[:150]))
    assert (timing.steps, timing.steady) == (301, True)


def test_steadiness_is_about_the_halves() -> None:
    assert summarise(1, 0, [1000] * 50 + [1011] * 50, 1)["steady"] is False
    assert summarise(1, 0, [1000] * 50 + [1009] * 50, 1)["steady"] is True
    assert summarise(1, 0, [1000, 3000], 1)["halves_ratio"] == 3
    for same in (0, 1, 7):
        timing = summarise(1, 0, [same] * 100, 1)
        assert (timing["halves_ratio"], timing["steady"], timing["mad_us"]) == (1, True, 0)
        assert timing["ci95_us"] == (same, same)


def test_the_interval_knows_that_neighbours_resemble_each_other() -> None:
    def draw(seed: int) -> list[int]:
        source, level, steps = random.Random(seed), 0.0, []
        for _ in range(300):
            level = 0.9 * level + source.gauss(0, 100)
            steps.append(int(10000 + level))
        return steps

    related = [summarise(1, 0, draw(seed), 3)["ci95_us"] for seed in range(40)]
    mixed = [summarise(1, 0, sorted(draw(seed), key=lambda v: v * 7919 % 1009), 3)["ci95_us"] for seed in range(40)]
    covered = sum(low <= 10000 <= high for low, high in related)
    assert covered >= 28, "blocks cover about 88 % of such series, single steps under half"
    assert statistics.mean(h - low for low, h in related) > 2 * statistics.mean(h - low for low, h in mixed)
    assert related[0] == summarise(1, 0, draw(0), 3)["ci95_us"]


def take(rules: Rules, *losses: float | None, sleep_s: float = 0.0) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Measure steps with these losses (the last one for ever), and list the stages."""
    stages: list[str] = []
    left = list(losses)

    class Stages(Report):
        def enter(self, stage: str) -> None:
            stages.append(stage)

    def step() -> float | None:
        time.sleep(sleep_s)
        return left.pop(0) if len(left) > 1 else left[0]

    return measure(step, rules, Stages()), stages


def test_warm_up_lasts_long_enough_in_steps_and_in_seconds() -> None:
    result, stages = take(Rules(3, 0.0, 2, 0.0, 9.0, 9.0), 1.0)
    assert (result["timing"]["warmup_steps"], stages) == (3, ["warmup", "measure"])
    result, _ = take(Rules(1, 0.1, 2, 0.0, 9.0, 9.0), 1.0, sleep_s=0.01)
    assert 0.1 <= result["timing"]["warmup_s"] < 2 and result["timing"]["warmup_steps"] > 2


def test_timed_steps_go_on_until_both_are_enough_or_the_time_is_up() -> None:
    assert take(Rules(1, 0.0, 7, 0.0, 9.0, 9.0), 1.0)[0]["timing"]["steps"] == 7
    timing = take(Rules(1, 0.0, 2, 0.2, 9.0, 9.0), 1.0, sleep_s=0.01)[0]["timing"]
    assert timing["steps"] > 2 and 0.2 <= timing["total_s"] < 2
    timing = take(Rules(1, 0.0, 1000, 0.0, 0.1, 9.0), 1.0, sleep_s=0.01)[0]["timing"]
    assert 2 <= timing["steps"] <= 12
    assert take(Rules(1, 0.0, 1000, 0.0, 0.001, 9.0), 1.0, sleep_s=0.01)[0]["timing"]["steps"] == 2


def test_losses_are_those_of_timed_steps() -> None:
    assert take(Rules(1, 0.0, 3, 0.0, 9.0, 9.0), 9.0, 5.0, 4.0, 3.0)[0]["loss"] == {
        "first": 5,
        "last": 3,
        "finite": True,
    }
    assert take(Rules(1, 0.0, 3, 0.0, 9.0, 9.0), None)[0]["loss"] == {"first": None, "last": None, "finite": None}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_is_named_with_its_step(bad: float) -> None:
    with pytest.raises(NotFinite, match="at timed step 2") as caught:
        take(Rules(1, 0.0, 5, 0.0, 9.0, 9.0), 1.0, 1.0, bad)
    assert caught.value.reason == "loss_not_finite"


def test_the_line_is_the_reference_s() -> None:
    # 64 images in 0.1, 0.2 and 0.1 s: 480 images/s in the mean; speeds 640, 320, 640.
    assert format_steps([100000, 200000, 100000], 7.25, 64) == "3\timages/sec: 480.0 +/- 87.1 (jitter = 0.0)\t7.250"
    assert format_steps([100000, 125000], None, 64) == "2\timages/sec: 568.9 +/- 45.3 (jitter = 94.9)\t0.000"
    assert find_median([4, 1, 3, 2]) == 2.5
