"""Machine against machine, run against run; what differs, and what is suspected; the words for it."""

from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np
import pytest

from fleet.analysis.comparison import Measured, Refusal, compare, find_refusal, read_measured
from fleet.analysis.finding import Finding, Kind, Level, Subject, Told
from fleet.analysis.fingerprint import Difference, Suspect, diff_fingerprints, find_suspects, read_fingerprint
from fleet.analysis.judgement import SeriesVerdict
from fleet.analysis.sentence import say_change, say_comparison, say_detectable, say_finding, say_refusal, say_told
from fleet.model.result import CellStatus
from tests.run_builder import DIGEST, SHA, Ending, make_cells, make_facts, make_outcome, make_plan


def measured(step_us: float, cell: str = "resnet50", **fingerprint: str) -> Measured:
    return Measured(cell, step_us, 1, SHA, fingerprint, 0.05)


def test_the_figure_is_the_geometric_mean_of_what_both_measured() -> None:
    left = {"a": measured(100, "a"), "b": measured(200, "b"), "c": measured(50, "c"), "only left": measured(1)}
    right = {"a": measured(50, "a"), "b": measured(400, "b"), "c": measured(100, "c"), "only right": measured(1)}
    comparison = compare(left, right)
    assert comparison.ratios == {"a": 0.5, "b": 2.0, "c": 2.0}
    assert comparison.ratio == pytest.approx(statistics.geometric_mean([0.5, 2, 2]))
    assert (comparison.count, comparison.total) == (3, 5)
    back = compare(right, left)
    assert comparison.ratio is not None
    assert comparison.interval is not None
    assert back.ratio == pytest.approx(1 / comparison.ratio)
    assert comparison.interval[0] < comparison.ratio < comparison.interval[1]


def test_the_interval_over_cells_holds_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        ratios = 0.8 * np.exp(random.normal(0, 0.2, 40))
        left = {str(i): measured(100, str(i)) for i in range(40)}
        interval = compare(left, {str(i): measured(100 * r, str(i)) for i, r in enumerate(ratios)}).interval
        assert interval is not None
        held += interval[0] <= 0.8 <= interval[1]
    assert 0.89 <= held / 200 <= 0.99


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ([110.0, 112, 108, 111], "worse"),
        ([90.0, 92, 88, 91], "better"),
        ([110.0, 90, 105, 96], "mixed"),
        ([833.0, 100, 100, 100], "mixed"),
        ([103.0, 99, 101, 98], "same"),  # whatever it is, it is less than counts for a cell
        ([100.2, 100.3, 100.2, 100.25], "same"),  # sure, and no more than two runs of one machine
        ([833.0], "worse"),  # too few for an interval: each by itself
        ([150.0, 150], "worse"),
        ([50.0, 101], "better"),
        ([833.0, 50], "mixed"),
        ([104.0], "same"),
        ([104.0, 97], "same"),
        ([], "incomparable"),
    ],
)
def test_the_verdict_is_as_sure_as_the_interval(times: list[float], verdict: str) -> None:
    left = {i: measured(100, str(i)) for i in range(4)}
    assert compare(left, {i: measured(value, str(i)) for i, value in enumerate(times)}).verdict == verdict


def test_what_is_not_of_the_same_thing_is_refused() -> None:
    one = measured(100)
    assert find_refusal(one, measured(90)) is None
    assert find_refusal(one, replace(one, protocol=2)) == Refusal("protocol", "1", "2")
    assert find_refusal(one, replace(one, payload_sha256="cd" * 32)) == Refusal("payload", "ab" * 6, "cd" * 6)
    assert find_refusal(one, replace(one, cell_id="alexnet")) == Refusal("cell", "resnet50", "alexnet")
    comparison = compare({"x": one}, {"x": replace(one, protocol=2, step_us=1)})
    assert (comparison.ratio, comparison.interval, comparison.count, comparison.total) == (None, None, 0, 1)
    assert say_refusal(comparison.refused["x"]) == "not comparable: protocol 1 and 2"
    assert say_comparison(comparison) == "0 of 1 cells can be compared"


