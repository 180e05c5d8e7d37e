"""What the processors did meanwhile, measured on this machine; RAPL, which it may lack, from a tree of its own."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.model.suite import Rules
from fleet.model.telemetry import CpuTelemetry, Telemetry
from payload import telemetry
from payload.cell import Cell
from payload.procfs import read_cpu_s
from payload.series import Series
from payload.telemetry_cpu import CpuSampler
from tests.payload import bench

CPU_CELL = Cell("alexnet_conv", "forward", "fp32", 1, "cpu", 1, "NHWC", False)


@pytest.mark.needs("tensorflow")
def test_it_is_joined_to_the_timed_steps_and_costs_next_to_nothing(tmp_path: Path) -> None:
    rules = Rules(warmup_steps=3, steps=2, min_s=4, max_s=4, cell_timeout_s=100)
    spec = bench.write_spec(tmp_path, [bench.FAST, bench.FAST.model_copy(update={"data_format": "NCHW"})], rules)
    assert bench.run_payload("run", spec, "--out", tmp_path / "out").returncode == 0
    cell, refused = bench.read_cells(tmp_path / "out")
    assert refused.telemetry is None
    assert cell.telemetry and cell.timing
    seen, cpu = cell.telemetry, cell.telemetry.cpu
    assert seen.window_s == pytest.approx(cell.timing.total_s, abs=0.1)
    assert 5 <= seen.samples <= 11
    assert seen.sampler_cpu_s < 0.01 * seen.window_s
    assert (seen.gpus, seen.gpus_reason, seen.nvidia_smi_cpu_s) == ((), "the cell ran on no GPU", None)
    cores = os.cpu_count() or 1
    assert cpu.cell_cpu_s and 0.01 * seen.window_s < cpu.cell_cpu_s < 1.05 * cores * seen.window_s
    assert cpu.other_busy_share is not None and 0 <= cpu.other_busy_share <= 1
    assert cpu.steal_share is not None and 0 <= cpu.steal_share <= 1
    assert cpu.load1_mean is not None and cpu.load1_mean >= 0
    # TensorFlow alone holds more than 100 MB.
    assert cpu.process_memory_max_bytes and cpu.process_memory_max_bytes > 1e8
    assert (cpu.frequency_mhz_p50 is None) == (cpu.frequency_source is None)
    assert set(cpu.reasons) == {key for key, value in cpu.model_dump().items() if value is None} - {"frequency_source"}


def test_what_it_says_of_the_frequency_is_what_the_kernel_says() -> None:
    cpufreq = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq").exists()
    cpuinfo = re.search(r"^cpu MHz", Path("/proc/cpuinfo").read_text(), re.M) is not None
    seen = sample(CpuSampler(os.getpid()), seconds=0.1)
    assert seen.frequency_source == ("cpufreq" if cpufreq else "cpuinfo" if cpuinfo else None)
    assert seen.frequency_mhz_p50 is None or 100 < seen.frequency_mhz_p50 < 10_000


@pytest.fixture
def spinning() -> Iterator[int]:
    """The number of a process that computes without end."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process.pid
    process.kill()
    process.wait()


def sample(sampler: CpuSampler, seconds: float) -> CpuTelemetry:
    begin_s = time.monotonic()
    sampler.sample(begin_s)
    time.sleep(seconds)
    end_s = time.monotonic()
    sampler.sample(end_s)
    document = sampler.summarise(begin_s, end_s)
    assert set(document) == set(CpuTelemetry.model_fields)
    return CpuTelemetry.model_validate(document)


def test_a_busy_neighbour_is_told_from_the_cell(spinning: int) -> None:
    time.sleep(0.2)
    before = read_cpu_s(spinning)
    of_neighbour = sample(CpuSampler(os.getpid()), seconds=2)
    spent = (read_cpu_s(spinning) or 0) - (before or 0)
    assert spent > 0.1
    assert of_neighbour.cell_cpu_s is not None and of_neighbour.cell_cpu_s <= 0.1
    # Its share of all the machine's processors, which others may be using as well.
    assert of_neighbour.other_busy_share is not None
    assert of_neighbour.other_busy_share >= 0.7 * spent / (2 * (os.cpu_count() or 1))
    before = read_cpu_s(spinning)
    of_cell = sample(CpuSampler(spinning), seconds=1)
    spent = (read_cpu_s(spinning) or 0) - (before or 0)
    assert of_cell.cell_cpu_s == pytest.approx(spent, abs=0.05)


def test_of_a_window_too_short_no_processor_time_is_given() -> None:
    seen = sample(CpuSampler(os.getpid()), seconds=0.05)
    assert (seen.cell_cpu_s, seen.other_busy_share, seen.energy_j) == (None, None, None)
    assert seen.reasons["cell_cpu_s"] == "the window is shorter than 0.2 s"


