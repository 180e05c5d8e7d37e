"""The oldest image there is: Python 3.6 with TensorFlow 2.3.1 (NGC 20.10)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.bundle import build_bundle
from fleet.model.suite import Cell
from tests.payload import bench

CACHE = bench.ROOT / ".cache" / "tensorflow-2.3.1-python3.6"
PINS = ("tensorflow==2.3.1", "protobuf<3.20", "numpy<1.19")


@pytest.fixture(scope="module")
def python36() -> str:
    """A Python 3.6 that runs: on PATH, or one of pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which("python3.6"), *map(str, sorted(root.glob("versions/3.6.*/bin/python3.6")))]
    for python in filter(None, found):
        if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            return python
    pytest.skip("python3.6: not found on PATH nor among pyenv's versions")


@pytest.fixture(scope="module")
def tensorflow23(python36: str) -> str:
    """An interpreter with TensorFlow 2.3.1, made once and kept."""
    python = CACHE / "bin" / "python"
    if not (CACHE / "complete").exists():
        shutil.rmtree(CACHE, ignore_errors=True)
        subprocess.run([python36, "-m", "venv", str(CACHE)], check=True)
        # The pip that comes with Python 3.6 does not know the wheels' platform.
        for packages in (("pip==21.3.1",), PINS):
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True, env=_clean_env())
        (CACHE / "complete").touch()
    return str(python)


def test_every_file_is_python_3_6(python36: str, tmp_path: Path) -> None:
    shutil.copytree(bench.ROOT / "payload", tmp_path / "payload", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [python36, "-W", "error", "-m", "compileall", "-q", "-f", str(tmp_path / "payload")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_parent_runs_on_python_3_6(python36: str, tmp_path: Path) -> None:
    archive = tmp_path / "fleet-payload.pyz"
    archive.write_bytes(build_bundle().data)
    assert "alexnet_conv" in bench.run_payload("models", payload=[python36, archive]).stdout
    spec = bench.write_spec(tmp_path, [bench.FAST])
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", payload=[python36, archive])
    assert (done.returncode, done.stderr) == (0, "")
    (cell,) = bench.read_cells(tmp_path / "out")
    assert cell.status in {"crash", "ok"} and (cell.reason or "tensorflow_missing") == "tensorflow_missing"
    assert (bench.read_system(tmp_path / "out").software.python or "").startswith("3.6.")


@pytest.mark.timeout(1200)
@pytest.mark.needs("tensorflow")
def test_the_oldest_tensorflow_measures_every_kind_of_model(tensorflow23: str, tmp_path: Path) -> None:
    archive = tmp_path / "fleet-payload.pyz"
    archive.write_bytes(build_bundle().data)
    planned = [
        Cell(model="resnet50", phase="train", batch_size=2),
        Cell(model="resnet50", phase="forward", batch_size=2),
        Cell(model="alexnet", phase="train", batch_size=2),
        Cell(model="alexnet_conv", phase="forward_backward", batch_size=2),
        Cell(model="lenet", phase="train", batch_size=2),
        Cell(model="resnet20_v2", phase="train", batch_size=2),
        Cell(model="densenet40_k12", phase="train", batch_size=2),
        Cell(model="mobilenet", phase="train", batch_size=2),
        Cell(model="nasnet_cifar10", phase="forward", batch_size=2),
        Cell(model="vgg11_lrn", phase="forward", precision="fp16", batch_size=1),
        Cell(model="bert_base_128", phase="train", batch_size=1),
        Cell(model="alexnet_conv", phase="forward", precision="fp16", batch_size=1),
    ]
    spec = bench.write_spec(tmp_path, planned)
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", payload=[tensorflow23, archive], env=_clean_env())
    assert (done.returncode, done.stderr) == (0, "")
    cells = bench.read_cells(tmp_path / "out")
    assert [(c.status, c.reason, c.message) for c in cells] == [("ok", None, None)] * len(planned)
    software = bench.read_system(tmp_path / "out").software
    assert (software.tensorflow, (software.python or "")[:3]) == ("2.3.1", "3.6")


@pytest.mark.timeout(1200)
@pytest.mark.needs("tensorflow")
def test_the_oldest_tensorflow_has_all_but_bfloat16(tensorflow23: str, tmp_path: Path) -> None:
    archive = tmp_path / "fleet-payload.pyz"
    archive.write_bytes(build_bundle().data)
    planned = [
        Cell(model="resnet50", precision="bf16", batch_size=2),
        Cell(model="alexnet", xla=True, batch_size=1),
        Cell(model="alexnet", optimizer="adam", batch_size=1),
        Cell(model="alexnet", steps_per_call=2, batch_size=1),
        Cell(model="alexnet", devices=2, batch_size=1),
        Cell(model="alexnet", devices=2, variable_update="independent", batch_size=1),
    ]
    spec = bench.write_spec(tmp_path, planned)
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", payload=[tensorflow23, archive], env=_clean_env())
    assert (done.returncode, done.stderr) == (0, "")
    refused, *cells = bench.read_cells(tmp_path / "out")
    assert (refused.status, refused.reason, refused.failed) == ("unsupported", "no_kernel", False)
    assert "Reciprocal" in (refused.message or "")
    assert [(c.status, c.message) for c in cells] == [("ok", None)] * len(cells)


def _clean_env() -> dict[str, str]:
    """Nothing of this interpreter's environment that another one would stumble over."""
    return {**os.environ, "PYTHONPATH": "", "VIRTUAL_ENV": sys.prefix}
