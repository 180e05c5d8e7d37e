"""What a machine did while the steps of a cell were timed (part of schema `fleet.result/1`).

None means: not known, and `reasons` says why; never 0.
"""

from __future__ import annotations

from pydantic import Field

from fleet.model.base import Record

CPU_BUSY = 0.1
"""The part of a machine's processors that others keep busy from which on they count: a cell that wants all processors
loses about as much. The daemons of a quiet machine stay below 0.02."""

GPU_BUSY = 0.05
"""The part of a GPU's memory, or of its time, that others take from which on they count. A context that is merely kept
open takes less."""


class CpuTelemetry(Record):
    """The processors during the timed steps, as the payload's parent sampled them from outside the child."""

    frequency_mhz_p50: float | None = None
    """Of up to eight processors that the cell may use."""
    frequency_source: str | None = None
    """`cpufreq` or `cpuinfo`."""
    load1_mean: float | None = None
    """The machine's load average of one minute."""
    cell_cpu_s: float | None = None
    """Processor time of the cell's own process, all threads; in steps of 10 ms."""
    other_busy_share: float | None = None
    """What everything else kept busy of the machine's processors, 0 to 1. A quiet machine is below 0.02."""
    steal_share: float | None = None
    """What the hypervisor gave to others while this machine wanted it, 0 to 1."""
    throttled_periods: int | None = None
    """Periods in which the container had used up its cpu quota."""
    throttled_s: float | None = None
    """What its threads waited for the next period, all together."""
    process_memory_max_bytes: int | None = None
    """Resident set of the cell's process."""
    group_memory_max_bytes: int | None = None
    """The container's memory, file cache included."""
    energy_j: float | None = None
    """All processor packages, by RAPL; of windows from 1 s."""
    reasons: dict[str, str] = Field(default_factory=dict)
    """Why a field is not known, by its name."""


class GpuApp(Record):
    """A process that held a context on a GPU; not the cell's own."""

    pid: int | None = None
    """The host's number, also inside a container."""
    name: str | None = None
    memory_bytes: int | None = None


class GpuTelemetry(Record):
    """One GPU that the cell ran on during the timed steps, by nvidia-smi twice a second."""

    uuid: str
    pci_bus_id: str
    """`0000:65:00.0`, in small letters."""
    samples: int
    sm_mhz_p50: float | None = None
    memory_mhz_p50: float | None = None
    power_w_mean: float | None = None
    """Over time."""
    energy_j: float | None = None
    """The area under the power samples; of windows from 1 s, since the sensor shows only part of the time."""
    temperature_c_max: float | None = None
    throttle_s: dict[str, float] | None = None
    """Seconds by reason: applications_clocks, sw_power_cap, hw_slowdown, sync_boost, sw_thermal, hw_thermal,
    hw_power_brake. sw_power_cap is usual under load; hw_* and sw_thermal are not."""
    memory_peak_bytes: int | None = None
    """All processes together; TensorFlow takes nearly all there is unless told otherwise."""
    pcie_gen: int | None = None
    """The largest seen: links slow down when idle."""
    pcie_width: int | None = None
    ecc_corrected_delta: int | None = None
    """Errors while the child ran, warm-up included; so are the next two."""
    ecc_uncorrected_delta: int | None = None
    pcie_replays_delta: int | None = None
    others_before: tuple[GpuApp, ...] | None = None
    """Who else was on it before the cell started."""
    others_after: tuple[GpuApp, ...] | None = None
    reasons: dict[str, str] = Field(default_factory=dict)
    """Why a field is not known, by its name; nvidia-smi's own words where it had any, e.g. `[N/A]`."""


class Telemetry(Record):
    """What the machine did while the steps were timed."""

    window_s: float
    """From the first timed step's begin to the last one's end."""
    samples: int
    """Of the processors; every 0.5 s, or rarer where a sample costs more than 0.5 % of a core."""
    sampler_cpu_s: float
    """Processor time that sampling took within the window."""
    nvidia_smi_cpu_s: float | None = None
    """Processor time that nvidia-smi took within the window."""
    cpu: CpuTelemetry
    gpus: tuple[GpuTelemetry, ...] = ()
    gpus_reason: str | None = None
    """Why gpus is empty, or what of it is not known."""
