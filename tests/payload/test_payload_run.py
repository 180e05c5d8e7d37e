"""A whole spec through the real thing: every document, every status that this machine can bring about."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from fleet.model.result import CellResult
from fleet.model.suite import Cell, Rules
from tests.payload import bench
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("tensorflow"), pytest.mark.long]

MEASURED = (
    Cell(model="resnet50", phase="train", batch_size=2),
    Cell(model="resnet50", phase="forward", batch_size=1),
    Cell(model="alexnet", phase="train", batch_size=2),
    Cell(model="alexnet_conv", phase="forward_backward", batch_size=2),
    Cell(model="alexnet_conv", phase="forward", precision="fp16", batch_size=1),
)

REFUSED = {
    Cell(model="alexnet", device="gpu", data_format="NCHW", batch_size=2): "no_gpu",
    Cell(model="alexnet", device="gpu", devices=2, batch_size=2): "no_gpu",
    Cell(model="alexnet", device="gpu", devices=0, batch_size=2): "no_gpu",
    Cell(model="alexnet", precision="tf32", batch_size=2): "precision_not_available",
    Cell(model="alexnet", phase="forward", optimizer="adam", batch_size=2): "optimizer_not_available",
    Cell(model="alexnet", variable_update="independent", batch_size=2): "variable_update_not_available",
    Cell(model="alexnet", devices=2, steps_per_call=2, batch_size=2): "steps_per_call_not_available",
    Cell(model="alexnet", data_format="NCHW", batch_size=2): "nchw_on_cpu",
    Cell(
        model="alexnet_conv", phase="forward", device="gpu", data_format="NCHW", batch_size=2
    ): "data_format_not_available",
    Cell(model="alexnet_conv", phase="train", batch_size=2): "phase_not_available",
    Cell(model="lenet9", batch_size=2): "unknown_model",
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("job")
    spec = bench.write_spec(directory, [*REFUSED, *MEASURED])
    done = bench.run_payload("run", spec, "--out", directory / "out", env={"TF_VAR_password": "secret"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return directory / "out"


@pytest.fixture(scope="module")
def cells(out: Path) -> list[CellResult]:
    return bench.read_cells(out)


def test_every_cell_has_its_document(out: Path, cells: list[CellResult]) -> None:
    planned = [*REFUSED, *MEASURED]
    assert [c.index for c in cells] == list(range(len(planned)))
    assert [c.cell for c in cells] == planned
    assert [c.cell_id for c in cells] == [c.id for c in planned]
    assert {(c.run_id, c.job_id, c.alias, c.payload_sha256) for c in cells} == {tuple(bench.IDENTITY.values())}
    names = sorted(p.name for p in out.rglob("*"))
    assert names == sorted([*(f"{i:03}.json" for i in range(len(planned))), "cells", "progress.json", "system.json"])
    total = len(planned)
    progress = {"index": None, "cell_id": None, "stage": "done", "done": total, "total": total}
    assert json.loads((out / "progress.json").read_text()) == {"schema": "fleet.progress/1", **progress}


def test_what_cannot_be_measured_is_refused_by_name(cells: list[CellResult]) -> None:
    refused = cells[: len(REFUSED)]
    assert [c.reason for c in refused] == list(REFUSED.values())
    assert all(c.status == "unsupported" and c.message and c.timing is None for c in refused)
    assert [c.failed for c in refused] == [True] * 3 + [False] * (len(REFUSED) - 3)
    assert all("tensorflow" in (c.log_tail or "").lower() and c.stage == "import" for c in refused[:3])


def test_what_is_measured_adds_up(cells: list[CellResult]) -> None:
    for cell in cells[len(REFUSED) :]:
        assert (cell.status, cell.stage, cell.log_tail, cell.device_name) == ("ok", "done", None, "CPU:0"), cell
        assert cell.timing and cell.throughput and cell.workload and cell.memory and cell.loss
        assert (cell.timing.steps, cell.timing.warmup_steps) == (3, 1)
        batch, timing = cell.cell.batch_size, cell.timing
        assert cell.throughput.images_per_s == pytest.approx(batch / timing.quantiles_us["p50"] * 1e6)
        assert cell.throughput.images_per_s_total == pytest.approx(batch * 3 / timing.total_s)
        assert timing.total_s >= timing.mean_us * 3 / 1e6 * 0.999
        assert (timing.dropped_steps, timing.ended_by) == (0, "rules")
        assert timing.cpu_s and 0 < timing.cpu_s < timing.total_s * (os.cpu_count() or 1) * 1.1 + 0.05
        assert timing.load1 and timing.load1 > 0
        assert cell.duration_s > timing.total_s + timing.warmup_s
        # The variables alone take more than their number times four bytes.
        assert cell.memory.peak_bytes and cell.memory.peak_bytes > 4 * cell.workload.parameters
        assert abs(time.time() - cell.started_unix_s) < 1000


def test_only_training_has_a_loss(cells: list[CellResult]) -> None:
    for cell in cells[len(REFUSED) :]:
        assert cell.loss
        if cell.cell.phase == "train":
            assert cell.loss.finite and cell.loss.first and cell.loss.last
        else:
            assert (cell.loss.first, cell.loss.last, cell.loss.finite) == (None, None, None)


def test_the_host_document_says_what_it_ran_on(out: Path) -> None:
    import tensorflow

    system = bench.read_system(out)
    assert system.software.tensorflow == tensorflow.__version__
    assert system.software.tensorflow_git == tensorflow.version.GIT_VERSION
    assert system.cpus_usable and 1 <= system.cpus_usable <= len(os.sched_getaffinity(0))
    assert system.software.environment["NVIDIA_TF32_OVERRIDE"] == "0"
    assert "TF_VAR_password" not in system.software.environment


def test_a_cell_that_takes_too_long_does_not_stop_the_next(tmp_path: Path) -> None:
    rules = Rules(warmup_steps=1, steps=2, max_s=600, min_s=600, cell_timeout_s=20)
    spec = bench.write_spec(tmp_path, [bench.FAST, *REFUSED], rules)
    assert bench.run_payload("run", spec, "--out", tmp_path / "out").returncode == 0
    cell, *others = bench.read_cells(tmp_path / "out")
    assert (cell.status, cell.stage, cell.reason) == ("timeout", "measure", "cell_timeout")
    assert cell.message and "20 s (stage measure)" in cell.message
    # Where it was: the innermost frames come first.
    assert re.search(
        r"[Tt]hread 0x.*\n(  File .*\n)*  File .*payload/measure.py\", line \d+ in measure", cell.log_tail or ""
    )
    assert 20 <= cell.duration_s < 30
    assert [c.reason for c in others] == list(REFUSED.values())


def test_a_killed_child_costs_one_cell(tmp_path: Path) -> None:
    long = Rules(warmup_steps=1, steps=2, min_s=3, max_s=3, cell_timeout_s=60)
    spec = bench.write_spec(tmp_path, [bench.FAST] * 3, long)
    payload = bench.start_payload(spec, tmp_path / "out")
    for index, signum in enumerate((signal.SIGKILL, signal.SIGILL)):
        bench.wait_for_stage(tmp_path / "out", "measure", index)
        os.kill(bench.find_children(payload.pid)[0], signum)
    assert payload.communicate(timeout=120) == ("", "")
    killed, illegal, last = bench.read_cells(tmp_path / "out")
    assert (killed.status, killed.reason, killed.stage) == ("crash", "killed", "measure")
    assert "SIGKILL" in (killed.message or "")
    assert (illegal.status, illegal.reason) == ("crash", "illegal_instruction")
    assert "AVX" in (illegal.message or "")
    assert last.status == "ok"


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_told_to_stop_it_takes_its_child_along(tmp_path: Path, signum: signal.Signals, status: int) -> None:
    spec = bench.write_spec(tmp_path, [bench.FAST] * 2, Rules(min_s=60, cell_timeout_s=120))
    payload = bench.start_payload(spec, tmp_path / "out")
    bench.wait_for_stage(tmp_path / "out", "measure", 0)
    child = bench.find_children(payload.pid)[0]
    payload.send_signal(signum)
    assert payload.communicate(timeout=5) == ("", "")
    assert payload.returncode == status
    assert not Path(f"/proc/{child}").exists()
    assert bench.read_cells(tmp_path / "out") == []


def test_a_killed_parent_takes_its_child_along(tmp_path: Path) -> None:
    spec = bench.write_spec(tmp_path, [bench.FAST], Rules(min_s=60, cell_timeout_s=120))
    payload = bench.start_payload(spec, tmp_path / "out")
    bench.wait_for_stage(tmp_path / "out", "measure", 0)
    child = bench.find_children(payload.pid)[0]
    payload.kill()
    payload.communicate(timeout=5)
    wait_for(lambda: not _is_running(child), 10)


def test_memory_that_does_not_suffice_is_a_result(tmp_path: Path) -> None:
    huge = bench.FAST.model_copy(update={"batch_size": bench.TOO_MANY})
    spec = bench.write_spec(tmp_path, [huge, bench.FAST])
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", preexec=bench.limit_memory)
    assert done.returncode == 0
    oom, ok = bench.read_cells(tmp_path / "out")
    assert (oom.status, oom.reason, oom.stage, oom.failed) == ("oom", "host_memory", "build", False)
    assert "smaller batch" in (oom.message or "")
    assert ok.status == "ok"


def test_output_of_any_length_is_kept_in_bounds(tmp_path: Path) -> None:
    # What an image prints on its own: a start-up file that talks 100 MB to standard output in every child.
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "if b'--report-fd' in open('/proc/self/cmdline', 'rb').read().split(b'\\0'):\n"
        "    for _ in range(100):\n"
        '        os.write(1, b\'{"event": "result"}\\n\' * 52429)\n'
    )
    spec = bench.write_spec(tmp_path, [bench.FAST, Cell(model="alexnet", batch_size=1, device="gpu")])
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "")
    ok, refused = bench.read_cells(tmp_path / "out")
    assert ok.status == "ok"
    assert refused.reason == "no_gpu"
    assert 10_000 < len(refused.log_tail or "") <= 65536
    assert bench.read_system(tmp_path / "out").software.tensorflow


def test_a_broken_tensorflow_is_said_once_a_cell(tmp_path: Path) -> None:
    package = tmp_path / "path" / "tensorflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('libcudart.so.11.0: cannot open shared object file')\n")
    spec = bench.write_spec(tmp_path, [bench.FAST])
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", env={"PYTHONPATH": str(package.parent)})
    assert (done.returncode, done.stderr) == (0, "")
    (cell,) = bench.read_cells(tmp_path / "out")
    assert (cell.status, cell.stage, cell.reason) == ("crash", "import", "tensorflow_missing")
    assert "libcudart.so.11.0" in (cell.message or "") and "Traceback" in (cell.log_tail or "")
    assert bench.read_system(tmp_path / "out").software.tensorflow is None


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
