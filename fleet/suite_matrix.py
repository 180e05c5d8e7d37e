"""A matrix of cells: some values for each parameter, and every combination of them is a cell."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.model.suite import Cell, DataFormat, Device, ModelInfo, Optimizer, Phase, Precision, VariableUpdate

_NHWC_ONLY = frozenset({"alexnet_conv"})
"""Local response normalisation has no NCHW kernel."""

MAX_CELLS = 10_000
"""Of one suite. More is a slip: it would run for days."""

MAX_BATCH_SIZE = 1_000_000
MAX_DEVICES = 1024
MAX_STEPS_PER_CALL = 10_000
"""As in `Cell`; what is more is a slip."""


class MatrixError(Exception):
    """Values that do not go together.

    Args:
        key: the field of `Matrix` to change.
        message: what is wrong, without the key.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key
        self.message = message


@dataclass(frozen=True)
class Matrix:
    """The values of each parameter; every field is one key of an entry in a suite's `cells`."""

    models: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    """Per device; 0: the largest that fits."""
    on: tuple[Device, ...]
    """The kinds of host that run the cells."""
    phases: tuple[Phase, ...] = ("train",)
    precisions: tuple[Precision, ...] = ("fp32",)
    devices: tuple[int, ...] = (1,)
    """0: all GPUs of the host."""
    xla: tuple[bool, ...] = (False,)
    optimizers: tuple[Optimizer, ...] = ("sgd",)
    variable_updates: tuple[VariableUpdate, ...] = ("replicated",)
    steps_per_call: tuple[int, ...] = (1,)


def expand_matrix(matrix: Matrix, models: Mapping[str, ModelInfo]) -> Iterator[Cell]:
    """Every combination, in the order of the values; each once, however often a value is given.

    Raises:
        MatrixError: before the first cell, when some combinations are no cells, or there are more than `MAX_CELLS`.
    """
    matrix = Matrix(**{key: tuple(dict.fromkeys(values)) for key, values in vars(matrix).items()})
    _check(matrix, models)
    for optimizer, update, calls, kind, name, phase, precision, xla, devices, batch_size in itertools.product(
        matrix.optimizers,
        matrix.variable_updates,
        matrix.steps_per_call,
        matrix.on,
        matrix.models,
        matrix.phases,
        matrix.precisions,
        matrix.xla,
        matrix.devices,
        matrix.batch_sizes,
    ):
        yield Cell(
            model=name,
            phase=phase,
            precision=precision,
            batch_size=batch_size,
            device=kind,
            devices=devices,
            data_format=choose_data_format(name, kind),
            xla=xla,
            optimizer=optimizer,
            variable_update=update,
            steps_per_call=calls,
        )


def choose_data_format(model: str, device: Device) -> DataFormat:
    """What each kind of device is fastest with: a CPU NHWC (it has no NCHW kernels), a GPU NCHW where the model can."""
    return "NHWC" if device == "cpu" or model in _NHWC_ONLY else "NCHW"


def _check(matrix: Matrix, models: Mapping[str, ModelInfo]) -> None:
    """What only training knows must be something else for every phase and number of devices: otherwise the same work
    would be measured under two names."""
    for model, phase in itertools.product((models[name] for name in matrix.models), matrix.phases):
        if phase not in model.phases:
            raise MatrixError("phases", f"{model.name} has no {phase}; it has {', '.join(model.phases)}")
    if math.prod(len(values) for values in vars(matrix).values()) > MAX_CELLS:
        raise MatrixError("models", f"that is more than {MAX_CELLS} cells")
    training = matrix.phases == ("train",)
    if "cpu" in matrix.on and matrix.devices != (1,):
        raise MatrixError("devices", "a CPU host is one device")
    if set(matrix.optimizers) - {"sgd"} and not training:
        raise MatrixError("optimizers", "only training has one")
    if set(matrix.variable_updates) - {"replicated"} and not (training and 1 not in matrix.devices):
        raise MatrixError("variable_updates", "only training on several devices exchanges anything")
    if set(matrix.steps_per_call) - {1} and not (training and matrix.devices == (1,)):
        raise MatrixError("steps_per_call", "only training on one device takes several")
