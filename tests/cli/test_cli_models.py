"""`fleet models`: the catalogue, for people and for programs."""

from __future__ import annotations

import json

from tests.conftest import RunFleet


def test_the_models_are_listed_with_their_numbers(run_fleet: RunFleet) -> None:
    done = run_fleet("models", env={"COLUMNS": "200"})

    assert done.returncode == 0
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("resnet50 ")]
    assert row.split()[:4] == ["resnet50", "224×224×3", "25,559,081", "7.72"]
    assert "train, forward" in row
    assert row.endswith(
        "  tf_cnn_benchmarks resnet50 (version 1: stride on the first 1x1 convolution of a block), 1001 classes"
    )


def test_a_narrow_terminal_gets_the_definitions_in_a_block_of_their_own(run_fleet: RunFleet) -> None:
    lines = run_fleet("models", env={"COLUMNS": "80"}).stdout.splitlines()

    assert max(len(line) for line in lines) <= 80
    rows = [line.split()[:3] for line in lines if line.startswith("resnet50 ")]
    assert rows == [["resnet50", "224×224×3", "25,559,081"], ["resnet50", "train,", "forward"]]
    assert max(len(line) for line in lines if line.startswith(" ")) > 70, "what is folded uses the whole line"


def test_programs_get_the_catalogue_itself(run_fleet: RunFleet) -> None:
    document = json.loads(run_fleet("models", "--json").stdout)

    (vgg16,) = [model for model in document["models"] if model["name"] == "vgg16"]
    assert (vgg16["parameters"], vgg16["forward_macs"]) == (138361641, 15470268416)
    assert len(document["models"]) == 49
