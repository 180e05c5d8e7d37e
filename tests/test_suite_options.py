"""Cells from the command line: every combination, for both kinds of host, and every mistake names its option."""

from __future__ import annotations

import pytest

from fleet.bundle import read_models
from fleet.errors import ConfigError
from fleet.suite_options import CellOptions, make_suite

MODELS = read_models()


def test_every_combination_is_a_cell_and_a_cpu_host_is_one_device() -> None:
    options = CellOptions("lenet,resnet50", precisions="fp32, bf16", batch_sizes="64,auto", devices="1,2,all")
    suite = make_suite(options, MODELS)
    gpu, cpu = suite.cells_for("gpu"), suite.cells_for("cpu")
    assert (len(gpu), len(cpu)) == (24, 8)
    assert [cell.id for cell in gpu[:3]] == [
        f"lenet/train/fp32/{rest}/nchw" for rest in ("b64/gpu1", "bauto/gpu1", "b64/gpu2")
    ]
    assert {(cell.devices, cell.data_format) for cell in cpu} == {(1, "NHWC")}
    assert {cell.id for cell in gpu if cell.devices == 0 and cell.batch_size == 0} == {
        f"{model}/train/{precision}/bauto/gpuall/nchw"
        for model in ("lenet", "resnet50")
        for precision in ("fp32", "bf16")
    }


def test_without_phases_a_model_is_trained_or_measured_in_all_it_has() -> None:
    cells = make_suite(CellOptions("lenet,alexnet_conv", batch_sizes="8"), MODELS).cells_for("cpu")
    assert [(cell.model, cell.phase) for cell in cells] == [
        ("lenet", "train"),
        ("alexnet_conv", "forward"),
        ("alexnet_conv", "forward_backward"),
    ]


def test_a_value_given_twice_is_one_cell() -> None:
    assert len(make_suite(CellOptions("lenet,lenet", batch_sizes="8,8"), MODELS).cells_for("cpu")) == 1


def test_a_hundred_kilobytes_of_values_are_as_many_cells_as_they_say() -> None:
    again = make_suite(CellOptions(",".join(["lenet"] * 15_000), batch_sizes=",".join(["8"] * 50_000)), MODELS)
    assert len(again.cells_for("cpu")) == 1
    trained = ",".join(name for name, model in MODELS.items() if "train" in model.phases)
    with pytest.raises(ConfigError, match="--models: that is more than 10000 cells"):
        make_suite(CellOptions(trained, batch_sizes=",".join(str(n) for n in range(1, 20_000))), MODELS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (CellOptions("resnet51"), "--models: 'resnet51' is not known; did you mean resnet"),
        (CellOptions("lenet,"), "--models: there is a value missing in 'lenet,'"),
        (CellOptions("lenet", phases="training"), "--phases: 'training' is not known; did you mean train\\?"),
        (CellOptions("lenet", precisions="fp8"), "--precisions: 'fp8' is not known"),
        (CellOptions("lenet", batch_sizes="0"), "--batch-sizes: '0' is not a whole number from 1 to 1000000 or auto"),
        (CellOptions("lenet", batch_sizes="-1"), "--batch-sizes: '-1' is not"),
        (CellOptions("lenet", batch_sizes="²"), "--batch-sizes: '²' is not"),
        (CellOptions("lenet", batch_sizes="9" * 5000), "--batch-sizes: '9{80}' is not"),
        (CellOptions("lenet", devices="auto"), "--devices: 'auto' is not a whole number from 1 to 1024 or all"),
        (CellOptions("lenet,alexnet_conv", "train"), "--phases: alexnet_conv has no train; it has forward, forward_ba"),
    ],
)
def test_a_mistake_names_its_option(options: CellOptions, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        make_suite(options, MODELS)
    assert str(caught.value).startswith("--")
