"""Which models of the zoo a test takes."""

from __future__ import annotations

import os
from collections.abc import Iterable

DEEP = {
    "bert_base_512", "densenet100_k12", "densenet100_k24", "inception4", "nasnetlarge", "overfeat",
    "resnet34", "resnet34_v2", "resnet101", "resnet101_v1.5", "resnet101_v2", "resnet152", "resnet152_v1.5",
    "resnet152_v2", "resnet32", "resnet32_v2", "resnet44", "resnet44_v2", "resnet56", "resnet56_v2", "resnet110",
    "resnet110_v2", "vgg13", "vgg16c", "vgg19",
}  # fmt: skip
"""Models that differ from another one of their family by the numbers in a table alone, which the counts check."""


def takes_all() -> bool:
    """FLEET_ZOO=all: nothing is left out to save time."""
    return os.environ.get("FLEET_ZOO") == "all"


def choose(models: Iterable[str]) -> list[str]:
    """Parameters for a test that runs models: one of each kind, with FLEET_ZOO=all (`make zoo`) all of them."""
    return [model for model in sorted(models) if takes_all() or model not in DEEP]
