"""Every way the files of a job can lie."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.host.outcome import build_outcome
from fleet.host.results import Expectation
from fleet.model.result import CellResult
from fleet.model.result import HostStatus as H
from fleet.model.result import Stage as S
from tests.host.job_files import CELLS, GOOD, build, cell, exit_record, system
from tests.run_builder import RUN_ID, make_facts, make_outcome, make_plan
from tests.run_builder import Ending as Built

INVALID: dict[str, tuple[dict[str, bytes | None], str]] = {
    "no_exit_record": ({"exit.json": None}, "exit.json is missing"),
    "empty_exit_record": ({"exit.json": b""}, "exit.json cannot be read: empty"),
    "foreign_exit_record": ({"exit.json": exit_record(job_id="another")}, "exit.json is of another job"),
    "unknown_reason": ({"exit.json": exit_record("bored")}, "exit.json cannot be read: reason"),
    "unknown_stage": ({"exit.json": exit_record(stage="nowhere")}, "exit.json cannot be read: stage"),
    "no_system": ({"system.json": None}, "system.json is missing"),
    "damaged_system": ({"system.json": system()[:-9]}, "system.json cannot be read"),
    "foreign_system": ({"system.json": system(job_id="another")}, "system.json is of another job"),
    "damaged": ({"cells/001.json": cell(1)[:100]}, "cells/001.json cannot be read"),
    "nan": ({"cells/001.json": cell(1, duration_s=float("nan"))}, "cells/001.json cannot be read: NaN"),
    "wrong_type": ({"cells/001.json": cell(1, duration_s="10")}, "cells/001.json cannot be read: duration_s"),
    "other_schema": ({"cells/001.json": cell(1, schema="fleet.result/2")}, "cells/001.json cannot be read: schema"),
    "unknown_status": ({"cells/001.json": cell(1, status="fine")}, "cells/001.json cannot be read: status"),
    "swapped": ({"cells/001.json": cell(0)}, "cells/001.json: it is of another job or cell"),
    "other_run": ({"cells/001.json": cell(1, run_id="20250101T000000Z-aaaa")}, "another job or cell"),
    "other_host": ({"cells/001.json": cell(1, alias="gpu02")}, "another job or cell"),
    "other_payload": ({"cells/001.json": cell(1, payload_sha256="00" * 32)}, "another job or cell"),
    "ok_without_timing": ({"cells/001.json": cell(1, timing=None)}, "says ok and has no timing"),
    "ok_with_nothing": (
        {"cells/001.json": cell(1, throughput={"images_per_s": 0, "images_per_s_total": 0})},
        "says ok and has no throughput",
    ),
    "several": ({"cells/000.json": b"x", "cells/001.json": b"y"}, "(and 1 more)"),
    "escapes": ({"cells/001.json": cell(1, status="\x1b[2J")}, "cells/001.json cannot be read"),
}


@pytest.mark.parametrize("name", INVALID)
def test_files_that_are_not_what_they_should_be(name: str) -> None:
    files, says = INVALID[name]

    outcome = build(files)

    assert (outcome.status, outcome.stage) == (H.RESULT_INVALID, S.COLLECT)
    assert says in outcome.message
    assert "\x1b" not in outcome.message
    assert outcome.reason == ("exit_record" if "exit.json" in files else "document")
    assert "run's directory" in outcome.hint
    assert len(outcome.cells) == 2
    for place in range(2):
        replaced = f"cells/{place:03d}.json" in files
        assert outcome.cells[place].status == ("lost" if replaced else "ok")
        assert outcome.cells[place].reason == ("document_invalid" if replaced else None)


def test_an_open_batch_size_is_ok_only_with_what_was_found() -> None:
    plan = make_plan({"gpu01": (CELLS[0].model_copy(update={"batch_size": 0}),)})
    (host,) = plan.hosts
    expected = Expectation(host, RUN_ID, plan.payload_sha256)
    document = make_outcome(host, plan, Built()).cells[0].model_dump(mode="json")

    def read(search: dict[str, Any] | None) -> CellResult:
        data = json.dumps({**document, "batch_search": search}).encode()
        (result,) = build_outcome(expected, {**GOOD, "cells/000.json": data}, make_facts(), None).cells
        return result

    found = read({"batch_size": 96, "fails": 104, "where": "device", "attempts": 7})
    assert found.status == "ok" and found.batch_search and found.batch_search.batch_size == 96
    for search in (None, {"batch_size": None, "fails": 1, "where": "device", "attempts": 6}):
        assert (read(search).status, read(search).reason) == ("lost", "document_invalid")


HUGE = 1.79e308
IMPLAUSIBLE: dict[str, tuple[str, dict[str, Any], str]] = {
    "rate": ("throughput", {"images_per_s": HUGE}, "images_per_s is 1.79e+308"),
    "total rate": ("throughput", {"images_per_s_total": 0.0}, "images_per_s_total is 0"),
    "device rate": ("throughput", {"images_per_s_per_device": -1.0}, "images_per_s_per_device is -1"),
    "spread": ("timing", {"mad_us": 1.7e308}, "mad_us is 1.7e+308"),
    "negative spread": ("timing", {"mad_us": -1.0}, "mad_us is -1"),
    "negative deviation": ("timing", {"sd_us": -0.5}, "sd_us is -0.5"),
    "median of nothing": ("timing", {"quantiles_us": {"p50": 5e-324}}, "quantiles_us.p50 is"),
    "no median": ("timing", {"quantiles_us": {"p05": 100.0}}, "quantiles_us.p50 is 0"),
    "falling": ("timing", {"quantiles_us": {"p50": 100.0, "p95": 99.0}}, "quantiles_us do not rise"),
    "interval": ("timing", {"ci95_us": [200.0, 100.0]}, "ci95_us do not rise"),
    "drift": ("timing", {"halves_ratio": 0.0}, "halves_ratio is 0"),
    "duration": ("timing", {"total_s": -1.0}, "total_s is -1"),
    "steps": ("timing", {"steps": 1 << 62}, "steps is 4.61"),
}


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_figures_that_nothing_can_have_measured_cost_their_cell(name: str) -> None:
    part, changes, said = IMPLAUSIBLE[name]
    document = json.loads(cell(0))
    outcome = build({"cells/000.json": cell(0, **{part: {**document[part], **changes}})})

    assert (outcome.status, outcome.reason) == (H.RESULT_INVALID, "document")
    assert said in outcome.message
    assert [c.status for c in outcome.cells] == ["lost", "ok"]
