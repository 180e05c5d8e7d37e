"""What a report shows beyond the matrix: curves, ratios, step times, energy, and each host on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleet.model.suite import Device, Precision
from fleet.report.view_model import EntryKind


@dataclass(frozen=True)
class Standing:
    """How fast a host, or a set of identical ones, is beside the best of each cell."""

    label: str
    aliases: tuple[str, ...]
    relative: float
    """Geometric mean over its cells of its rate ÷ the best rate of that cell; of several hosts the median. 0 to 1."""
    lowest: float
    slowest: str
    """The host with the lowest, where there are at least two."""
    cells: int
    """In how many cells it has a value; of several hosts the most."""
    behind: int
    """In how many of them it can be told from the best; of several hosts the most."""


@dataclass(frozen=True)
class Standings:
    """All of one kind of device, the fastest first; those without a value are left out."""

    device: Device
    cells: int
    """Cells of which there is a value to compare with."""
    lines: tuple[Standing, ...]
    by_host: dict[str, float]


@dataclass(frozen=True)
class BatchPoint:
    """One batch size on one line; either a rate or a word for why there is none."""

    batch_size: int
    images_per_s: float | None
    word: str = ""
    kind: EntryKind = "value"


@dataclass(frozen=True)
class BatchLine:
    """A host, or a set of identical ones, over batch sizes, in ascending order."""

    label: str
    points: tuple[BatchPoint, ...]
    best: int | None
    """The batch size with the highest rate."""
    enough: int | None
    """The smallest with 95 % of that rate."""
    memory_ends: int | None
    """The smallest that ran out of memory."""


@dataclass(frozen=True)
class BatchCurve:
    """One workload over batch sizes per device."""

    device: Device
    workload: str
    lines: tuple[BatchLine, ...]


@dataclass(frozen=True)
class ScalingPoint:
    """One number of devices on one line."""

    devices: int
    images_per_s: float | None
    efficiency: float | None = None
    """(rate ÷ devices) ÷ (rate ÷ devices of the smallest number measured): weak scaling, the batch is per device."""
    word: str = ""
    kind: EntryKind = "value"


@dataclass(frozen=True)
class ScalingLine:
    label: str
    base: int
    """The number of devices that the efficiency is relative to."""
    points: tuple[ScalingPoint, ...]


@dataclass(frozen=True)
class ScalingCurve:
    """One workload over numbers of devices."""

    workload: str
    lines: tuple[ScalingLine, ...]


@dataclass(frozen=True)
class Ratio:
    """A quotient of two rates; None with a word where one of them is missing."""

    value: float | None
    word: str = ""


@dataclass(frozen=True)
class PrecisionRow:
    """One workload in one precision, against fp32 on the same host."""

    workload: str
    family: str
    """Its model, phase and precision, without the rest."""
    precision: Precision
    ratios: tuple[Ratio, ...]


@dataclass(frozen=True)
class PrecisionGain:
    device: Device
    labels: tuple[str, ...]
    rows: tuple[PrecisionRow, ...]


@dataclass(frozen=True)
class DeviceRow:
    """One workload on one kind of CPU host, and how many times as fast each kind of GPU is."""

    workload: str
    cpu: str
    cpu_images_per_s: float
    batches: str
    """`batch 32 on both`, or which batch each has, where no size is measured on both: then the fastest of each."""
    ratios: tuple[Ratio, ...]


@dataclass(frozen=True)
class DeviceRatios:
    """One GPU against all processors of a CPU host, by kinds of hardware."""

    labels: tuple[str, ...]
    rows: tuple[DeviceRow, ...]


@dataclass(frozen=True)
class StepTrace:
    """The timed steps of one cell on one host, in order."""

    alias: str
    cell_id: str
    places: tuple[int, ...]
    """Numbers of the steps, from 1; of many steps the fastest and the slowest of each stretch."""
    step_us: tuple[int, ...]
    steps: int
    dropped_steps: int
    """So many of the first turned out to be warm-up still."""
    warmup_steps: int
    warmup_s: float
    """Warm-up before the first timed step."""
    median_us: float
    p05_us: float
    p95_us: float
    edges_us: tuple[float, ...]
    """Of the bins of all steps that count; one more than `counts`."""
    counts: tuple[int, ...]
    steady: bool


@dataclass(frozen=True)
class StepTraces:
    """The cells whose steps are worth a look: those that are not steady first, then by scatter."""

    traces: tuple[StepTrace, ...]
    measured: int
    """Cells with step times, on all hosts."""


@dataclass(frozen=True)
class EnergyReading:
    """What one cell took on one host; of several hosts the medians. None: not known."""

    images_per_j: float | None
    power_w: float | None
    """Mean of one card, or of all processor packages together."""
    limit_share: float | None
    """That power ÷ the card's limit in force; the highest of its cards."""


@dataclass(frozen=True)
class EnergyRow:
    workload: str
    family: str
    """Its model, phase and precision, without the rest."""
    readings: tuple[EnergyReading | None, ...]


@dataclass(frozen=True)
class Energy:
    """Images per joule. GPUs: what the cards that took part drew together. CPUs: all processor packages, by RAPL."""

    device: Device
    labels: tuple[str, ...]
    rows: tuple[EnergyRow, ...]


@dataclass(frozen=True)
class CellReading:
    """One cell on one host, with what the machine did meanwhile. None and empty: not known."""

    cell_id: str
    file: str
    """The cell's own document, relative to the host's directory; empty: there is none."""
    status: str
    kind: EntryKind
    word: str
    message: str
    images_per_s: float | None
    step_ms: float | None
    p95_ms: float | None
    spread: float | None
    marks: str
    """`~` not steady, `!` others used the host meanwhile."""
    clock_mhz: float | None
    power_w: float | None
    """All cards together."""
    temperature_c: float | None
    throttled_s: float | None
    """Because of heat or a power brake, the longest of its cards; of a CPU: by the container's quota."""
    memory_bytes: int | None


@dataclass(frozen=True)
class CardFact:
    """A GPU and how it is set, as text; empty: not known."""

    name: str
    uuid: str
    vbios: str
    power: str
    """`350 W`, or `230 W of 350 W` where the limit in force is below the default."""
    ecc: str
    mig: str
    persistence: str


@dataclass(frozen=True)
class HostDetail:
    """One host: its files, its cards, its cells. What else it is stands in its `HostRow`."""

    alias: str
    directory: str
    """Relative to the run's directory, with `/`; each part is safe as a file name."""
    files: tuple[str, ...]
    """Relative to `directory`; cells' documents are not among them."""
    facts: tuple[tuple[str, str], ...]
    """Name and value of what the host's row has no room for."""
    cards: tuple[CardFact, ...]
    cells: tuple[CellReading, ...]
    left_out: int
    """Cells with nothing to mind, which the matrix shows and `cells` does not."""


@dataclass(frozen=True)
class Omission:
    """A view that has nothing to show in this run."""

    view: Literal["standing", "batch", "scaling", "precision", "devices", "steps", "energy"]
    reason: str


@dataclass(frozen=True)
class Details:
    standings: tuple[Standings, ...]
    batches: tuple[BatchCurve, ...]
    scaling: tuple[ScalingCurve, ...]
    precision: tuple[PrecisionGain, ...]
    devices: DeviceRatios | None
    steps: StepTraces | None
    energy: tuple[Energy, ...]
    hosts: tuple[HostDetail, ...]
    omissions: tuple[Omission, ...]
