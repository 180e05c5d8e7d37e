"""The view: everything a report shows, computed once and made inert, for any renderer to lay out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleet.analysis.misconfiguration import Severity
from fleet.model.suite import Cell, Device, Rules

VerdictWord = Literal[
    "OK", "FAILED", "UNREACHABLE", "NOTHING MEASURED", "INTERRUPTED", "RUNNING", "INCOMPLETE", "REGRESSION"
]
EntryKind = Literal["value", "result", "failure", "unplanned"]
"""`result`: no value, yet nothing is wrong (out of memory, a precision the device lacks)."""


@dataclass(frozen=True)
class Found:
    """What was found in a run when it was held against those before it; inert. Nothing, where it was not."""

    changes: tuple[str, ...] = ()
    """A line each, the worst first."""
    regressions: tuple[str, ...] = ()
    """The incidents that are open in it, in short."""
    slower: frozenset[tuple[str, str]] = frozenset()
    """Host and cell of the values that they are about; an empty cell stands for all of the host."""


@dataclass(frozen=True)
class RunHead:
    """Which run this is."""

    run_id: str
    state: Literal["complete", "interrupted", "running", "incomplete"]
    created: str
    """ISO 8601, UTC."""
    finished: str | None
    took_s: float | None
    suite: str
    inventory: str
    limit: str | None
    fleet_version: str
    payload_sha256: str
    rules: Rules


@dataclass(frozen=True)
class VerdictLine:
    """What the run comes to. Totals are what was planned."""

    word: VerdictWord
    hosts_ok: int
    hosts_total: int
    cells_ok: int
    cells_total: int
    coverage: str
    """The same in words: `7/8 hosts, 41/42 cells`."""
    remarks: tuple[str, ...]
    """What explains the difference, e.g. `1 host out of reach`, and what is slower than before."""
    exit_code: int
    regressions: int = 0
    """Incidents that are open in this run."""


@dataclass(frozen=True)
class Entry:
    """One host in one row of the matrix."""

    alias: str
    kind: EntryKind
    word: str = ""
    """Why there is no value: `OOM`, `no gpu`, `unreachable`. Empty for a value and for what was not planned."""
    images_per_s: float | None = None
    """Global batch ÷ median step time."""
    images_per_s_low: float | None = None
    """Where the rate's 95 % interval begins, drift between the halves of the steps included."""
    images_per_s_high: float | None = None
    images_per_s_total: float | None = None
    """All images ÷ the whole time."""
    step_us: float | None = None
    """Median."""
    spread: float | None = None
    """Robust relative scatter of the step times (1.4826 × MAD ÷ median)."""
    steady: bool | None = None
    disturbed: str = ""
    """What others took of the host meanwhile: `31 % of its processors`; empty: nothing that counts, or not known."""
    slower: bool = False
    """Than before: an incident is open."""
    steps: int | None = None
    """Timed steps that count."""
    found: str = ""
    """What the cell left open and the host filled in: `batch 208`, `4 GPUs`."""
    batch_size: int | None = None
    """As measured, per step and device; so are the next."""
    devices: int | None = None
    best: bool = False
    """The highest of its row, or not to be told from it. Nobody is when no host can be told from another."""
    status: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class WordCount:
    """How many hosts of a group have this word in place of a value."""

    word: str
    count: int
    kind: EntryKind


@dataclass(frozen=True)
class GroupEntry:
    """One hardware group in one row of the matrix. Values are images per second."""

    measured: int
    median: float | None = None
    lowest: float | None = None
    highest: float | None = None
    slowest: str = ""
    """The slowest host, where there are at least two."""
    best: bool = False
    found: tuple[str, ...] = ()
    """What the cell left open and the hosts filled in, each once."""
    words: tuple[WordCount, ...] = ()
    """Why the others have no value, most frequent first."""


@dataclass(frozen=True)
class Row:
    """One cell across hosts."""

    cell_id: str
    cell: Cell
    entries: tuple[Entry, ...]
    """One per host of the matrix, in its order."""
    groups: tuple[GroupEntry, ...]
    """One per hardware group of the matrix, in its order."""


@dataclass(frozen=True)
class HardwareGroup:
    """Hosts with identical hardware."""

    label: str
    """Empty: not known."""
    aliases: tuple[str, ...]


@dataclass(frozen=True)
class Matrix:
    """The hosts of one kind of device, and the cells planned for them."""

    device: Device
    hosts: tuple[str, ...]
    groups: tuple[HardwareGroup, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class HostRow:
    """What a host is and how it ended. Empty text and None: not known."""

    alias: str
    status: str
    stage: str
    gpus: str
    """E.g. `8× A100-SXM4-80GB`; `none` when the host is known to have none."""
    cpu: str
    cores: int | None
    threads: int | None
    memory_bytes: int | None
    driver: str
    tensorflow: str
    cuda: str
    container: str
    runtime: str
    """What was asked for: `docker`, `native`."""
    runtime_version: str
    image: str
    image_digest: str
    os: str
    kernel: str
    cells_ok: int
    cells_total: int
    job_s: float | None


@dataclass(frozen=True)
class FailureLine:
    """A host that failed, or cells of one host that failed alike."""

    alias: str
    status: str
    stage: str
    reason: str
    message: str
    hint: str
    cells: tuple[str, ...]
    """Canonical ids; empty: the host itself failed."""
    out_of_reach: bool


@dataclass(frozen=True)
class SettingLine:
    """Something about how hosts are set that somebody should look at, on all hosts where it is the same."""

    check: str
    """`power_limit`, `governor`, …: what was looked at."""
    severity: Severity
    hosts: tuple[str, ...]
    gpus: tuple[int, ...]
    """Indexes of the GPUs; empty: it is of the host itself."""
    evidence: str
    """What was seen."""
    remedy: str
    """What to do; empty: nothing is known."""


@dataclass(frozen=True)
class View:
    """A report, before it is laid out. Every string in it is inert: no escapes, no control characters, capped."""

    run: RunHead
    verdict: VerdictLine
    matrices: tuple[Matrix, ...]
    hosts: tuple[HostRow, ...]
    failures: tuple[FailureLine, ...]
    notes: tuple[str, ...]
    legend: Mapping[str, str]
    """Word in the matrix → what it means, for the words that occur."""
    to_come: str
    """Of which hosts nothing is known yet, and the command that goes on from there; empty: of none."""
    changes: tuple[str, ...] = ()
    """What this run changed against those before it, a line each; empty: it was not held against any."""
    settings: tuple[SettingLine, ...] = ()
    """How hosts are set, what is broken first."""
