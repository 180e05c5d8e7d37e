"""Several devices: logical ones of a CPU train together what one would alone; GPUs by what TensorFlow calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleet.model.suite import Cell
from payload.errors import Unsupported
from payload.placement import check_precision, choose_gpus
from tests.payload import bench


def train(**request: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, bench.ROOT / "tests" / "payload" / "towers.py", json.dumps({"cell": {}, **request})],
        cwd=bench.ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert answer["started_apart"] == 0
    assert answer["placed"] == [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(2)]
    assert answer["devices"] == ["/job:localhost/replica:0/task:0/device:CPU:1"]
    assert answer["moved"] > 0
    return answer


@pytest.mark.needs("tensorflow")
def test_two_devices_are_one_with_double_the_batch() -> None:
    # AlexNet has no batch normalisation: the mean over two halves is the mean over the whole.
    answer = train(model="alexnet", images="halves", steps=4)
    assert answer["losses"]["towers"] == pytest.approx(answer["losses"]["alone"], rel=1e-5)
    assert answer["losses"]["towers"][0] > 1.2 * answer["losses"]["towers"][-1]
    # The weights move by more than ten times what they may differ by: see the test of independent devices.
    assert answer["apart_from_alone"] < 2e-6
    assert (answer["apart_from_each_other"], answer["reduction"]) == (0, "copy")


@pytest.mark.needs("tensorflow")
def test_two_devices_with_the_same_images_are_one_with_them() -> None:
    # Batch normalisation keeps every device to its own images, so halves of a batch are not the whole; equal ones are.
    answer = train(model="resnet50", images="same", steps=3)
    assert answer["losses"]["towers"] == pytest.approx(answer["losses"]["alone"], rel=1e-5)
    assert answer["losses"]["towers"][0] > 2 * answer["losses"]["towers"][-1]
    assert answer["apart_from_alone"] < 1e-5
    assert answer["apart_from_each_other"] == 0


@pytest.mark.needs("tensorflow")
def test_independent_devices_go_their_own_ways() -> None:
    answer = train(model="alexnet", images="halves", steps=4, cell={"variable_update": "independent"})
    assert answer["losses"]["towers"][0] == pytest.approx(answer["losses"]["alone"][0], rel=1e-5)
    assert answer["losses"]["towers"][-1] != pytest.approx(answer["losses"]["alone"][-1], rel=1e-3)
    assert answer["apart_from_each_other"] > 2e-5
    assert answer["reduction"] is None


@pytest.mark.needs("tensorflow")
def test_what_several_devices_do_adds_up(tmp_path: Path) -> None:
    planned = [
        Cell(model="alexnet", batch_size=1, devices=2),
        Cell(model="alexnet", batch_size=1, devices=2, variable_update="independent"),
        Cell(model="alexnet_conv", phase="forward", batch_size=2, devices=3),
        Cell(model="alexnet_conv", phase="forward_backward", batch_size=1, devices=2),
    ]
    done = bench.run_payload("run", bench.write_spec(tmp_path, planned), "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    cells = bench.read_cells(tmp_path / "out")
    assert [c.cell for c in cells] == planned and [c.cell_id for c in cells] == [c.id for c in planned]
    for cell in cells:
        assert (cell.status, cell.message) == ("ok", None)
        assert cell.throughput and cell.timing and cell.execution
        images = cell.cell.batch_size * cell.cell.devices
        assert cell.throughput.images_per_s == pytest.approx(images / cell.timing.quantiles_us["p50"] * 1e6)
        assert cell.throughput.images_per_s_per_device == pytest.approx(
            cell.throughput.images_per_s / cell.cell.devices
        )
        assert cell.device_name == f"CPU:0 as {cell.cell.devices} logical devices on the same cores"
    assert [c.execution and c.execution.reduction for c in cells] == ["copy", None, None, None]


def test_parts_of_a_gpu_are_not_several() -> None:
    whole, part = "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    assert choose_gpus([whole] * 4, 2) == 2
    assert choose_gpus([part], 1) == 1
    for names, said in (([part] * 4, "parts of one"), ([whole, part], "parts of one"), ([whole], "sees 1 GPUs")):
        with pytest.raises(Unsupported, match=said) as caught:
            choose_gpus(names, 2)
        assert caught.value.reason == "gpus_missing"


@pytest.mark.parametrize(
    ("precision", "capability", "reason"),
    [
        ("fp32", (3, 5), None),
        ("fp16", (7, 0), None),
        ("fp16", (3, 5), "no_fp16"),
        ("tf32", (8, 0), None),
        ("tf32", (7, 5), "no_tf32"),
        ("tf32", None, "no_tf32"),
        ("bf16", (9, 0), None),
        ("bf16", (7, 0), "no_bf16"),
        ("bf16", None, None),
    ],
)
def test_a_gpu_older_than_the_format_is_told(
    precision: str, capability: tuple[int, int] | None, reason: str | None
) -> None:
    if reason is None:
        check_precision(precision, capability, "Tesla")
        return
    with pytest.raises(Unsupported, match="Tesla") as caught:
        check_precision(precision, capability, "Tesla")
    assert caught.value.reason == reason
