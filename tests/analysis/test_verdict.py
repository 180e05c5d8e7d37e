"""What a run comes to."""

from __future__ import annotations

import pytest

from fleet.analysis.verdict import NO_OUTCOME, judge
from fleet.errors import ExitCode
from fleet.model.result import CellStatus, HostOutcome, HostStatus, Stage
from tests.run_builder import Ending, make_cells, make_facts, make_outcome, make_plan

CELLS = make_cells("gpu", 3)
OK = Ending()
REFUSED = Ending(status=HostStatus.UNREACHABLE, stage=Stage.CONNECT, reason="refused", message="Nobody listens.")
BROKEN = Ending(status=HostStatus.PREFLIGHT_FAILED, stage=Stage.PROBE, reason="docker_missing", message="No docker.")
BUSY = Ending(status=HostStatus.BUSY, stage=Stage.LAUNCH, reason="host_busy", message="Ada measures.")


def cell_word(status: CellStatus, reason: str, host: HostStatus = HostStatus.OK) -> Ending:
    return Ending(status=host, words={1: (status, reason)})


@pytest.mark.parametrize(
    ("endings", "code", "hosts_ok", "cells_ok", "failed"),
    [
        ([OK, OK], ExitCode.OK, 2, 6, []),
        ([OK, cell_word(CellStatus.OOM, "oom")], ExitCode.OK, 2, 5, []),
        ([OK, cell_word(CellStatus.UNSUPPORTED, "bf16")], ExitCode.OK, 2, 5, []),
        ([OK, cell_word(CellStatus.SKIPPED, "")], ExitCode.OK, 2, 5, []),
        ([OK, cell_word(CellStatus.UNSUPPORTED, "no_gpu", HostStatus.PARTIAL)], ExitCode.FAILED, 1, 5, ["unsupported"]),
        ([OK, cell_word(CellStatus.CRASH, "signal", HostStatus.PARTIAL)], ExitCode.FAILED, 1, 5, ["crash"]),
        ([OK, cell_word(CellStatus.LOST, "", HostStatus.PARTIAL)], ExitCode.FAILED, 1, 5, ["lost"]),
        ([OK, REFUSED], ExitCode.UNREACHABLE, 1, 3, ["unreachable"]),
        ([BROKEN, REFUSED], ExitCode.NOTHING, 0, 0, ["preflight_failed", "unreachable"]),
        ([OK, BROKEN, REFUSED], ExitCode.FAILED, 1, 3, ["preflight_failed", "unreachable"]),
        ([BUSY, BUSY], ExitCode.FAILED, 0, 0, ["busy", "busy"]),
        ([BUSY, REFUSED], ExitCode.NOTHING, 0, 0, ["busy", "unreachable"]),
        ([OK, None], ExitCode.FAILED, 1, 3, [NO_OUTCOME]),
    ],
)
def test_verdict(endings: list[Ending | None], code: ExitCode, hosts_ok: int, cells_ok: int, failed: list[str]) -> None:
    plan = make_plan({f"h{i}": CELLS for i in range(len(endings))})
    outcomes = {host.alias: make_outcome(host, plan, end) for host, end in zip(plan.hosts, endings, strict=True) if end}
    verdict = judge(plan, outcomes)
    assert (verdict.exit_code, verdict.hosts_ok, verdict.cells_ok) == (code, hosts_ok, cells_ok)
    assert (verdict.hosts_total, verdict.cells_total) == (len(endings), 3 * len(endings))
    assert [failure.status for failure in verdict.failures] == failed
    assert judge(plan, outcomes, interrupted=True).exit_code is ExitCode.INTERRUPTED


def test_a_failed_host_is_one_failure_and_explains_the_cells_it_lost() -> None:
    plan = make_plan({"h0": CELLS})
    host = plan.hosts[0]
    words = {0: (CellStatus.TIMEOUT, "cell_timeout"), 1: (CellStatus.LOST, ""), 2: (CellStatus.LOST, "")}
    partial = make_outcome(host, plan, Ending(status=HostStatus.PARTIAL, words=words))
    outcome = partial.model_copy(update={"status": HostStatus.TIMED_OUT, "stage": Stage.RUN})
    failures = judge(plan, {"h0": outcome}).failures
    assert [(failure.status, failure.cell_id) for failure in failures] == [
        ("timed_out", None),
        ("timeout", CELLS[0].id),
    ]