def test_differences_of_the_pairs_are_counted() -> None:
    left = {i: measured(100, driver="550", kernel="6.1") for i in range(4)}
    right = {i: measured(100, driver="555", kernel="6.2" if i == 0 else "6.1") for i in range(4)}
    differences = compare(left, right).differences
    assert differences == {Difference("driver", "550", "555"): 4, Difference("kernel", "6.1", "6.2"): 1}
    assert next(iter(differences)).field == "driver"


def test_a_cell_is_read_as_it_was_measured() -> None:
    (cell,) = make_cells("cpu", 1)
    auto = cell.model_copy(update={"batch_size": 0})
    plan = make_plan({"a": (cell,), "b": (auto,), "c": (cell,)})
    ok, open_size = (make_outcome(host, plan, Ending(rate=320)).cells[0] for host in plan.hosts[:2])
    found = read_measured(ok, {})
    assert found is not None
    assert found.cell_id == cell.id
    assert found.step_us == pytest.approx(100_000)  # 32 images in a tenth of a second
    assert read_measured(open_size, {}) is not None
    failed = make_outcome(plan.hosts[2], plan, Ending(words={0: (CellStatus.OOM, "oom")})).cells[0]
    assert read_measured(failed, {}) is None


def test_a_fingerprint_says_what_is_known_of_a_host() -> None:
    plan = make_plan({"a": make_cells("gpu", 1)})
    facts = make_facts(gpu="NVIDIA A100", gpus=2)
    first, second = facts.gpus
    gpus = (
        first.model_copy(update={"power_limit_w": 400.0, "ecc": "Enabled"}),
        second.model_copy(update={"power_limit_w": 230.0, "ecc": "Enabled"}),
    )
    outcome = make_outcome(plan.hosts[0], plan, Ending(facts=facts.model_copy(update={"gpus": gpus})))
    assert outcome.software is not None
    software = outcome.software.model_copy(update={"environment": {"TF_XLA_FLAGS": "--x"}})
    settings = plan.hosts[0].settings.model_copy(update={"runtime_args": ("--cpus", "0.5"), "ipc": "private"})
    host = plan.hosts[0].model_copy(update={"settings": settings})
    outcome = outcome.model_copy(update={"software": software, "cpus_usable": 1, "cpu_quota": 0.5})
    found = read_fingerprint(outcome, plan, host)
    assert found["gpus"] == "2 × NVIDIA A100"
    assert found["power limit"] == "400 W + 230 W"
    assert (found["ecc"], found["driver"], found["image digest"]) == ("Enabled", "570.86.10", DIGEST)
    assert (found["tensorflow"], found["memory"], found["$TF_XLA_FLAGS"]) == ("2.17.0", "252 GiB", "--x")
    assert (found["fleet_runtime_args"], found["fleet_ipc"], found["fleet_devices"]) == ("--cpus 0.5", "private", "all")
    assert (found["fleet_ulimits"], found["fleet_python"]) == ("memlock=-1 stack=67108864", "none")
    assert (found["steps"], found["numa_node"], found["compat"], found["processors"]) == ("100", "none", "false", "0.5")
    assert "kernel" not in found  # the probe said nothing of it
    assert read_fingerprint(outcome.model_copy(update={"facts": None, "software": None}), plan, host) == {}


def test_only_what_both_sides_know_can_differ() -> None:
    left = {"driver": "550", "tensorflow": "2.17", "kernel": "6.1", "$TF_A": "1", "power limit": "400 W"}
    right = {"driver": "555", "tensorflow": "2.17", "$TF_B": "1", "power limit": "230 W"}
    assert diff_fingerprints(left, right) == (
        Difference("power limit", "400 W", "230 W"),
        Difference("driver", "550", "555"),
        Difference("$TF_A", "1", "unset"),
        Difference("$TF_B", "unset", "1"),
    )
    assert diff_fingerprints(left, {"driver": "550"}) == ()


