"""What is measured: cells, and the rules they are measured by."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleet.model.base import Noun

Phase = Literal["train", "forward", "forward_backward"]
Precision = Literal["fp32", "tf32", "fp16", "bf16"]
DataFormat = Literal["NHWC", "NCHW"]
Device = Literal["cpu", "gpu"]


class Cell(Noun):
    """One workload with every parameter fixed."""

    model: str
    phase: Phase = "train"
    precision: Precision = "fp32"
    batch_size: int = Field(ge=1, le=1_000_000)
    """Images per step and replica."""
    device: Device = "cpu"
    devices: int = Field(default=1, ge=1, le=1024)
    """How many devices take part; each gets `batch_size` images a step."""
    data_format: DataFormat = "NHWC"
    xla: bool = False

    @property
    def id(self) -> str:
        """The canonical name, e.g. `resnet50/train/fp32/b32/gpu1/nchw`. Equal cells have equal ids, on every host."""
        parts = [self.model, self.phase, self.precision, f"b{self.batch_size}", f"{self.device}{self.devices}"]
        return "/".join([*parts, self.data_format.lower(), *(["xla"] if self.xla else [])])


class Rules(Noun):
    """How each cell is measured. All limits are upper bounds for one cell."""

    warmup_steps: int = Field(default=10, ge=1)
    """Steps that are not counted, at least."""
    warmup_s: float = Field(default=0, ge=0)
    """Seconds that are not counted, at least."""
    steps: int = Field(default=100, ge=2)
    """Timed steps, at least, unless `max_s` ends them before."""
    min_s: float = Field(default=0, ge=0)
    """Seconds of timed steps, at least."""
    max_s: float = Field(default=60, gt=0)
    """Seconds of timed steps, at most. At least two steps are taken whatever they last."""
    cell_timeout_s: float = Field(default=600, gt=0)
    """After this long a cell's process is killed: import, build, warm-up and all."""


class Suite(Noun):
    """A named list of cells for each kind of device, with its measuring rules."""

    name: str
    description: str = ""
    rules: Rules = Rules()
    cells: tuple[Cell, ...]

    def cells_for(self, device: Device) -> tuple[Cell, ...]:
        """The cells for hosts of this kind, in the order of the suite."""
        return tuple(c for c in self.cells if c.device == device)


class ModelInfo(Noun):
    """What the payload's catalogue says of a model."""

    name: str
    input_shape: tuple[int, int, int]
    """Height, width, channels of an image; of a text: tokens, 1, 1."""
    parameters: int
    forward_macs: int
    """Multiply-adds of one image's forward pass: convolutions and matrix products only."""
    phases: tuple[Phase, ...]
    source: str
    """Where the definition comes from."""
