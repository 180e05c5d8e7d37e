"""Suites: the shipped ones load, matrices expand, and every mistake names its line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fleet.bundle import read_models
from fleet.errors import ConfigError
from fleet.model.suite import ModelInfo, Rules
from fleet.suite import SHIPPED, list_suites, load_suite

MODELS = {
    name: ModelInfo(
        name=name, input_shape=(224, 224, 3), parameters=1, forward_macs=1_000_000_000, phases=phases, source="test"
    )
    for name, phases in (
        ("resnet50", ("train", "forward")),
        ("alexnet", ("train", "forward")),
        ("alexnet_conv", ("forward", "forward_backward")),
    )
}


def write(tmp_path: Path, cells: str, head: str = "name: mine\n") -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{head}cells:\n{cells}")
    return str(path)


def test_shipped_suites_load_with_the_real_catalogue_and_have_cells_for_both_kinds_of_host() -> None:
    listed = list_suites()
    names = ["alexnet-cpu-gpu", "full", "precision", "quick", "scaling", "smoke", "standard"]
    assert [s.name for s in listed] == names
    for shipped in listed:
        suite = load_suite(shipped.name, read_models())
        assert (suite.name, suite.description) == (shipped.name, shipped.description)
        assert shipped.description
        assert suite.cells_for("gpu")
        assert bool(suite.cells_for("cpu")) == (shipped.name != "scaling")  # a CPU host is one device
    assert {path.stem for path in SHIPPED.iterdir()} == {s.name for s in listed}


def test_quick_measures_forward_and_both_precisions_on_gpus() -> None:
    cells = load_suite("quick", read_models()).cells_for("gpu")
    assert {"train", "forward"} <= {c.phase for c in cells}
    assert {c.precision for c in cells} == {"fp32", "fp16"}


def test_matrix_expands_in_order_with_the_data_format_of_the_device(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "- {models: [resnet50], phases: [train, forward], batch_sizes: [2, 4], on: [cpu]}\n"
        "- {models: [resnet50], precisions: [tf32], batch_sizes: [64], devices: [1, 2], xla: [true], on: [gpu]}\n"
        "- {models: [alexnet_conv], phases: [forward], batch_sizes: [8], on: [cpu, gpu]}\n"
        "- {models: [resnet50], phases: [forward], batch_sizes: [4], on: [cpu]}\n",  # again: dropped
    )
    assert [c.id for c in load_suite(path, MODELS).cells] == [
        "resnet50/train/fp32/b2/cpu1/nhwc",
        "resnet50/train/fp32/b4/cpu1/nhwc",
        "resnet50/forward/fp32/b2/cpu1/nhwc",
        "resnet50/forward/fp32/b4/cpu1/nhwc",
        "resnet50/train/tf32/b64/gpu1/nchw/xla",
        "resnet50/train/tf32/b64/gpu2/nchw/xla",
        "alexnet_conv/forward/fp32/b8/cpu1/nhwc",
        "alexnet_conv/forward/fp32/b8/gpu1/nhwc",
    ]


def test_variants_of_training_are_cells_of_their_own(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "- {models: [resnet50], batch_sizes: [2], optimizers: [sgd, adam], steps_per_call: [1, 10], on: [cpu]}\n"
        "- models: [resnet50]\n  batch_sizes: [64]\n  devices: [2]\n  xla: [false, true]\n"
        "  variable_updates: [replicated, independent]\n  on: [gpu]\n",
    )
    assert [c.id for c in load_suite(path, MODELS).cells] == [
        "resnet50/train/fp32/b2/cpu1/nhwc",
        "resnet50/train/fp32/b2/cpu1/nhwc/steps10",
        "resnet50/train/fp32/b2/cpu1/nhwc/adam",
        "resnet50/train/fp32/b2/cpu1/nhwc/adam/steps10",
        "resnet50/train/fp32/b64/gpu2/nchw",
        "resnet50/train/fp32/b64/gpu2/nchw/xla",
        "resnet50/train/fp32/b64/gpu2/nchw/independent",
        "resnet50/train/fp32/b64/gpu2/nchw/xla/independent",
    ]


def test_rules_are_the_defaults_with_what_the_file_says_on_top(tmp_path: Path) -> None:
    head = "name: mine\nrules: {steps: 7, max_s: 1.5}\n"
    suite = load_suite(write(tmp_path, "- {models: [alexnet], batch_sizes: [1], on: [cpu]}\n", head), MODELS)
    assert suite.rules == Rules(steps=7, max_s=1.5)
    head = "name: mine\nrules: {ci_target: 0.005, compat: true, intra_threads: 4}\n"
    suite = load_suite(write(tmp_path, "- {models: [alexnet], batch_sizes: [1], on: [cpu]}\n", head), MODELS)
    assert suite.rules == Rules(ci_target=0.005, compat=True, intra_threads=4)
    for node, expected in (("0", 0), ("null", None)):
        head = f"name: mine\nrules: {{numa_node: {node}}}\n"
        suite = load_suite(write(tmp_path, "- {models: [alexnet], batch_sizes: [1], on: [cpu]}\n", head), MODELS)
        assert suite.rules == Rules(numa_node=expected)


def test_auto_leaves_the_batch_size_open(tmp_path: Path) -> None:
    suite = load_suite(write(tmp_path, "- {models: [alexnet], batch_sizes: auto, on: [gpu]}\n"), MODELS)
    assert [(cell.batch_size, cell.id) for cell in suite.cells] == [(0, "alexnet/train/fp32/bauto/gpu1/nchw")]
    mixed = load_suite(write(tmp_path, "- {models: [alexnet], batch_sizes: [64, auto], on: [gpu]}\n"), MODELS)
    assert [cell.batch_size for cell in mixed.cells] == [64, 0]


def test_all_leaves_the_number_of_devices_open(tmp_path: Path) -> None:
    entry = "- {models: [alexnet], batch_sizes: [8], devices: [1, all], on: [gpu]}\n"
    suite = load_suite(write(tmp_path, entry), MODELS)
    assert [cell.id for cell in suite.cells] == [f"alexnet/train/fp32/b8/{word}/nchw" for word in ("gpu1", "gpuall")]
    for entry, said in (
        ("devices: all, on: [cpu]", "a CPU host is one device"),
        ("devices: [every], on: [gpu]", "from 1 to 1024 or all"),
        ("devices: [0], on: [gpu]", "from 1 to 1024 or all"),
    ):
        with pytest.raises(ConfigError, match=said):
            load_suite(write(tmp_path, f"- {{models: [alexnet], batch_sizes: [8], {entry}}}\n"), MODELS)


GOOD = "- {models: [alexnet], batch_sizes: [1], on: [cpu]}\n"
TRAIN = "- models: [alexnet]\n  batch_sizes: [1]\n  on: [gpu]\n"


@pytest.mark.parametrize(
    ("head", "cells", "line", "words"),
    [
        ("name: mine\nrulez: {}\n", GOOD, 2, "'rulez'; did you mean rules?"),
        ("name: mine\nrules: {step: 3}\n", GOOD, 2, "'step'; did you mean steps?"),
        ("name: mine\nrules:\n  steps: 1\n", GOOD, 3, "steps: input should be greater than or equal to 2, not 1"),
        ("name: mine\nrules: {cell_timeout_s: 1.7e+308}\n", GOOD, 2, "cell_timeout_s: input should be less than"),
        (
            "name: mine\nrules: {steps: 1000000001}\n",
            GOOD,
            2,
            "steps: input should be less than or equal to 1000000000",
        ),
        ("name: mine\nrules: {max_s: .inf}\n", GOOD, 2, "max_s"),
        ("name: mine\nrules: {steps: '3'}\n", GOOD, 2, "steps is a number, not a text ('3')"),
        ("name: mine\nrules: {min_s: 9, max_s: 3}\n", GOOD, 2, "min_s (9) is more than max_s (3)"),
        ("name: mine\nrules:\n", GOOD, 2, "rules is a mapping"),
        ("name: mine\nrules: {compat: 1}\n", GOOD, 2, "compat: a number ('1') is neither true nor false"),
        ("name: mine\nrules: {ci_target: 1}\n", GOOD, 2, "ci_target: input should be less than 1, not 1"),
        ("name: a b\n", GOOD, 1, "'a b' may have only"),
        ("name:\n", GOOD, 1, "name is a text, not nothing"),
        ("name: [a]\n", GOOD, 1, "a list stands where one value belongs"),
        ("name: mine\nname: other\n", GOOD, 2, "name is given twice"),
        ("description: x\n", GOOD, 1, "a suite needs name"),
        ("name: !secret x\n", GOOD, 1, "with the tag !secret"),
        ("name: mine\n", "- {models: [alexnet], batch_sizes: [1]}\n", 3, "needs on"),
        ("name: mine\n", "- {models: [alexnt], batch_sizes: [1], on: [cpu]}\n", 3, "did you mean alexnet?"),
        ("name: mine\n", "- {models: alexnet, batch_sizes: [1], on: [cpu]}\n", 3, "models is a list, not a text"),
        ("name: mine\n", "- {models: , batch_sizes: [1], on: [cpu]}\n", 3, "models is a list, not nothing"),
        ("name: mine\n", "- {models: [], batch_sizes: [1], on: [cpu]}\n", 3, "models is an empty list"),
        ("name: mine\n", "- {models: [~], batch_sizes: [1], on: [cpu]}\n", 3, "models is a text, not nothing"),
        ("name: mine\n", "- models: [alexnet]\n  on: [gpus]\n  batch_sizes: [1]\n", 4, "did you mean gpu?"),
        ("name: mine\n", "- models: [alexnet]\n  on: [cpu]\n  batch_sizes: [0]\n", 5, "from 1 to 1000000"),
        ("name: mine\n", "- {models: [alexnet], on: [cpu], batch_sizes: [true]}\n", 3, "not a whole number"),
        ("name: mine\n", "- {models: [alexnet], on: [cpu], batch_sizes: ['2']}\n", 3, "not a whole number"),
        ("name: mine\n", "- {models: [alexnet], on: [cpu], batch_sizes: [1], xla: [1]}\n", 3, "neither true nor false"),
        ("name: mine\n", "- {models: [alexnet], on: [cpu], batch_sizes: [1], devices: [2]}\n", 3, "CPU host is one"),
        ("name: mine\n", "- {models: [alexnet], on: [gpu], batch_sizes: [1], precisions: [fp8]}\n", 3, "'fp8'"),
        ("name: mine\n", "- {models: [alexnet_conv], on: [cpu], batch_sizes: [1]}\n", 3, "alexnet_conv has no train"),
        ("name: mine\n", TRAIN + "  optimizers: [lion]\n", 6, "'lion'"),
        ("name: mine\n", TRAIN + "  phases: [train, forward]\n  optimizers: [adam]\n", 7, "only training has one"),
        ("name: mine\n", TRAIN + "  variable_updates: [independent]\n", 6, "several devices exchanges anything"),
        ("name: mine\n", TRAIN + "  devices: [1, 2]\n  variable_updates: [independent]\n", 7, "several devices"),
        ("name: mine\n", TRAIN + "  devices: [2]\n  steps_per_call: [1, 2]\n", 7, "one device takes several"),
        ("name: mine\n", TRAIN + "  steps_per_call: [0]\n", 6, "from 1 to 10000"),
        ("name: mine\n", "- {models: [alexnet], on: [cpu], batch_sizes: [010]}\n", 3, "010 is another number in YAML"),
        ("name: mine\n", "- {models: [alexnet], on: [cpu], batch_sizes: [0x10]}\n", 3, "0x10 is another number"),
        ("name: mine\nrules: {steps: 1:30}\n", GOOD, 2, "1:30 is another number in YAML than it looks like"),
        ("name: mine\nrules: {max_s: 1:30.5}\n", GOOD, 2, "1:30.5 is another number"),
        ("name: mine\nrules: {steps: !!int ''}\n", GOOD, 2, "steps: nothing cannot be read"),
        ("name: mine\nrules: {max_s: !!float ''}\n", GOOD, 2, "max_s: nothing cannot be read"),
        ("name: mine\nrules: {compat: !!bool x}\n", GOOD, 2, "compat: true or false ('x') cannot be read"),
        ("name: mine\nrules: {max_s: .nan}\n", GOOD, 2, "finite number"),
        ('name: mine\ndescription: "\\ud800"\n', GOOD, 2, "holds half a character"),
        ("name: mine\n? [a, b]\n: c\n", GOOD, 2, "a suite has a list for a key"),
        ("name: mine\n", "- [a]\n", 3, "an entry of cells is a mapping"),
        ("name: mine\n", "  {a\n", 4, "is not valid YAML"),
    ],
)
def test_mistake_names_file_line_and_nearest_name(tmp_path: Path, head: str, cells: str, line: int, words: str) -> None:
    path = write(tmp_path, cells, head)
    with pytest.raises(ConfigError) as e:
        load_suite(path, MODELS)
    assert str(e.value).startswith(f"{path}:{line}: ")
    assert words in str(e.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the suite is empty"),
        (b"# nothing\n", "the suite is empty"),
        (b"name: \xff\n", "not UTF-8"),
        (b"name: a\x07b\n", "1: holds the control character U+0007"),
        (b"[" * 5000, "nested too deeply"),
        (b"- a\n", "a suite is a mapping"),
        (b"name: " + b"x" * 10_000_001, "larger than 10 MB"),
        (b"name: a\ncells: &a [*a]\n", "2: an alias (`*name`) stands inside its own anchor"),
    ],
)
def test_file_that_is_no_suite_is_refused_in_one_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "bad.yml"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as e:
        load_suite(str(path), MODELS)
    assert words in str(e.value)
    assert "\n" not in str(e.value)


def test_unknown_suite_and_missing_file_say_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"no suite 'smok'; did you mean smoke\?") as e:
        load_suite("smok", MODELS)
    assert "quick" in e.value.hint
    with pytest.raises(ConfigError, match=r"nowhere/x\.yaml: there is no such file"):
        load_suite("nowhere/x.yaml", MODELS)


def test_suite_that_would_run_for_days_is_refused(tmp_path: Path) -> None:
    sizes = ", ".join(str(n) for n in range(1, 10_002))
    with pytest.raises(ConfigError, match="more than 10000 cells"):
        load_suite(write(tmp_path, f"- {{models: [alexnet], on: [cpu], batch_sizes: [{sizes}]}}\n"), MODELS)


BOMB = ", ".join(["&a0 [x]", *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))])
"""Lists of lists: written out, the last one has a thousand million words."""

FULL = f"{{models: [alexnet], on: [cpu], batch_sizes: [{', '.join(str(n) for n in range(1, 9001))}]}}"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (f"- &all {FULL}\n" + "- *all\n" * 100, "more than 10000 cells"),
        (f"- {{models: [alexnet], ? [{BOMB}] : 1}}\n", "once its aliases are followed"),
    ],
)
def test_a_file_that_would_grow_without_end_is_refused_at_once(tmp_path: Path, cells: str, words: str) -> None:
    before_s = time.process_time()
    with pytest.raises(ConfigError, match=words):
        load_suite(write(tmp_path, cells), MODELS)
    assert time.process_time() - before_s < 60


def test_values_that_are_given_again_and_again_are_one(tmp_path: Path) -> None:
    models, sizes, phases = (", ".join([word] * 2000) for word in ("alexnet", "8", "train"))
    entry = f"- {{models: [{models}], batch_sizes: [{sizes}], phases: [{phases}], on: [cpu]}}\n"
    (cell,) = load_suite(write(tmp_path, entry), MODELS).cells
    assert cell.id == "alexnet/train/fp32/b8/cpu1/nhwc"


def test_a_home_of_nobody_is_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_suite("~nobody-at-all/mine.yaml", MODELS)
