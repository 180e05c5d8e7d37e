"""What is measured: cells, and the rules they are measured by."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleet.model.base import Noun

Phase = Literal["train", "forward", "forward_backward"]
Precision = Literal["fp32", "tf32", "fp16", "bf16"]
DataFormat = Literal["NHWC", "NCHW"]
Device = Literal["cpu", "gpu"]
Optimizer = Literal["sgd", "momentum", "rmsprop", "adam"]
VariableUpdate = Literal["replicated", "independent"]


class Cell(Noun):
    """One workload with every parameter fixed."""

    model: str
    phase: Phase = "train"
    precision: Precision = "fp32"
    batch_size: int = Field(ge=0, le=1_000_000)
    """Images per step and replica. 0: the largest that fits, which the payload finds and its result says."""
    device: Device = "cpu"
    devices: int = Field(default=1, ge=0, le=1024)
    """How many devices take part; each gets `batch_size` images a step. 0: all GPUs of the host, which the payload
    counts and its result says."""
    data_format: DataFormat = "NHWC"
    xla: bool = False
    optimizer: Optimizer = "sgd"
    variable_update: VariableUpdate = "replicated"
    """What several devices do with their gradients: `replicated` reduces them, `independent` exchanges nothing, which
    is the ceiling."""
    steps_per_call: int = Field(default=1, ge=1, le=10_000)
    """Training steps in one call of the TensorFlow function; what is timed is the call."""

    @property
    def id(self) -> str:
        """The canonical name, e.g. `resnet50/train/fp32/b32/gpu1/nchw`. Equal cells have equal ids, on every host."""
        batch, devices = f"b{self.batch_size or 'auto'}", f"{self.device}{self.devices or 'all'}"
        parts = [self.model, self.phase, self.precision, batch, devices, self.data_format.lower()]
        return "/".join([*parts, *self.variants])

    @property
    def variants(self) -> tuple[str, ...]:
        """What the cell does otherwise than most, one word each; empty for most."""
        return (
            *(["xla"] if self.xla else []),
            *([self.optimizer] if self.optimizer != "sgd" else []),
            *([self.variable_update] if self.variable_update != "replicated" else []),
            *([f"steps{self.steps_per_call}"] if self.steps_per_call != 1 else []),
        )


class Rules(Noun):
    """How each cell is measured. All limits are upper bounds for one cell."""

    warmup_steps: int = Field(default=10, ge=1, le=1_000_000_000)
    """Steps that are not counted, at least."""
    warmup_s: float = Field(default=0, ge=0, le=1e6)
    """Seconds that are not counted, at least."""
    steps: int = Field(default=100, ge=2, le=1_000_000_000)
    """Timed steps, at least, unless `max_s` ends them before."""
    min_s: float = Field(default=0, ge=0, le=1e6)
    """Seconds of timed steps, at least."""
    max_s: float = Field(default=60, gt=0, le=1e6)
    """Seconds of timed steps, at most. At least two steps are taken whatever they last."""
    cell_timeout_s: float = Field(default=600, gt=0, le=1e6)
    """After this long a cell's process is killed: import, build, warm-up and all. So it is when its first step takes
    half of this, or when none is done for a tenth of it (from 10 to 120 s) and twenty times the median."""
    ci_target: float = Field(default=0, ge=0, lt=1)
    """Timed steps go on, `max_s` at most, until half the 95 % interval of their median is at most this part of it, e.g.
    0.005; 0: no such condition."""
    compat: bool = False
    """As tf_cnn_benchmarks to the letter: its learning rates, with which some losses become NaN (allowed then),
    gradients of several devices added up and not averaged, and exactly so many steps."""
    intra_threads: int = Field(default=0, ge=0, le=10_000)
    """Threads within an operation; 0: chosen by the payload."""
    inter_threads: int = Field(default=0, ge=0, le=10_000)
    """Threads for operations side by side; 0: chosen by the payload."""
    numa_node: int | None = Field(default=None, ge=0, le=1023)
    """The NUMA node whose processors the cell's process is kept to, and whose memory where the container may choose
    it: on a GPU too, whose host side matters. None: to no node."""


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
