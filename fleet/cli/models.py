"""`fleet models`: what can be measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from fleet.bundle import read_models
from fleet.cli.consoles import open_stdout
from fleet.model.suite import ModelInfo
from fleet.report.terminal_blocks import Column, Ink, print_blocks


def print_models(*, as_json: bool) -> None:
    """The catalogue, in its order, on stdout."""
    models = tuple(read_models().values())
    if as_json:
        document = {"schema": "fleet.models/1", "models": [model.model_dump(mode="json") for model in models]}
        sys.stdout.write(json.dumps(document, indent=2, sort_keys=True) + "\n")
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
