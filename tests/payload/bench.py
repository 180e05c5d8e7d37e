"""Runs the payload as a process of its own, as a host does, and reads what it wrote."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fleet.model.result import CellResult, SystemResult
from fleet.model.suite import Cell, Rules

ROOT = Path(__file__).parents[2]
IDENTITY = {
    "run_id": "20261201T023000Z-k3x9",
    "job_id": "20261201T023000Z-k3x9-1",
    "alias": "gpu01",
    "payload_sha256": "ab" * 32,
}

QUICK = Rules(warmup_steps=1, steps=3, max_s=20, cell_timeout_s=120)
"""Rules for tests that want a result and not a good number."""

FAST = Cell(model="alexnet_conv", phase="forward", batch_size=1)
"""The cell that takes the least."""

TOO_MANY = 800_000
"""Images of that cell that are 482 GB: far above `limit_memory`, with which TensorFlow itself gets along."""


def write_spec(
    directory: Path, cells: Sequence[Cell], rules: Rules = QUICK, changes: Mapping[str, Any] | None = None
) -> Path:
    """`spec.json` as the controller writes it; `changes` replaces whole keys."""
    spec = {
        "schema": "fleet.spec/1",
        **IDENTITY,
        "rules": rules.model_dump(),
        "cells": [cell.model_dump() for cell in cells],
        **(changes or {}),
    }
    path = directory / "spec.json"
    path.write_text(json.dumps(spec))
    return path


def make_argv(*args: str | Path, payload: Sequence[str | Path] = (sys.executable, "-m", "payload")) -> list[str]:
    return [str(word) for word in (*payload, *args)]


def run_payload(
    *args: str | Path,
    env: Mapping[str, str] | None = None,
    payload: Sequence[str | Path] = (sys.executable, "-m", "payload"),
    preexec: Callable[[], None] | None = None,
    timeout_s: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run it to its end. `payload` is how to start it; `env` comes on top of ours."""
    return subprocess.run(
        make_argv(*args, payload=payload),
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        preexec_fn=preexec,
    )


def limit_memory() -> None:
    """In the process that is to become the payload: let it and its children have 64 GiB of address space each."""
    resource.setrlimit(resource.RLIMIT_AS, (64 << 30, 64 << 30))


def start_payload(spec: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        make_argv("run", spec, "--out", out), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_stage(out: Path, stage: str, index: int) -> None:
    """Until `progress.json` says that a cell is in this stage."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            progress = json.loads((out / "progress.json").read_text())
        except FileNotFoundError:
            progress = {}
        if (progress.get("index"), progress.get("stage")) == (index, stage):
            return
        time.sleep(0.02)
    raise AssertionError(f"cell {index} did not come to {stage}: {progress}")


def find_children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def read_cells(out: Path) -> list[CellResult]:
    """Every cell's document, checked against the controller's model and for keys that it does not know."""
    cells = []
    for path in sorted((out / "cells").iterdir()):
        document = json.loads(path.read_text())
        assert set(document) <= {field.alias or name for name, field in CellResult.model_fields.items()}
        cells.append(CellResult.model_validate(document))
    return cells


def read_system(out: Path) -> SystemResult:
    return SystemResult.model_validate_json((out / "system.json").read_text())
