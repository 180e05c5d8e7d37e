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
    assert "tf_cnn_benchmarks resnet50" in row


def test_programs_get_the_catalogue_itself(run_fleet: RunFleet) -> None:
    document = json.loads(run_fleet("models", "--json").stdout)

    (vgg16,) = [model for model in document["models"] if model["name"] == "vgg16"]
    assert (vgg16["parameters"], vgg16["forward_macs"]) == (138361641, 15470268416)
    assert len(document["models"]) == 49
