"""The payload on every TensorFlow and every Python that images come with, from 2.3.1 on 3.6 (NGC 20.10) on."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fleet.bundle import build_bundle
from fleet.model.result import CellResult
from fleet.model.suite import Cell
from payload.catalog import read_catalog
from tests.payload import bench, pairs
from tests.payload.zoo import choose

pytestmark = pytest.mark.long

MODELS_PER_PROCESS = 8
"""So that TensorFlow is not loaded for each, and the memory of the large ones is given back."""

PATIENT = bench.QUICK.model_copy(update={"cell_timeout_s": 1200})
"""TensorFlow starts anew for every cell, on machines with other work too."""

PRECISIONS = (
    Cell(model="resnet20_v2", batch_size=2),
    Cell(model="alexnet_conv", phase="forward_backward", batch_size=2),
    Cell(model="alexnet_conv", phase="forward", precision="fp16", batch_size=1),
    Cell(model="resnet50", precision="bf16", batch_size=2),
)
BFLOAT16_LACKS = {"2.3.1": "Reciprocal", "2.6.5": "Conv2D", "2.8.4": "Conv2D", "2.10.1": "Conv2D"}
"""The operation without which these do not train resnet50 in bfloat16, where oneDNN does not stand in."""

VARIANTS = (
    Cell(model="alexnet", xla=True, batch_size=1),
    Cell(model="alexnet", optimizer="adam", batch_size=1),
    Cell(model="alexnet", steps_per_call=2, batch_size=1),
    Cell(model="alexnet", devices=2, batch_size=1),
    Cell(model="alexnet", devices=2, variable_update="independent", batch_size=1),
)


@pytest.fixture(scope="module", params=pairs.PYTHONS)
def python(request: pytest.FixtureRequest) -> str:
    """An interpreter of every version."""
    try:
        return pairs.find_python(request.param)
    except pairs.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module", params=pairs.choose_pairs(), ids=str)
def pair(request: pytest.FixtureRequest) -> pairs.Pair:
    chosen: pairs.Pair = request.param
    return chosen


@pytest.fixture(scope="module")
def paired(pair: pairs.Pair) -> str:
    """An interpreter of the pair's Python that has the pair's TensorFlow."""
    try:
        return pairs.make_environment(pair)
    except pairs.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The payload as hosts get it."""
    path = tmp_path / "fleet-payload.pyz"
    path.write_bytes(build_bundle().data)
    return path


def test_every_file_compiles(python: str, tmp_path: Path) -> None:
    shutil.copytree(bench.ROOT / "payload", tmp_path / "payload", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [python, "-W", "error", "-m", "compileall", "-q", "-f", str(tmp_path / "payload")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_parent_runs(python: str, archive: Path, tmp_path: Path) -> None:
    done = bench.run_payload("models", payload=[python, archive], env=pairs.ALONE)
    assert "alexnet_conv" in done.stdout
    spec = bench.write_spec(tmp_path, [bench.FAST])
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", payload=[python, archive], env=pairs.ALONE)
    assert (done.returncode, done.stderr) == (0, "")
    (cell,) = bench.read_cells(tmp_path / "out")
    assert cell.status in {"crash", "ok"} and (cell.reason or "tensorflow_missing") == "tensorflow_missing"
    version = subprocess.run([python, "-c", "import platform; print(platform.python_version())"], capture_output=True)
    assert bench.read_system(tmp_path / "out").software.python == version.stdout.decode().strip()


@pytest.mark.timeout(10800)
def test_every_model_takes_a_step_of_every_phase(paired: str, archive: Path) -> None:
    catalog = read_catalog()
    models = choose(catalog)
    verdicts: dict[tuple[str, str], str] = {}
    for i in range(0, len(models), MODELS_PER_PROCESS):
        verdicts.update(take_steps(paired, archive, models[i : i + MODELS_PER_PROCESS]))
    assert verdicts == {(model, phase): "ok" for model in models for phase in catalog[model]["phases"]}


def take_steps(python: str, archive: Path, models: list[str]) -> dict[tuple[str, str], str]:
    """`ok`, or what is wrong, for every model and phase that there is an answer for."""
    script = bench.ROOT / "tests" / "payload" / "steps.py"
    env = {**os.environ, "PYTHONPATH": str(archive), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run([python, script, *models], env=env, stdout=subprocess.PIPE, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {(answer["model"], answer["phase"]): judge(answer) for answer in answers}


def judge(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return str(answer["error"])
    if answer["phase"] == "train":
        return "ok" if math.isfinite(answer["loss"]) and answer["updated"] else str(answer)
    return "ok" if answer["shapes"] else str(answer)


@pytest.mark.timeout(1800)
def test_the_archive_measures_in_every_precision_there_is(pair: pairs.Pair, paired: str, archive: Path) -> None:
    *cells, bfloat16 = measure(paired, archive, PRECISIONS)
    assert [(c.status, c.message) for c in cells] == [("ok", None)] * len(cells)
    lacking = BFLOAT16_LACKS.get(pair.tensorflow)
    if bfloat16.status != "ok":
        assert (bfloat16.status, bfloat16.reason, bfloat16.failed) == ("unsupported", "no_kernel", False)
        assert lacking is not None and lacking in (bfloat16.message or "")
    software = bench.read_system(archive.parent / "out").software
    assert (software.tensorflow, (software.python or "").rpartition(".")[0]) == pair


@pytest.mark.timeout(1800)
def test_the_archive_measures_every_variant(paired: str, archive: Path) -> None:
    cells = measure(paired, archive, VARIANTS)
    assert [(c.status, c.message) for c in cells] == [("ok", None)] * len(VARIANTS)


def measure(python: str, archive: Path, planned: Sequence[Cell]) -> list[CellResult]:
    """The cells as a host measures them; the documents are beside the archive, in `out`."""
    spec, out = bench.write_spec(archive.parent, planned, PATIENT), archive.parent / "out"
    done = bench.run_payload("run", spec, "--out", out, payload=[python, archive], env=pairs.ALONE, timeout_s=1700)
    assert (done.returncode, done.stderr) == (0, "")
    return bench.read_cells(out)
