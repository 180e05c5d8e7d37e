"""Cells from the command line: each option is one parameter of a matrix, its values with commas between."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, get_args

from fleet.errors import ConfigError
from fleet.model.suite import Cell, Device, ModelInfo, Phase, Precision, Suite
from fleet.suite_file import suggest_name
from fleet.suite_matrix import MAX_BATCH_SIZE, MAX_DEVICES, Matrix, MatrixError, expand_matrix

NAME = "ad-hoc"

_Name = TypeVar("_Name", bound=str)


@dataclass(frozen=True)
class CellOptions:
    """The values as they were typed, e.g. `32,64`."""

    models: str
    phases: str | None = None
    """None: training; of a model that has none, all it has."""
    precisions: str = "fp32"
    batch_sizes: str = "32"
    """`auto` among them: the largest that fits."""
    devices: str = "1"
    """`all` among them: all GPUs of the host."""


def make_suite(options: CellOptions, models: Mapping[str, ModelInfo]) -> Suite:
    """A suite of every combination, for hosts with GPUs and for CPU hosts, which are one device each.

    Raises:
        ConfigError: it names the option.
    """
    devices = _read_counts("devices", options.devices, MAX_DEVICES, "all")
    cells: dict[Cell, None] = {}
    names = _read_names("models", options.models, tuple(models))
    phases = _read_names("phases", options.phases, get_args(Phase)) if options.phases is not None else None
    precisions = _read_names("precisions", options.precisions, get_args(Precision))
    batch_sizes = _read_counts("batch-sizes", options.batch_sizes, MAX_BATCH_SIZE, "auto")
    for kind, name in itertools.product(get_args(Device), names):
        usual: tuple[Phase, ...] = ("train",) if "train" in models[name].phases else models[name].phases
        matrix = Matrix(
            models=(name,),
            phases=phases or usual,
            precisions=precisions,
            batch_sizes=batch_sizes,
            devices=devices if kind == "gpu" else (1,),
            on=(kind,),
        )
        try:
            cells |= dict.fromkeys(expand_matrix(matrix, models))
        except MatrixError as e:
            hint = "Ask for it in a run of its own, or write a suite."
            raise ConfigError(e.message, file=f"--{e.key}", hint=hint) from e
    return Suite(name=NAME, description="asked for on the command line", cells=tuple(cells))


def _split(option: str, text: str) -> Iterator[str]:
    for word in text.split(","):
        if not word.strip():
            raise ConfigError(f"there is a value missing in {text!r}", file=f"--{option}")
        yield word.strip()


def _read_names(option: str, text: str, known: Sequence[_Name]) -> tuple[_Name, ...]:
    names = []
    for word in _split(option, text):
        found = next((name for name in known if name == word), None)
        if found is None:
            hint = f"Known are {', '.join(known)}."
            message = f"{word[:80]!r} is not known{suggest_name(word, known)}"
            raise ConfigError(message, file=f"--{option}", hint=hint)
        names.append(found)
    return tuple(names)


def _read_counts(option: str, text: str, maximum: int, open_word: str) -> tuple[int, ...]:
    """Whole numbers; `open_word` is 0."""
    counts = []
    for word in _split(option, text):
        count = 0 if word == open_word else int(word) if word.isascii() and word.isdigit() and len(word) < 10 else -1
        if not (word == open_word or 1 <= count <= maximum):
            message = f"{word[:80]!r} is not a whole number from 1 to {maximum} or {open_word}"
            raise ConfigError(message, file=f"--{option}")
        counts.append(count)
    return tuple(counts)
