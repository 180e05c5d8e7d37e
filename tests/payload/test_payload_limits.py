"""Under real limits of the kernel: the out-of-memory killer, and a processor quota. Needs to make control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.model.suite import Cell
from fleet.model.telemetry import CpuTelemetry
from tests.payload import bench

pytestmark = [pytest.mark.needs("root"), pytest.mark.long]
MOUNT = Path("/sys/fs/cgroup")


class Group:
    """A control group of our own; `join` puts the calling process into it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def set(self, **values: str) -> None:
        """Write the first of these files that exists: versions 1 and 2 name them differently."""
        for name, value in values.items():
            file = self.path / name.replace("__", ".")
            if file.exists():
                file.write_text(value)
                return
        pytest.skip(f"control groups: {self.path} has none of {', '.join(values)}")

    def join(self) -> None:
        (self.path / "cgroup.procs").write_text(str(os.getpid()))


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    controller = str(request.param)
    parent = MOUNT / controller if (MOUNT / controller).is_dir() else MOUNT
    path = parent / f"fleet-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"control groups: {path} cannot be made: {error.strerror}")
    yield Group(path)
    path.rmdir()


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize("group", ["memory"], indirect=True)
def test_the_out_of_memory_killer_costs_one_cell(group: Group, tmp_path: Path) -> None:
    group.set(memory__max="1500000000", memory__limit_in_bytes="1500000000")
    # 20,000 images are 12 GB.
    large, larger = (bench.FAST.model_copy(update={"batch_size": size}) for size in (20_000, 20_001))
    spec = bench.write_spec(tmp_path, [large, larger, bench.FAST])
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", preexec=group.join)
    assert (done.returncode, done.stderr) == (0, "")
    oom, skipped, ok = bench.read_cells(tmp_path / "out")
    assert (oom.status, oom.reason, oom.stage, oom.failed) == ("oom", "host_memory", "build", False)
    assert (oom.message or "").startswith("The kernel killed it")
    assert (skipped.status, skipped.reason, skipped.failed) == ("skipped", "larger_than_oom", False)
    assert skipped.message == f"{large.id} did not fit into the host's memory, and this batch is larger."
    assert skipped.duration_s < 1
    assert ok.status == "ok"
    limit = bench.read_system(tmp_path / "out").memory_limit_bytes
    assert limit and 1499000000 < limit <= 1500000000


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize("group", ["memory"], indirect=True)
def test_the_largest_batch_that_fits_is_found_and_measured(group: Group, tmp_path: Path) -> None:
    group.set(memory__max="900000000", memory__limit_in_bytes="900000000")
    auto = Cell(model="alexnet_conv", phase="forward_backward", batch_size=0)
    large = auto.model_copy(update={"batch_size": 4096})
    spec = bench.write_spec(tmp_path, [auto, large, bench.FAST])
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", preexec=group.join)
    assert (done.returncode, done.stderr) == (0, "")
    found, skipped, ok = bench.read_cells(tmp_path / "out")
    # The document is of the cell that was planned, whatever was found.
    assert (found.cell, found.cell_id, found.status) == (auto, auto.id, "ok"), found.message
    search = found.batch_search
    assert search and search.batch_size and search.fails and found.throughput and found.timing
    assert (search.where, search.reason) == ("host", "host_memory")
    assert search.batch_size < search.fails <= search.batch_size + max(1, search.batch_size // 16)
    assert found.throughput.images_per_s == pytest.approx(
        search.batch_size / found.timing.quantiles_us["p50"] * 1e6, rel=1e-6
    )
    assert (skipped.status, skipped.reason) == ("skipped", "larger_than_oom")
    assert f"/b{search.fails}/" in (skipped.message or "")
    assert ok.status == "ok" and ok.batch_search is None


@pytest.mark.parametrize(("quota_us", "seen"), [(100_000, "1 1.0\n"), (8_000, "1 0.08\n")])
@pytest.mark.parametrize("group", ["cpu"], indirect=True)
def test_a_processor_quota_is_respected(group: Group, quota_us: int, seen: str) -> None:
    group.set(cpu__max=f"{quota_us} 100000", cpu__cfs_quota_us=str(quota_us))
    count = "from payload.cgroup import count_cpus, read_cpu_quota; print(count_cpus(), read_cpu_quota())"
    done = subprocess.run(
        [sys.executable, "-c", count], cwd=bench.ROOT, preexec_fn=group.join, capture_output=True, text=True
    )
    assert done.stdout == seen


SAMPLE = """
import json, os, time
from payload.telemetry_cpu import CpuSampler
sampler = CpuSampler(os.getpid())
begin = time.monotonic()
sampler.sample(begin)
{work}
end = time.monotonic()
sampler.sample(end)
print(json.dumps(sampler.summarise(begin, end)))
"""


def sample_within(group: Group, work: str) -> CpuTelemetry:
    """What a process of this group sees of itself while it does this work."""
    argv = [sys.executable, "-c", SAMPLE.format(work=work)]
    done = subprocess.run(argv, cwd=bench.ROOT, preexec_fn=group.join, capture_output=True, text=True, check=True)
    return CpuTelemetry.model_validate_json(done.stdout)


@pytest.mark.parametrize("group", ["cpu"], indirect=True)
def test_throttling_is_seen(group: Group) -> None:
    group.set(cpu__max="10000 100000", cpu__cfs_quota_us="10000")
    seen = sample_within(group, "while time.monotonic() < begin + 2: pass")
    # A tenth of a processor: it runs for 10 ms of every 100, and waits for the rest.
    assert seen.throttled_periods and 10 <= seen.throttled_periods <= 25
    assert seen.throttled_s and 1 < seen.throttled_s < 2.5
    assert seen.cell_cpu_s and 0.1 <= seen.cell_cpu_s <= 0.4


@pytest.mark.parametrize("group", ["memory"], indirect=True)
def test_the_memory_of_the_group_is_seen(group: Group) -> None:
    group.set(memory__max="1000000000", memory__limit_in_bytes="1000000000")
    seen = sample_within(group, "held = b'x' * 300_000_000")
    for held in (seen.process_memory_max_bytes, seen.group_memory_max_bytes):
        assert held and 300_000_000 < held < 500_000_000
