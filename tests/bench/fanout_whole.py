"""`fleet run` as its users have it, on a payload that ends at once.

A stand-in takes the place of the hosts' Python with TensorFlow: it measures nothing and writes the two documents that
fleet expects, so that all of fleet runs to its good end.
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

from fleet.model.suite import Cell
from tests.bench.fanout_work import RESULT_BYTES, Work
from tests.run_builder import Ending, make_outcome, make_plan

IDS = ("run_id", "job_id", "alias", "payload_sha256")

# Called as the payload is: PYTHON PAYLOAD run SPEC --out OUT. The identifiers in the documents come from the spec.
_STAND_IN = """#!/bin/sh
case $1 in --version) echo Python 3.12.0; exit ;; -c) echo True; exit ;; esac
changes=$(sed -n 's/.*"run_id": "\\([^"]*\\)", "job_id": "\\([^"]*\\)", "alias": "\\([^"]*\\)", \
"payload_sha256": "\\([^"]*\\)".*/s,@run_id@,\\1,;s,@job_id@,\\2,;s,@alias@,\\3,;s,@payload_sha256@,\\4,/p' "$3")
mkdir -p "$5/cells"
sed "$changes" {folder}/cell.json >"$5/cells/000.json"
sed "$changes" {folder}/system.json >"$5/system.json"
"""


def build_whole(work: Work, _programs: Path) -> list[str]:
    """The command line of `fleet run`; writes its inventory, its suite and the stand-in."""
    cell = Cell(model="alexnet", batch_size=8)
    plan = make_plan({"here": (cell,)})
    document = make_outcome(plan.hosts[0], plan, Ending()).cells[0].model_dump(mode="json")
    names = {name: f"@{name}@" for name in IDS}
    document.update(names, log_tail="")
    document["log_tail"] = "x" * (RESULT_BYTES - len(json.dumps(document)))
    work.write("cell.json", json.dumps(document))
    system = {"schema": "fleet.result/1", "kind": "host", "protocol": 1, "software": {"tensorflow": "2.17.0"}}
    work.write("system.json", json.dumps({**system, **names}))
    work.write("python", _STAND_IN.format(folder=work.folder)).chmod(0o755)
    settings = {
        "ansible_port": work.hosts.port,
        "ansible_user": work.hosts.user,
        "ansible_ssh_private_key_file": str(work.hosts.key),
        "ansible_ssh_common_args": f"-F {work.hosts.ssh_config}",
        "fleet_runtime": "native",
        "fleet_devices": "cpu",
        "fleet_python": str(work.folder / "python"),
        # A new one, so that the payload is not there yet.
        "fleet_workdir": f"~/fleet-{secrets.token_hex(4)}",
    }
    hosts: dict[str, object] = {address: {} for address in work.hosts.addresses}
    inventory = work.write("lab.yaml", json.dumps({"all": {"vars": settings, "hosts": hosts}}))
    cells = [{"models": [cell.model], "batch_sizes": [cell.batch_size], "on": ["cpu"]}]
    suite = work.write("suite.yaml", json.dumps({"name": "bench", "cells": cells}))
    options = ["--inventory", str(inventory), "--suite", str(suite), "--forks", str(work.forks)]
    return [sys.executable, "-m", "fleet", "run", *options, "--reports", str(work.folder / "reports")]


def count_measured(work: Work) -> int:
    """Hosts that fleet calls ok."""
    summary = work.folder / "reports" / "latest" / "run.json"
    statuses = json.loads(summary.read_text())["hosts"] if summary.exists() else {}
    return list(statuses.values()).count("ok")