def test_a_child_that_is_gone_leaves_no_figures() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    seen = sample(CpuSampler(process.pid), seconds=0.3)
    assert (seen.cell_cpu_s, seen.process_memory_max_bytes, seen.other_busy_share) == (None, None, None)
    assert seen.reasons["cell_cpu_s"] == "not sampled"


class Powercap:
    """A tree such as Documentation/power/powercap/powercap.rst of the kernel describes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.add("intel-rapl:0", "package-0", 1_000_000)
        self.add("intel-rapl:1", "package-1", 5_000_000)
        self.add("intel-rapl:0:0", "core", 77)
        self.add("intel-rapl:2", "psys", 99)

    def add(self, zone: str, name: str, energy_uj: int) -> None:
        (self.root / zone).mkdir()
        (self.root / zone / "name").write_text(name + "\n")
        (self.root / zone / "max_energy_range_uj").write_text("6000000\n")
        self.spend(zone, energy_uj)

    def spend(self, zone: str, energy_uj: int) -> None:
        (self.root / zone / "energy_uj").write_text(f"{energy_uj}\n")


def test_energy_is_that_of_all_packages_across_the_end_of_a_counter(tmp_path: Path) -> None:
    powercap = Powercap(tmp_path)
    sampler = CpuSampler(os.getpid(), str(tmp_path))
    sampler.sample(10.0)
    powercap.spend("intel-rapl:0", 3_000_000)  # 2 J
    powercap.spend("intel-rapl:1", 500_000)  # 1 J to the end of the range, and 0.5 J from its beginning
    sampler.sample(12.0)
    assert sampler.summarise(10.0, 12.0)["energy_j"] == pytest.approx(3.5)
    assert sampler.summarise(10.0, 11.0)["energy_j"] == pytest.approx(1.75)
    assert sampler.summarise(10.0, 10.9)["reasons"]["energy_j"] == "the window is shorter than 1 s"


def test_energy_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    Powercap(tmp_path)
    for file in tmp_path.glob("*/energy_uj"):
        file.unlink()
        file.mkdir()  # Reading fails for root, too.
    sampler = CpuSampler(os.getpid(), str(tmp_path))
    sampler.sample(10.0)
    sampler.sample(12.0)
    assert sampler.summarise(10.0, 12.0)["reasons"]["energy_j"] == "RAPL is there, and only root may read it"


def test_a_sample_costs_less_than_a_hundredth_of_a_core() -> None:
    sampler = CpuSampler(os.getpid())
    before = time.process_time()
    for _ in range(50):
        sampler.sample(time.monotonic())
    assert (time.process_time() - before) / 50 < 0.01 * telemetry.INTERVAL_S


def test_where_a_sample_is_dear_they_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    def burn(self: Any, at_s: float) -> None:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass

    monkeypatch.setattr(CpuSampler, "sample", burn)
    follower = telemetry.Telemetry(CPU_CELL)
    follower.begin(os.getpid())
    begin_s = time.monotonic()
    follower.take({"event": "stage", "stage": "measure", "at_s": begin_s})
    while time.monotonic() < begin_s + 3:
        follower.tick()
        time.sleep(0.05)
    follower.take({"event": "window", "begin_s": begin_s, "end_s": begin_s + 3})
    document = follower.summarise("")
    assert document and Telemetry.model_validate(document).samples == 2


def test_a_series_is_cut_to_its_window() -> None:
    series = Series()
    for second in range(10):
        series.add(second, second * second)
    series.add(10, None)
    assert series.clip(2, 4) == [4, 9, 16]
    assert series.clip(2.4, 2.6) == [4] and series.clip(50, 51) == []
    assert series.find_growth(2.5, 4) == 16 - 6.5
    assert series.find_growth(-math.inf, math.inf) == 81
    assert series.integrate(1, 3) == (1 + 4) / 2 + (4 + 9) / 2
    assert series.integrate(2.5, 3.5) == (6.5 + 9) / 4 + (9 + 12.5) / 4
    assert series.integrate(2.1, 2.2) is None
    assert (Series().clip(0, 1), Series().find_growth(0, 1), Series().integrate(0, 1)) == ([], None, None)


def test_a_very_long_series_is_thinned_and_keeps_its_ends() -> None:
    series = Series()
    for number in range(100_000):
        series.add(number, 2 * number)
    assert series.find_growth(-math.inf, math.inf) == pytest.approx(2 * 99_999)
    assert len(series.clip(-math.inf, math.inf)) < 4096
    assert series.find_growth(20_000, 80_000) == pytest.approx(120_000)
