"""YAML → `Suite` → cells. `suites/*.yaml` are the shipped ones.

name: mine
description: what it is for
rules: {warmup_steps: 10, steps: 100, max_s: 60}      # any of fleet.model.suite.Rules
cells:                                                # each entry is a matrix: every combination is a cell
  - models: [resnet50, alexnet]
    phases: [train, forward]                          # default [train]
    precisions: [fp32, fp16]                          # default [fp32]
    batch_sizes: [32, 64]                             # per device; auto: the largest that fits
    devices: [1]                                      # default [1]: how many GPUs take part; all: all there are
    xla: [false]                                      # default [false]
    optimizers: [sgd]                                 # default [sgd]
    variable_updates: [replicated]                    # default [replicated]: what several devices do, or independent
    steps_per_call: [1]                               # default [1]
    on: [gpu]                                         # which kind of host runs it: cpu, gpu
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from yaml import Node

from fleet.errors import ConfigError
from fleet.model.suite import Cell, Device, ModelInfo, Optimizer, Phase, Precision, Rules, Suite, VariableUpdate
from fleet.suite_file import Entries, SuiteFile, suggest_name
from fleet.suite_matrix import (
    MAX_BATCH_SIZE,
    MAX_CELLS,
    MAX_DEVICES,
    MAX_STEPS_PER_CALL,
    Matrix,
    MatrixError,
    expand_matrix,
)

SHIPPED = Path(__file__).parent / "suites"


@dataclass(frozen=True)
class ShippedSuite:
    """A suite that comes with fleet."""

    name: str
    description: str


def list_suites() -> tuple[ShippedSuite, ...]:
    """The suites that come with fleet, by name."""
    found = []
    for path in sorted(SHIPPED.glob("*.yaml")):
        file = SuiteFile(path)
        keys = file.read_mapping(file.root, "a suite", _SUITE_KEYS)
        found.append(ShippedSuite(path.stem, _read_description(file, keys)))
    return tuple(found)


def load_suite(name_or_path: str, models: Mapping[str, ModelInfo]) -> Suite:
    """Read a suite and expand its matrices into cells: in order, each cell once.

    Args:
        name_or_path: the name of a shipped suite, or the path of a file (with a `/`, or ending in .yaml or .yml).
        models: the payload's catalogue, by name.

    Raises:
        ConfigError: with file and line, and the nearest known name where one is misspelt.
    """
    file = SuiteFile(_find_suite(name_or_path))
    keys = file.read_mapping(file.root, "a suite", _SUITE_KEYS, required=_SUITE_NEEDS)
    name = file.read_text(keys["name"], "name")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise file.error(keys["name"], f"name: {name!r} may have only letters, digits, dots, - and _")
    rules = _read_rules(file, keys["rules"]) if "rules" in keys else Rules()
    cells: list[Cell] = []
    for entry in file.read_list(keys["cells"], "cells"):
        cells += _expand_entry(file, entry, models)
        # Those that are in several entries count as often: thousands of equal entries take as long to expand.
        if len(cells) > MAX_CELLS:
            raise file.error(entry, f"cells: that is more than {MAX_CELLS} cells")
    return Suite(name=name, description=_read_description(file, keys), rules=rules, cells=tuple(dict.fromkeys(cells)))


_SUITE_KEYS = ("name", "description", "rules", "cells")


def _find_suite(name_or_path: str) -> Path:
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        # Left as it is where it begins with the home of nobody known here: then there is no such file.
        with contextlib.suppress(RuntimeError):
            return Path(name_or_path).expanduser()
        return Path(name_or_path)
    names = [path.stem for path in sorted(SHIPPED.glob("*.yaml"))]
    if name_or_path not in names:
        raise ConfigError(
            f"there is no suite {name_or_path!r}{suggest_name(name_or_path, names)}",
            hint=f"Fleet comes with {', '.join(names)}; for a file of yours give its path, e.g. ./mine.yaml.",
        )
    return SHIPPED / f"{name_or_path}.yaml"


def _read_description(file: SuiteFile, keys: Entries) -> str:
    return file.read_text(keys["description"], "description") if "description" in keys else ""


def _read_rules(file: SuiteFile, node: Node) -> Rules:
    keys = file.read_mapping(node, "rules", tuple(Rules.model_fields))
    values = {key: _read_rule(file, key, value) for key, value in keys.items()}
    try:
        rules = Rules.model_validate(values)
    except ValidationError as e:
        first = e.errors()[0]
        key = str(first["loc"][0])
        raise file.error(keys[key], f"{key}: {first['msg'][0].lower()}{first['msg'][1:]}, not {values[key]}") from e
    if rules.min_s > rules.max_s:
        raise file.error(node, f"rules: min_s ({rules.min_s:g}) is more than max_s ({rules.max_s:g})")
    return rules


def _read_rule(file: SuiteFile, key: str, node: Node) -> bool | int | float | None:
    if key == "compat":
        return file.read_switch(node, key)
    if key == "numa_node" and file.is_null(node):
        return None
    return file.read_number(node, key)


_SUITE_NEEDS = {
    "name": "name: mine",
    "cells": "cells: and below it - {models: [resnet50], batch_sizes: [32], on: [cpu, gpu]}",
}
_ENTRY_NEEDS = {
    "models": "models: [resnet50]; which there are says fleet models",
    "batch_sizes": "batch_sizes: [32, 64], or batch_sizes: auto",
    "on": "on: [cpu], on: [gpu] or on: [cpu, gpu]: the kinds of host that run it",
}


def _expand_entry(file: SuiteFile, node: Node, models: Mapping[str, ModelInfo]) -> Iterator[Cell]:
    keys = file.read_mapping(node, "an entry of cells", tuple(_READERS), required=_ENTRY_NEEDS)
    values = {key: _READERS[key](file, value, key, tuple(models)) for key, value in keys.items()}
    try:
        yield from expand_matrix(Matrix(**values), models)
    except MatrixError as e:
        at = keys.get(e.key, keys["models"])
        raise file.error(at, str(e), hint="Give it an entry of its own.") from e


def _read_known(*known: str) -> _Reader:
    return lambda file, node, key, _models: file.read_names(node, key, known)


def _read_counts(maximum: int, open_word: str | None = None) -> _Reader:
    return lambda file, node, key, _models: file.read_counts(node, key, maximum, open_word)


_Reader = Callable[[SuiteFile, Node, str, Sequence[str]], Any]

_READERS: Mapping[str, _Reader] = {
    "models": lambda file, node, key, models: file.read_names(node, key, models),
    "phases": _read_known(*get_args(Phase)),
    "precisions": _read_known(*get_args(Precision)),
    "batch_sizes": _read_counts(MAX_BATCH_SIZE, "auto"),
    "devices": _read_counts(MAX_DEVICES, "all"),
    "xla": lambda file, node, key, _models: file.read_switches(node, key),
    "optimizers": _read_known(*get_args(Optimizer)),
    "variable_updates": _read_known(*get_args(VariableUpdate)),
    "steps_per_call": _read_counts(MAX_STEPS_PER_CALL),
    "on": _read_known(*get_args(Device)),
}
"""How each field of `Matrix` is read, in the order in which they are named to people."""
