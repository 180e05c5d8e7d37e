"""YAML → `Suite` → cells. `suites/*.yaml` are the shipped ones.

name: mine
description: what it is for
rules: {warmup_steps: 10, steps: 100, max_s: 60}      # any of fleet.model.suite.Rules
cells:                                                # each entry is a matrix: every combination is a cell
  - models: [resnet50, alexnet]
    phases: [train, forward]                          # default [train]
    precisions: [fp32, fp16]                          # default [fp32]
    batch_sizes: [32, 64]                             # per device; auto: the largest that fits
    devices: [1]                                      # default [1]: how many GPUs take part
    xla: [false]                                      # default [false]
    optimizers: [sgd]                                 # default [sgd]
    variable_updates: [replicated]                    # default [replicated]: what several devices do, or independent
    steps_per_call: [1]                               # default [1]
    on: [gpu]                                         # which kind of host runs it: cpu, gpu
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pydantic import ValidationError
from yaml import Node, ScalarNode

from fleet.errors import ConfigError
from fleet.model.suite import (
    Cell,
    DataFormat,
    Device,
    ModelInfo,
    Optimizer,
    Phase,
    Precision,
    Rules,
    Suite,
    VariableUpdate,
)
from fleet.suite_file import Entries, SuiteFile, suggest_name

SHIPPED = Path(__file__).parent / "suites"

MAX_CELLS = 10_000
"""Of one suite. More is a slip: it would run for days."""

_NHWC_ONLY = frozenset({"alexnet_conv"})
"""Local response normalisation has no NCHW kernel."""


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
    keys = file.read_mapping(file.root, "a suite", _SUITE_KEYS, required=("name", "cells"))
    name = file.read_text(keys["name"], "name")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise file.error(keys["name"], f"name: {name!r} may have only letters, digits, dots, - and _")
    rules = _read_rules(file, keys["rules"]) if "rules" in keys else Rules()
    cells: dict[Cell, None] = {}
    for matrix in file.read_list(keys["cells"], "cells"):
        for cell in _expand_matrix(file, matrix, models):
            cells[cell] = None
            if len(cells) > MAX_CELLS:
                raise file.error(matrix, f"cells: that is more than {MAX_CELLS} cells")
    return Suite(name=name, description=_read_description(file, keys), rules=rules, cells=tuple(cells))


_SUITE_KEYS = ("name", "description", "rules", "cells")
_MATRIX_KEYS = (
    *("models", "phases", "precisions", "batch_sizes", "devices", "xla"),
    *("optimizers", "variable_updates", "steps_per_call", "on"),
)


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


def _expand_matrix(file: SuiteFile, node: Node, models: Mapping[str, ModelInfo]) -> Iterator[Cell]:
    keys = file.read_mapping(node, "an entry of cells", _MATRIX_KEYS, required=("models", "batch_sizes", "on"))
    names = file.read_names(keys["models"], "models", tuple(models))
    phases = file.read_names(keys["phases"], "phases", get_args(Phase)) if "phases" in keys else ("train",)
    precisions = (
        file.read_names(keys["precisions"], "precisions", get_args(Precision)) if "precisions" in keys else ("fp32",)
    )
    kinds = file.read_names(keys["on"], "on", get_args(Device))
    batch_sizes = _read_batch_sizes(file, keys["batch_sizes"])
    devices = file.read_counts(keys["devices"], "devices", 1024) if "devices" in keys else (1,)
    xla = file.read_switches(keys["xla"], "xla") if "xla" in keys else (False,)
    _check_phases(file, keys, [models[name] for name in names], phases)
    if "cpu" in kinds and devices != (1,):
        raise file.error(keys["devices"], "devices: a CPU host is one device; give it an entry of its own")
    for variant in _expand_variants(file, keys, phases, devices):
        for kind, name, phase, precision, use_xla, count, batch_size in itertools.product(
            kinds, names, phases, precisions, xla, devices, batch_sizes
        ):
            yield Cell.model_validate(
                {
                    "model": name,
                    "phase": phase,
                    "precision": precision,
                    "batch_size": batch_size,
                    "device": kind,
                    "devices": count,
                    "data_format": choose_data_format(name, kind),
                    "xla": use_xla,
                    **variant,
                }
            )


def _expand_variants(
    file: SuiteFile, keys: Entries, phases: Sequence[str], devices: Sequence[int]
) -> list[dict[str, str | int]]:
    """Every combination of what only training knows. It must be something else for every phase and number of devices:
    otherwise the same work would be measured under two names."""
    optimizers = file.read_names(keys["optimizers"], "optimizers", get_args(Optimizer)) if "optimizers" in keys else ()
    updates = (
        file.read_names(keys["variable_updates"], "variable_updates", get_args(VariableUpdate))
        if "variable_updates" in keys
        else ()
    )
    calls = file.read_counts(keys["steps_per_call"], "steps_per_call", 10_000) if "steps_per_call" in keys else ()
    training = tuple(phases) == ("train",)
    if set(optimizers) - {"sgd"} and not training:
        raise file.error(keys["optimizers"], "optimizers: only training has one; give it an entry of its own")
    if set(updates) - {"replicated"} and not (training and min(devices) > 1):
        message = "variable_updates: only training on several devices exchanges anything; give it an entry of its own"
        raise file.error(keys["variable_updates"], message)
    if set(calls) - {1} and not (training and tuple(devices) == (1,)):
        message = "steps_per_call: only training on one device takes several; give it an entry of its own"
        raise file.error(keys["steps_per_call"], message)
    return [
        {"optimizer": optimizer, "variable_update": update, "steps_per_call": count}
        for optimizer, update, count in itertools.product(
            optimizers or ("sgd",), updates or ("replicated",), calls or (1,)
        )
    ]


def _read_batch_sizes(file: SuiteFile, node: Node) -> tuple[int, ...]:
    """The sizes; `auto` is 0, as in `Cell`."""
    if isinstance(node, ScalarNode) and node.value == "auto":
        return (0,)
    return file.read_counts(node, "batch_sizes", 1_000_000)


def _check_phases(file: SuiteFile, keys: Entries, models: Sequence[ModelInfo], phases: Sequence[str]) -> None:
    for model in models:
        for phase in phases:
            if phase not in model.phases:
                raise file.error(
                    keys.get("phases", keys["models"]),
                    f"phases: {model.name} has no {phase}; it has {', '.join(model.phases)}",
                    hint="Give it an entry of its own with phases that it has.",
                )


def choose_data_format(model: str, device: str) -> DataFormat:
    """What each kind of device is fastest with: a CPU NHWC (it has no NCHW kernels), a GPU NCHW where the model can."""
    return "NHWC" if device == "cpu" or model in _NHWC_ONLY else "NCHW"
