"""What came out: one document per cell and one per host, and how a host ended (schema `fleet.result/1`)."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import ConfigDict, Field

from fleet.model.base import Record
from fleet.model.facts import HostFacts, Software
from fleet.model.suite import Cell
from fleet.model.telemetry import GpuApp, Telemetry


class Stage(StrEnum):
    """Where in the work on a host something happened, in order."""

    CONNECT = "connect"
    PROBE = "probe"
    PUSH = "push"
    START = "start"
    PULL = "pull"
    LAUNCH = "launch"
    RUN = "run"
    COLLECT = "collect"
    CLEAN = "clean"


class HostStatus(StrEnum):
    OK = "ok"
    PARTIAL = "partial"
    """Some cells failed, some were measured."""
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    AUTH_FAILED = "auth_failed"
    HOST_KEY_UNKNOWN = "host_key_unknown"
    HOST_KEY_CHANGED = "host_key_changed"
    PREFLIGHT_FAILED = "preflight_failed"
    BUSY = "busy"
    LOST = "lost"
    """The job is gone: the machine rebooted, or somebody killed it."""
    CONTACT_LOST = "contact_lost"
    """The job may still be running; the host does not answer any more."""
    RESULT_INVALID = "result_invalid"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    @property
    def out_of_reach(self) -> bool:
        """Nobody got as far as the host's shell."""
        return self in {
            HostStatus.UNREACHABLE,
            HostStatus.AUTH_FAILED,
            HostStatus.HOST_KEY_UNKNOWN,
            HostStatus.HOST_KEY_CHANGED,
        }


class CellStatus(StrEnum):
    OK = "ok"
    OOM = "oom"
    UNSUPPORTED = "unsupported"
    TIMEOUT = "timeout"
    CRASH = "crash"
    INVALID = "invalid"
    SKIPPED = "skipped"
    LOST = "lost"
    """Planned, and no document of it came back."""


class Timing(Record):
    """Step times of a cell. Microseconds of wall time, one entry a timed step.

    Where a cell takes several steps a call, a step here is one call.
    """

    warmup_steps: int
    warmup_s: float
    """Import and build not counted, tracing counted."""
    steps: int
    dropped_steps: int = 0
    """So many of the first timed steps turned out to be warm-up still. They are in `steps`, `total_s` and `steps_us`;
    all figures below those are of the others."""
    total_s: float
    """Wall time of all timed steps, what lies between them included."""
    steps_us: str
    """base64(zlib(int32 little-endian: the first step time, then the differences))."""
    quantiles_us: dict[Literal["p05", "p25", "p50", "p75", "p95", "p99"], float]
    mean_us: float
    sd_us: float
    """Population standard deviation."""
    mad_us: float
    """Median absolute deviation, not scaled."""
    ci95_us: tuple[float, float]
    """95 % interval of the median."""
    halves_ratio: float
    """Median of the second half ÷ median of the first."""
    steady: bool
    """The halves' medians differ by at most 1 %."""
    ended_by: Literal["rules", "max_s"] | None = None
    """Whether the steps, seconds and certainty that the rules ask for were reached, or the time was up before."""
    cpu_s: float | None = None
    """Processor time of the process and all its threads during the timed steps."""
    load1: float | None = None
    """Load average of the machine over the last minute, at the end."""


class Throughput(Record):
    """Images per second, all devices together."""

    images_per_s: float
    """Global batch ÷ median step time: the headline."""
    images_per_s_total: float
    """Images of all timed steps ÷ total_s: what `tf_cnn_benchmarks` calls total images/sec."""
    images_per_s_per_device: float | None = None
    """images_per_s ÷ devices: they all wait for the slowest at the end of a step."""


class Loss(Record):
    first: float | None = None
    last: float | None = None
    finite: bool | None = None
    """None: the phase has no loss. False in a cell that is ok: the rules allowed it (`compat`)."""


class Workload(Record):
    """The model as it was built."""

    input_shape: tuple[int, ...]
    parameters: int
    forward_flops: int | None = None
    """Of one image; 2 × multiply-adds."""


class Execution(Record):
    """How TensorFlow was set for the cell."""

    intra_threads: int
    """Threads within an operation."""
    inter_threads: int
    """Threads for operations side by side."""
    tf32_allowed: bool | None = None
    """TensorFlow's own word; None: this version has none."""
    multiply_bits: int | None = None
    """Bits after the point that survived a float32 matrix product on the device: 23; 10 is TF32. None: not asked,
    because the precision is another."""
    reduction: str | None = None
    """How gradients were summed up over the devices: `nccl` or `copy`; None: they were not."""
    devices: int | None = Field(default=None, ge=1, le=1024)
    """How many took part."""
    compat: bool = False
    """Measured as tf_cnn_benchmarks does to the letter: see the rule of this name."""
    numa_nodes: tuple[int, ...] | None = None
    """The NUMA nodes whose processors the process was allowed to use; None: the kernel names none."""
    memory_bound: bool | None = None
    """Whether the kernel took memory from the rules' `numa_node` alone. False: it did not let the process choose, and
    memory was the node's as far as there was room. None: the rules name no node."""


class Memory(Record):
    peak_bytes: int | None = None
    source: str | None = None
    """`device` (TensorFlow's allocator) or `process` (resident set)."""
    reason: str | None = None
    """Why peak_bytes is not known."""


class BatchSearch(Record):
    """How the largest batch was found, for a cell that left its size open."""

    batch_size: int | None = None
    """What the figures are for: the largest that fitted. None: none did."""
    fails: int | None = None
    """The smallest that did not. None: even the largest that is tried (65,536) fitted."""
    where: Literal["device", "host"] | None = None
    """Whose memory did not suffice for it. None: it failed for another reason, see `reason`."""
    attempts: int
    """Children it took, the measuring one not counted."""
    reason: str | None = None
    """Why `fails` failed."""


