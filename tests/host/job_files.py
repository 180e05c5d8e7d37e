"""The files that a job leaves behind, good or changed, and the outcome that is read from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fleet.host.outcome import Ending, build_outcome
from fleet.host.results import Expectation
from fleet.model.facts import HostFacts
from fleet.model.result import HostOutcome
from tests.run_builder import DIGEST, RUN_ID, make_cells, make_facts, make_outcome, make_plan
from tests.run_builder import Ending as Built

CELLS = make_cells(count=2)
PLAN = make_plan({"gpu01": CELLS})
HOST = PLAN.hosts[0]
IMAGE_ID = "sha256:" + "ee" * 32


def cell(place: int, **changes: Any) -> bytes:
    """The document of a planned cell that is ok, but for these changes."""
    document = make_outcome(HOST, PLAN, Built()).cells[place].model_dump(mode="json")
    return json.dumps({**document, **changes}).encode()


def failed(place: int, status: str, reason: str | None = None, message: str | None = None) -> bytes:
    return cell(place, status=status, reason=reason, message=message, timing=None, throughput=None)


def system(**changes: Any) -> bytes:
    document = {
        "schema": "fleet.result/1",
        "kind": "host",
        "protocol": 1,
        "payload_sha256": PLAN.payload_sha256,
        "run_id": RUN_ID,
        "job_id": HOST.job_id,
        "alias": "gpu01",
        "software": {"tensorflow": "2.17.0", "python": "3.12.3"},
    }
    return json.dumps({**document, **changes}).encode()


def exit_record(reason: str = "exited", status: int | None = 0, stage: str = "run", **changes: Any) -> bytes:
    record = {"job_id": HOST.job_id, "stage": stage, "reason": reason, "exit_status": status}
    return json.dumps({**record, "started_unix_s": 100, "finished_unix_s": 175, **changes}).encode()


GOOD = {
    "exit.json": exit_record(),
    "system.json": system(),
    "cells/000.json": cell(0),
    "cells/001.json": cell(1),
    "image.json": json.dumps({"id": IMAGE_ID, "repo_digests": [f"nvcr.io/nvidia/tensorflow@{DIGEST}"]}).encode(),
    "container.json": b'{"OOMKilled": false, "Error": "", "Status": "exited"}',
    "log": b"== TensorFlow ==\nAll done.\n",
}


def build(
    files: Mapping[str, bytes | None] | None = None, ending: Ending | None = None, facts: HostFacts | None = None
) -> HostOutcome:
    """The outcome of a good job, but for these files; None takes one away."""
    expected = Expectation(HOST, RUN_ID, PLAN.payload_sha256)
    changed = {name: data for name, data in {**GOOD, **(files or {})}.items() if data is not None}
    return build_outcome(expected, changed, facts or make_facts(), ending)
