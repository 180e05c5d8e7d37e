"""What is not tried: a larger batch after an out-of-memory, and all GPUs where their number is measured as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from payload.cell import Cell, name_cell
from payload.sweep import Sweep, count_devices, judge_same
from tests.payload import bench

BASE = Cell("resnet50", "train", "fp32", 64, "gpu", 1, "NCHW", False)


def fail(*cells: Cell, reason: str = "device_memory") -> Sweep:
    sweep = Sweep()
    for cell in cells:
        sweep.note(cell, "oom", reason)
    return sweep


def test_a_larger_batch_of_the_same_is_skipped_and_names_the_one_that_failed() -> None:
    verdict = fail(BASE).judge(BASE._replace(batch_size=65))
    assert verdict and (verdict.status, verdict.reason) == ("skipped", "larger_than_oom")
    assert verdict.message == f"{name_cell(BASE)} did not fit into the device's memory, and this batch is larger."
    host = fail(BASE, reason="host_memory").judge(BASE._replace(batch_size=65))
    assert host and "the host's memory" in host.message


@pytest.mark.parametrize("size", [1, 63, 64])
def test_a_batch_that_is_not_larger_is_tried(size: int) -> None:
    assert fail(BASE).judge(BASE._replace(batch_size=size)) is None


@pytest.mark.parametrize(
    "other", [{"precision": "fp16"}, {"phase": "forward"}, {"devices": 2}, {"model": "alexnet"}, {"xla": True}]
)
def test_another_workload_is_tried(other: dict[str, Any]) -> None:
    assert fail(BASE).judge(BASE._replace(batch_size=512, **other)) is None


def test_the_smallest_that_failed_counts_whatever_the_order() -> None:
    for order in ((256, 128), (128, 256)):
        sweep = fail(*(BASE._replace(batch_size=size) for size in order))
        verdict = sweep.judge(BASE._replace(batch_size=200))
        assert verdict and "/b128/" in verdict.message


@pytest.mark.parametrize("status", ["ok", "crash", "timeout", "unsupported"])
def test_no_other_failure_skips_anything(status: str) -> None:
    sweep = Sweep()
    sweep.note(BASE, status, None)
    assert sweep.judge(BASE._replace(batch_size=512)) is None


def test_all_devices_are_as_many_as_there_are_and_one_where_there_are_none() -> None:
    every = BASE._replace(devices=0)
    assert name_cell(every) == "resnet50/train/fp32/b64/gpuall/nchw"
    assert [count_devices(every, gpus).devices for gpus in (0, 1, 4)] == [1, 1, 4]
    assert count_devices(BASE, 4) == BASE


def test_all_devices_are_skipped_where_their_number_is_measured_as_well() -> None:
    every, four = BASE._replace(devices=0), BASE._replace(devices=4)
    verdict = judge_same(every, four, [BASE, every, four])
    assert verdict and (verdict.status, verdict.reason) == ("skipped", "same_cell")
    assert verdict.message == f"All GPUs are 4 here, and {name_cell(four)} measures just that."
    assert judge_same(every, four, [BASE, every]) is None
    assert judge_same(four, four, [BASE, every, four]) is None


@pytest.mark.needs("tensorflow")
def test_in_a_job_the_rest_is_measured(tmp_path: Path) -> None:
    cells = [bench.FAST.model_copy(update={"batch_size": size}) for size in (bench.TOO_MANY, 900_000, 1)]
    spec = bench.write_spec(tmp_path, cells)
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", preexec=bench.limit_memory)
    assert (done.returncode, done.stderr) == (0, "")
    oom, skipped, ok = bench.read_cells(tmp_path / "out")
    assert (oom.status, oom.reason) == ("oom", "host_memory")
    assert (skipped.status, skipped.reason, skipped.stage, skipped.failed) == (
        "skipped",
        "larger_than_oom",
        "start",
        False,
    )
    assert oom.cell_id in (skipped.message or "") and skipped.duration_s < 1
    assert ok.status == "ok"