def test_the_first_suspect_changed_where_it_got_slow_and_nowhere_else() -> None:
    driver, kernel = Difference("driver", "550", "555"), Difference("kernel", "6.1", "6.2")
    image = Difference("image digest", "a", "b")
    changed = {"a": [driver, kernel], "b": [driver, kernel], "c": [driver], "d": [driver], "e": [image]}
    suspects = find_suspects(changed, frozenset({"a", "b"}))
    assert suspects == (Suspect(kernel, ("a", "b"), ()), Suspect(driver, ("a", "b"), ("c", "d")))
    # Where both changed alike the order of suspicion decides.
    assert [s.difference for s in find_suspects({"a": [kernel, driver]}, frozenset({"a"}))] == [driver, kernel]
    assert find_suspects({"e": [image]}, frozenset({"a"})) == ()


CELL = Finding(
    Subject(Level.CELL, "gpu01", "resnet50"), SeriesVerdict.WORSE, Kind.STEP, 0.066, 0.03, 0.0161, 1, frozenset()
)


def test_findings_are_told_in_words() -> None:
    assert say_finding(CELL) == "slower: 4.1 MAD and −6.2 %, confirmed by a second run"
    assert say_finding(CELL, confirmed=False).endswith("−6.2 %, not confirmed: there was no second run")
    faster = replace(CELL, verdict=SeriesVerdict.BETTER, change=-0.2)
    assert say_finding(faster) == "faster: 12.4 MAD and +25.0 %, confirmed by a second run"
    drift = replace(CELL, kind=Kind.DRIFT)
    assert say_finding(drift) == "slower: −6.2 % from the pinned level over three runs, confirmed by a second run"
    host = replace(CELL, subject=Subject(Level.HOST, "gpu01"))
    assert say_finding(host) == "slower: 4.1 MAD and −6.2 %, the median of many"
    assert say_finding(replace(CELL, verdict=SeriesVerdict.SAME)) == "same"
    assert (say_change(2.0), say_change(-0.5), say_change(0.0)) == ("−66.7 %", "+100 %", "+0.0 %")
    assert say_detectable(0.042) == "finds −4.0 %"


def test_one_line_for_what_moved_together() -> None:
    suspect = Suspect(Difference("driver", "550", "555"), ("gpu01",), ())
    cohort = replace(CELL, subject=Subject(Level.COHORT, "8 × A100", "resnet50"), change=0.0101)
    assert say_told(Told(cohort), 50, suspect) == "driver 550 → 555: resnet50 −1.0 % on 50 hosts"
    more = [replace(cohort, subject=Subject(Level.COHORT, "8 × A100", name)) for name in ("vgg16", "alexnet")]
    assert say_told(Told(cohort, (CELL, *more)), 50) == "resnet50 −1.0 % and 2 more cells on 50 hosts"
    host = replace(CELL, subject=Subject(Level.HOST, "gpu01"))
    assert say_told(Told(host), 1) == "gpu01 −6.2 % in all cells"
    assert say_told(Told(CELL), 1, suspect) == "driver 550 → 555: gpu01 resnet50 −6.2 %"


def test_a_comparison_in_words() -> None:
    left = {i: measured(100, str(i)) for i in range(4)}
    right = {i: measured(50, str(i)) for i in range(3)}
    assert say_comparison(compare(left, right)) == "2 times as fast (2 to 2), from 3 of 4 cells"
    assert say_comparison(compare(left, {0: measured(80, "0")})) == "1.25 times as fast, from 1 of 4 cells"
    apart = say_comparison(compare(left, {0: measured(50, "0"), 1: measured(200, "1")}))
    assert apart == "1 times as fast, from 2 of 4 cells, and its cells do not agree"
