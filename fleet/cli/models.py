"""`fleet models`: what can be measured."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fleet.bundle import read_models
from fleet.cli.consoles import open_stdout
from fleet.model.suite import ModelInfo
from fleet.report.json_form import write_document
from fleet.report.terminal_blocks import Column, Ink, print_blocks


@dataclass(frozen=True)
class ModelList:
    """What can be measured."""

    models: tuple[ModelInfo, ...]
    schema: Literal["fleet.models/1"] = "fleet.models/1"


def print_models(*, as_json: bool) -> None:
    """The catalogue, in its order, on stdout."""
    models = tuple(read_models().values())
    if as_json:
        sys.stdout.write(write_document(ModelList(models)))
        return
    console = open_stdout()
    ink = Ink.of(console)
    parts: tuple[tuple[str, Callable[[ModelInfo], str], bool], ...] = (
        ("input", lambda model: "×".join(str(size) for size in model.input_shape), True),
        ("parameters", lambda model: f"{model.parameters:,}", True),
        # A multiply-add is two operations.
        ("GFLOP forward", lambda model: f"{2 * model.forward_macs / 1e9:.3g}", True),
        ("phases", lambda model: ", ".join(model.phases), False),
        ("definition", lambda model: model.source, False),
    )
    names = Column(ink.text("model"), tuple(ink.text(model.name, "bold") for model in models))
    columns = [
        Column(ink.text(head), tuple(ink.text(read(model)) for model in models), "right" if number else "left")
        for head, read, number in parts
    ]
    print_blocks(console, [names], columns, even=False, gap=False)
