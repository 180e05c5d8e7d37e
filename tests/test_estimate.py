"""How long a host is expected to take: assumed at first, then as it was the last time."""

from __future__ import annotations

import pytest

from fleet.bundle import read_models
from fleet.estimate import Past, estimate_cell, estimate_job, estimate_run, find_pace
from fleet.model.inventory import Settings
from fleet.model.result import CellResult, CellStatus
from fleet.model.suite import Cell, Rules
from tests.run_builder import Ending, make_outcome, make_plan

MODELS = read_models()
ASSUMED = find_pace("cpu", Rules(), MODELS, None)


def test_estimate_counts_operations_and_keeps_to_the_rules() -> None:
    # A training step of 8 is 2 x 3 x 8 x 3.858e9 (multiply-adds) = 1.85e11 operations: 0.926 s at 2e11/s.
    resnet50 = MODELS["resnet50"]
    train, forward = (Cell(model="resnet50", phase=p, batch_size=8) for p in ("train", "forward"))
    rules = Rules(warmup_steps=10, steps=20, max_s=1000)
    measured = [estimate_cell(c, rules, resnet50, ASSUMED) - ASSUMED.start_s for c in (train, forward)]
    assert measured[0] == pytest.approx(30 * 0.926, rel=0.001)
    assert measured[1] == pytest.approx(measured[0] / 3)
    short = estimate_cell(train, Rules(warmup_steps=1, steps=1000, max_s=5), resnet50, ASSUMED)
    assert short == pytest.approx(ASSUMED.start_s + 0.926 + 5, rel=0.001)
    long = estimate_cell(forward, Rules(warmup_steps=1, warmup_s=30, steps=2, min_s=40), resnet50, ASSUMED)
    assert long == pytest.approx(ASSUMED.start_s + 30 + 40)
    assert estimate_cell(train, Rules(steps=10_000, max_s=9999, cell_timeout_s=60), resnet50, ASSUMED) == 60


def measure(cell: Cell, rate: float, duration_s: float = 30.0) -> CellResult:
    """The result of a cell in a run by the default rules; of its time, 20 s are steps."""
    plan = make_plan({"a": (cell,)})
    (result,) = make_outcome(plan.hosts[0], plan, Ending(rate)).cells
    assert result.timing and result.throughput
    timing = result.timing.model_copy(update={"warmup_s": 5.0, "total_s": 15.0})
    return result.model_copy(update={"timing": timing, "duration_s": duration_s})


def test_a_cell_takes_as_long_as_the_last_time_by_the_same_rules() -> None:
    cell = Cell(model="resnet50", batch_size=8)
    past = Past(Rules(), (measure(cell, 100.0, 33.0),))
    pace = find_pace("cpu", Rules(), MODELS, past)
    assert estimate_cell(cell, Rules(), MODELS["resnet50"], pace) == 33.0
    job = estimate_job((cell,), Settings(devices="cpu", runtime="native"), Rules(), MODELS, pace)
    assert job == 39.0


def test_other_cells_and_other_rules_are_estimated_with_the_speed_that_was_measured() -> None:
    trained = Cell(model="resnet50", batch_size=8)
    # 100 images/s of 3 x 2 x 3.858e9 operations are 2.315e12 a second; a start took 33 - 5 - 15 s.
    pace = find_pace("cpu", Rules(), MODELS, Past(Rules(steps=7), (measure(trained, 100.0, 33.0),)))
    assert (pace.start_s, pace.seen_s) == (13.0, {})
    assert pace.flops_per_s["fp32"] == pytest.approx(2.3148e12, rel=1e-4)
    assert pace.flops_per_s["bf16"] == ASSUMED.flops_per_s["bf16"]
    # Twenty forward steps of 100 images at 300 images/s.
    rules = Rules(warmup_steps=10, steps=10)
    other = Cell(model="resnet50", phase="forward", batch_size=100)
    assert estimate_cell(other, rules, MODELS["resnet50"], pace) == pytest.approx(13 + 20 / 3, rel=1e-4)


