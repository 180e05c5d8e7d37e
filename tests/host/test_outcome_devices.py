"""All GPUs of a host: how many they were is in the result, and whether they were as many as the inventory says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.host.outcome import build_outcome
from fleet.host.results import Expectation
from fleet.model.inventory import Settings
from fleet.model.result import HostOutcome
from fleet.model.suite import Cell
from tests.run_builder import RUN_ID, Ending, make_facts, make_outcome, make_plan

EVERY = Cell(model="resnet50", batch_size=32, device="gpu", devices=0, data_format="NCHW")
PLAN = make_plan({"gpu01": (EVERY,)})
EXECUTION = {"intra_threads": 1, "inter_threads": 6, "devices": 2}


def build(devices: object = "all", seen: int | None = 2, execution: dict[str, Any] | None = EXECUTION) -> HostOutcome:
    """The outcome of a host on which all went well."""
    host = PLAN.hosts[0].model_copy(update={"settings": Settings.model_validate({"devices": devices})})
    (cell,) = make_outcome(host, PLAN, Ending()).cells
    identity = {"payload_sha256": PLAN.payload_sha256, "run_id": RUN_ID, "job_id": host.job_id, "alias": "gpu01"}
    system = {"schema": "fleet.result/1", "kind": "host", "protocol": 1, "software": {}, "gpus_usable": seen}
    record = {"job_id": host.job_id, "stage": "run", "reason": "exited", "exit_status": 0}
    files = {
        "exit.json": {**record, "started_unix_s": 100, "finished_unix_s": 175},
        "system.json": {**system, **identity},
        "cells/000.json": {**cell.model_dump(mode="json", by_alias=True), "execution": execution},
    }
    documents = {name: json.dumps(document).encode() for name, document in files.items()}
    return build_outcome(Expectation(host, RUN_ID, PLAN.payload_sha256), documents, make_facts("A100"), None)


def test_the_cell_says_how_many_devices_it_was_measured_on() -> None:
    (cell,) = build().cells
    assert (cell.cell, cell.cell_id) == (EVERY, "resnet50/train/fp32/b32/gpuall/nchw")
    assert cell.measured == EVERY.model_copy(update={"devices": 2})


def test_a_number_without_the_devices_it_is_for_is_no_result() -> None:
    for execution in (None, {**EXECUTION, "devices": None}):
        outcome = build(execution=execution)
        assert (outcome.status, outcome.reason) == ("result_invalid", "document")
        assert "not on how many devices" in outcome.message


@pytest.mark.parametrize(
    ("devices", "seen", "status"),
    [("all", 2, "ok"), (2, 2, "ok"), (2, 3, "ok"), (["0", "1"], 2, "ok"), (4, None, "ok"), (4, 3, "partial")],
)
def test_a_host_with_fewer_gpus_than_the_inventory_says_does_not_pass(
    devices: object, seen: int | None, status: str
) -> None:
    outcome = build(devices, seen)
    assert outcome.status == status
    if status != "ok":
        assert outcome.reason == "gpus_missing"
        assert outcome.message == "TensorFlow sees 3 of the 4 GPUs that fleet_devices names"
        assert "nvidia-smi" in outcome.hint