def test_a_cell_that_failed_says_where_its_output_is() -> None:
    plan = make_plan({"h0": CELLS})
    crash = cell_word(CellStatus.CRASH, "exception", HostStatus.PARTIAL)
    outcome = make_outcome(plan.hosts[0], plan, crash)
    assert [failure.hint for failure in judge(plan, {"h0": outcome}).failures] == [""]
    talked = outcome.cells[1].model_copy(update={"log_tail": "Traceback"})
    told = outcome.model_copy(update={"cells": (outcome.cells[0], talked, outcome.cells[2])})
    (failure,) = judge(plan, {"h0": told}).failures
    assert "`log_tail` in hosts/HOST/cells/001.json " in failure.hint


def test_a_missing_gpu_of_a_host_that_shows_none_may_be_the_inventorys_mistake() -> None:
    plan = make_plan({"h0": CELLS})
    for gpu, said in (("", "For a host without GPUs set fleet_devices: cpu."), ("NVIDIA A100", "")):
        ending = Ending(status=HostStatus.PARTIAL, words={1: (CellStatus.UNSUPPORTED, "no_gpu")}, facts=make_facts(gpu))
        (failure,) = judge(plan, {"h0": make_outcome(plan.hosts[0], plan, ending)}).failures
        assert failure.hint == said


def test_a_missing_document_is_never_passed_over() -> None:
    plan = make_plan({"h0": CELLS})
    whole = make_outcome(plan.hosts[0], plan, OK)
    short = whole.model_copy(update={"cells": whole.cells[:2]})
    verdict = judge(plan, {"h0": short})
    assert [(failure.status, failure.cell_id) for failure in verdict.failures] == [("lost", CELLS[2].id)]
    empty = whole.model_copy(
        update={"cells": (whole.cells[0].model_copy(update={"throughput": None}), *whole.cells[1:])}
    )
    verdict = judge(plan, {"h0": empty})
    assert (verdict.cells_ok, [failure.status for failure in verdict.failures]) == (2, ["invalid"])


def test_a_host_the_suite_has_nothing_for_is_no_failure() -> None:
    plan = make_plan({"h0": CELLS, "h1": ()})
    skipped = Ending(status=HostStatus.SKIPPED, stage=Stage.CONNECT, reason="no_cells")
    outcomes: dict[str, HostOutcome] = {
        host.alias: make_outcome(host, plan, end) for host, end in zip(plan.hosts, [OK, skipped], strict=True)
    }
    verdict = judge(plan, outcomes)
    assert (verdict.exit_code, verdict.hosts_skipped, verdict.failures) == (ExitCode.OK, 1, ())


def test_a_host_on_which_every_cell_failed_is_told_by_its_cells() -> None:
    plan = make_plan({"h0": CELLS})
    words = dict.fromkeys(range(3), (CellStatus.UNSUPPORTED, "no_gpu"))
    outcome = make_outcome(plan.hosts[0], plan, Ending(status=HostStatus.PARTIAL, words=words))
    failed = outcome.model_copy(update={"status": HostStatus.FAILED, "message": "3 of 3 cells failed"})
    verdict = judge(plan, {"h0": failed})
    assert [failure.cell_id for failure in verdict.failures] == [cell.id for cell in CELLS]
    assert verdict.exit_code is ExitCode.NOTHING
    ended = make_outcome(plan.hosts[0], plan, OK).model_copy(update={"status": HostStatus.FAILED, "message": "exit 1"})
    verdict = judge(plan, {"h0": ended})
    assert [(failure.message, failure.cell_id) for failure in verdict.failures] == [("exit 1", None)]
    assert verdict.exit_code is ExitCode.FAILED