def test_the_speed_of_several_devices_is_that_of_each() -> None:
    cell = Cell(model="resnet50", batch_size=8, device="gpu", devices=4)
    pace = find_pace("gpu", Rules(), MODELS, Past(Rules(), (measure(cell, 100.0),)))  # a step of 0.08 s on each
    assert pace.flops_per_s["fp32"] == pytest.approx(2.3148e12, rel=1e-4)


def test_what_failed_or_is_of_another_kind_of_device_teaches_no_speed() -> None:
    cell = Cell(model="resnet50", batch_size=8)
    oom = measure(cell, 100.0, 12.0).model_copy(update={"status": CellStatus.OOM, "timing": None, "throughput": None})
    pace = find_pace("cpu", Rules(), MODELS, Past(Rules(), (oom,)))
    assert (pace.start_s, pace.flops_per_s) == (ASSUMED.start_s, ASSUMED.flops_per_s)
    assert pace.seen_s == {cell.id: 12.0}
    assert find_pace("gpu", Rules(), MODELS, Past(Rules(), (measure(cell, 100.0),))).seen_s == {}


def test_short_steps_and_other_threads_teach_no_speed() -> None:
    tiny = Cell(model="trivial", batch_size=2)
    pace = find_pace("cpu", Rules(), MODELS, Past(Rules(), (measure(tiny, 1000.0),)))
    assert pace.flops_per_s == ASSUMED.flops_per_s
    heavy = Cell(model="resnet50", batch_size=8)
    past = Past(Rules(intra_threads=1), (measure(heavy, 1.0),))
    assert find_pace("cpu", Rules(), MODELS, past).flops_per_s == ASSUMED.flops_per_s
    mixed = Past(Rules(), (measure(tiny, 10.0), measure(heavy, 8.0)))  # steps of 0.2 s and 1 s: the heavier counts more
    assert find_pace("cpu", Rules(), MODELS, mixed).flops_per_s["fp32"] == pytest.approx(1.852e11 / 1.2, rel=0.01)


@pytest.mark.parametrize("step_us", [-1.0, 0.0, 5e-324, 1e300])
@pytest.mark.parametrize("duration_s", [-1e308, -5.0, 0.0, 1e300, 1e308])
@pytest.mark.parametrize("same_rules", [True, False])
def test_a_damaged_history_makes_no_estimate_that_the_rules_do_not_allow(
    step_us: float, duration_s: float, same_rules: bool
) -> None:
    cells = tuple(Cell(model="resnet50", batch_size=size) for size in (8, 0))
    result = measure(cells[0], 100.0, duration_s)
    assert result.timing
    timing = result.timing.model_copy(update={"warmup_s": -duration_s, "quantiles_us": {"p50": step_us}})
    result = result.model_copy(update={"timing": timing})
    rules = Rules() if same_rules else Rules(steps=7)
    pace = find_pace("cpu", Rules(), MODELS, Past(rules, (result, measure(cells[1], 100.0, duration_s))))
    fixed, searched = (estimate_cell(cell, Rules(), MODELS["resnet50"], pace) for cell in cells)
    assert 0 < fixed <= 600
    assert 0 < searched <= 6000


@pytest.mark.parametrize(
    ("working_s", "waiting_s", "wave", "run_s"),
    [
        ([], [50.0, 20.0, 30.0], 0, 50),
        ([], [50.0, 20.0, 30.0], 3, 50),
        ([], [50.0, 20.0, 30.0], 10**19, 50),
        ([15.0, 5.0], [20.0], 1, 25),  # a run that is taken up with a smaller wave
        ([], [50.0, 20.0, 30.0], 2, 50),
        ([], [20.0, 30.0, 50.0], 2, 70),  # the last one begins when the first is done
        ([], [50.0, 20.0, 30.0], 1, 100),
        ([15.0], [20.0, 30.0], 1, 65),
        ([-15.0], [20.0], 1, 20),  # long overdue, and still somebody has to wait for it
        ([-15.0, -5.0], [], 2, -5),
        ([], [], 1, 0),
    ],
)
def test_a_run_lasts_until_its_last_host_has_had_its_turn(
    working_s: list[float], waiting_s: list[float], wave: int, run_s: float
) -> None:
    assert estimate_run(working_s, waiting_s, wave) == run_s