WITHOUT_GPU = frozenset(
    {
        "no_gpu",
        "driver_upgraded_no_reboot",
        "driver_too_old",
        "fabric_manager",
        "gpu_exclusive",
        "nvml_permissions",
        "gpu_lost_from_container",
        "driver_not_loaded",
        "gpu_hidden",
        "cuda_unknown_error",
        "gpu_libraries_missing",
        "cuda_init",
    }
)
"""Reasons for which a cell is unsupported because the machine lacks a GPU that it was said to have."""


class CellResult(Record):
    """One cell, as the payload wrote it."""

    schema_: Literal["fleet.result/1"] = Field(alias="schema")
    kind: Literal["cell"]
    protocol: int
    payload_sha256: str
    run_id: str
    job_id: str
    alias: str
    attempt: int = 1
    index: int = Field(ge=0)
    """Place of the cell in the job."""
    cell_id: str
    cell: Cell
    status: CellStatus
    stage: str
    """How far the child got: `start`, `import`, `build`, `warmup`, `measure`, `done`."""
    reason: str | None = None
    message: str | None = None
    """A sentence for people, with what to do next."""
    started_unix_s: float
    duration_s: float
    timing: Timing | None = None
    throughput: Throughput | None = None
    loss: Loss | None = None
    workload: Workload | None = None
    memory: Memory | None = None
    batch_search: BatchSearch | None = None
    """Where the cell's `batch_size` is 0."""
    telemetry: Telemetry | None = None
    """None: no step was timed."""
    execution: Execution | None = None
    device_name: str | None = None
    """What TensorFlow calls the device it measured on."""
    log_tail: str | None = None
    """The end of the child's output, when it did not end well."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    @property
    def measured(self) -> Cell:
        """The cell with what it left open filled in: the batch size and the number of devices that were found."""
        found: dict[str, int] = {}
        if self.cell.batch_size == 0 and self.batch_search and self.batch_search.batch_size:
            found["batch_size"] = self.batch_search.batch_size
        if self.cell.devices == 0 and self.execution and self.execution.devices:
            found["devices"] = self.execution.devices
        return self.cell.model_copy(update=found)

    @property
    def failed(self) -> bool:
        """Something is wrong with the machine. Out of memory and an unsupported precision are results, not failures."""
        if self.status in {CellStatus.TIMEOUT, CellStatus.CRASH, CellStatus.INVALID, CellStatus.LOST}:
            return True
        return self.status == CellStatus.UNSUPPORTED and self.reason in WITHOUT_GPU


class SystemResult(Record):
    """The payload's one document per host: what it ran on."""

    schema_: Literal["fleet.result/1"] = Field(alias="schema")
    kind: Literal["host"]
    protocol: int
    payload_sha256: str
    run_id: str
    job_id: str
    alias: str
    software: Software
    gpus_usable: int | None = None
    """What TensorFlow sees; parts of one GPU (MIG) count as one."""
    cpus_usable: int | None = None
    """Logical processors the container may use (affinity and cgroup quota), at least 1."""
    cpu_quota: float | None = None
    """Processors' worth of time that the control groups allow, 0.5 is half of one; None: there is no quota."""
    memory_limit_bytes: int | None = None
    """The lowest of the control groups around the payload; None: there is none."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)


class HostOutcome(Record):
    """How a planned host ended. Exactly one per host and run (`hosts/<alias>/host.json`)."""

    schema_: Literal["fleet.host/1"] = Field(default="fleet.host/1", alias="schema")
    alias: str
    job_id: str
    status: HostStatus
    stage: Stage
    reason: str | None = None
    message: str = ""
    """A sentence for people; empty when ok."""
    hint: str = ""
    """What to do next."""
    leftover: str = ""
    """The job's directory, when it could not be removed from the host for certain."""
    started: str | None = None
    """ISO 8601, UTC, our clock: first connection."""
    finished: str | None = None
    job_s: float | None = None
    """How long the job ran on the host, by the host's clock."""
    facts: HostFacts | None = None
    software: Software | None = None
    cpus_usable: int | None = None
    """As in `SystemResult`, and so are the next two."""
    cpu_quota: float | None = None
    memory_limit_bytes: int | None = None
    others_after: dict[str, tuple[GpuApp, ...]] | None = None
    """Who was on the GPUs when the job had ended, by the GPU's UUID, as the host itself sees it. None: not known."""
    cells: tuple[CellResult, ...] = ()
    """One for every planned cell when the job was started; `lost` stands for documents that did not come."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    @property
    def processors(self) -> float | None:
        """Of the machine's, how many the payload could use at most: 0.5 where half of one's time is allowed."""
        quota = self.cpu_quota
        return self.cpus_usable if quota is None or self.cpus_usable is None else min(self.cpus_usable, quota)

    @property
    def collected(self) -> bool:
        """What the job gave is all here: nothing on the host is needed any more."""
        lost = self.status is HostStatus.CONTACT_LOST or self.stage is Stage.COLLECT or self.reason == "internal"
        return not lost


class RunSummary(Record):
    """Written last: the run is complete (`run.json`)."""

    schema_: Literal["fleet.run/1"] = Field(default="fleet.run/1", alias="schema")
    run_id: str
    started: str
    finished: str
    interrupted: bool = False
    hosts: dict[str, HostStatus]
    """Every planned alias."""
    cells_ok: int | None = None
    cells_total: int | None = None
    """Planned, on all hosts."""
    exit_code: int

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)
