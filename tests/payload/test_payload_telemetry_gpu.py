"""What nvidia-smi says of the GPUs, joined to the timed steps of a real child. nvidia-smi is a recording."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.model.suite import Cell as PlannedCell
from fleet.model.telemetry import Telemetry as TelemetryRecord
from payload import nvidia_smi
from payload.cell import Cell
from payload.environment import make_environment
from payload.process import Stop, run_child
from payload.spec import Rules, describe
from payload.telemetry import Telemetry
from payload.telemetry_gpu import GpuSampler, find_bus_ids, parse_value, select_visible, shorten_bus_id

RECORDINGS = Path(__file__).parent / "smi"
A100 = "GPU-faae5314-b87e-87c0-400b-b7cfb9e7b310"
IDLE = "GPU-7eb57620-43df-977b-0f8d-2b90efa4f2f1"
GPU_CELL = Cell("alexnet_conv", "forward", "fp32", 1, "gpu", 1, "NHWC", False)
CREATED = (
    "2022-03-14 18:56:32.840350: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1525] Created device "
    "/job:localhost/replica:0/task:0/device:GPU:0 with 7446 MB memory:  -> device: 0, name: NVIDIA A100-SXM4-40GB, "
    "pci bus id: 0000:3b:00.0, compute capability: 8.0\n"
)

Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put an nvidia-smi on PATH that plays this recording."""

    def run(name: str) -> None:
        recording = tmp_path / name
        shutil.copy(RECORDINGS / name, recording)
        words = [sys.executable, str(RECORDINGS / "nvidia_smi.py"), str(recording)]
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return run


def measure(seconds: float, output: str = CREATED) -> dict[str, Any]:
    """The telemetry of a GPU cell, whose child is a real one that computes on the CPU for so long."""
    cell = Cell(**PlannedCell(model="alexnet_conv", phase="forward", batch_size=1).model_dump())
    rules = Rules(warmup_steps=1, warmup_s=0, steps=2, min_s=seconds, max_s=seconds, cell_timeout_s=100)
    telemetry = Telemetry(GPU_CELL)
    telemetry.open()
    request = {"kind": "cell", "cell": describe(cell), "rules": describe(rules)}
    ended = run_child(request, make_environment(cell), 100, Stop(), telemetry)
    telemetry.close()
    telemetry.look_again()
    assert ended.result and ended.result["status"] == "ok", ended
    document = telemetry.summarise(output)
    assert document
    read = TelemetryRecord.model_validate(document)
    assert set(document) == set(TelemetryRecord.model_fields)
    assert all(set(gpu) == set(type(read.gpus[0]).model_fields) for gpu in document["gpus"])
    return document


@pytest.mark.needs("tensorflow")
def test_the_gpu_that_was_used_is_found_and_summed_up_over_the_timed_steps(install: Install) -> None:
    install("driver-545-a100.json")
    document = measure(6)
    (gpu,) = document["gpus"]
    window_s = document["window_s"]
    assert (gpu["uuid"], gpu["pci_bus_id"], document["gpus_reason"]) == (A100, "0000:3b:00.0", None)
    # Started long before the window: of its rows only those within count.
    assert 9 <= gpu["samples"] <= 14
    assert gpu["sm_mhz_p50"] == pytest.approx(1395, abs=7.5) and gpu["memory_mhz_p50"] == 1215
    assert gpu["power_w_mean"] == pytest.approx(390, rel=0.02)  # power.draw.instant, not the other two
    assert gpu["energy_j"] == pytest.approx(390 * window_s, rel=0.02)
    assert (gpu["temperature_c_max"], gpu["memory_peak_bytes"]) == (64, 38367 << 20)
    assert (gpu["pcie_gen"], gpu["pcie_width"]) == (4, 16)
    assert gpu["throttle_s"]["sw_power_cap"] == pytest.approx(window_s / 2, rel=0.25)
    assert {name for name, seconds in gpu["throttle_s"].items() if seconds} == {"sw_power_cap"}
    assert (gpu["ecc_corrected_delta"], gpu["ecc_uncorrected_delta"]) == (0, 0)
    assert gpu["others_before"] == [{"pid": 4711, "name": "/usr/bin/python3, of somebody", "memory_bytes": 2048 << 20}]
    assert gpu["others_after"] == []
    assert gpu["reasons"] == {"pcie_replays_delta": "this nvidia-smi does not know it"}
    assert 0 <= document["nvidia_smi_cpu_s"] < window_s


@pytest.mark.needs("tensorflow")
def test_an_old_one_with_half_of_its_values_in_words(install: Install) -> None:
    install("driver-470-v100.json")
    document = measure(2, output="TensorFlow was told not to talk")
    (gpu,) = document["gpus"]
    assert gpu["sm_mhz_p50"] == 1530 and gpu["pcie_gen"] == 3
    bad = {name for name, seconds in gpu["throttle_s"].items() if seconds}
    assert bad == {"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"}
    assert all(gpu["throttle_s"][name] == pytest.approx(document["window_s"]) for name in bad)
    assert gpu["reasons"] == {
        "memory_mhz_p50": "[Unknown Error]",
        "power_w_mean": "[Not Supported]",
        "energy_j": "[Not Supported]",
        "temperature_c_max": "[GPU requires reset]",
        "ecc_corrected_delta": "[N/A]",
        "pcie_replays_delta": "this nvidia-smi does not know it",
    }
    assert all(gpu[key] is None for key in gpu["reasons"])


@pytest.mark.needs("tensorflow")
def test_of_a_window_too_short_no_energy_is_given(install: Install) -> None:
    install("driver-545-a100.json")
    (gpu,) = measure(0.3)["gpus"]
    assert gpu["energy_j"] is None and gpu["reasons"]["energy_j"] == "the window is shorter than 1 s"
    assert gpu["sm_mhz_p50"] in (1380, 1387.5, 1395, 1402.5, 1410)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "no-driver.json",
            "nvidia-smi ended with exit status 9: NVIDIA-SMI has failed because it couldn't communicate",
        ),
        ("hangs.json", "nvidia-smi did not answer within 0.5 s"),
    ],
)
def test_a_broken_one_costs_nothing_but_its_figures(
    install: Install, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    monkeypatch.setattr(nvidia_smi, "_PATIENCE_S", 0.5)
    install(name)
    sampler = GpuSampler()
    begin = time.monotonic()
    sampler.open()
    sampler.sample()
    sampler.close()
    assert time.monotonic() - begin < 5
    assert (sampler.reason or "").startswith(reason)
    assert sampler.summarise((0.0, 1.0), CREATED, 1) == []


def test_a_machine_without_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sampler = GpuSampler()
    sampler.open()
    sampler.close()
    assert sampler.reason == "there is no nvidia-smi here"


def test_it_is_gone_when_it_is_no_longer_needed(install: Install) -> None:
    install("driver-545-a100.json")
    sampler = GpuSampler()
    sampler.open()
    pid = sampler._stream._process.pid if sampler._stream else 0
    assert Path(f"/proc/{pid}").exists()
    sampler.close()
    assert not Path(f"/proc/{pid}").exists()


def test_what_others_held_is_said_of_a_cell_that_did_not_fit(install: Install) -> None:
    install("driver-545-a100.json")
    telemetry = Telemetry(GPU_CELL)
    telemetry.open()
    telemetry.close()
    assert telemetry.describe_foreign_memory() == "Others held 2.1 GB on the GPUs before it started: see nvidia-smi."


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1410", 1410),
        ("52.12", 52.12),
        ("0x00000000000000E8", 0xE8),
        *((words, None) for words in ("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "ERR!", "Active", "")),
        ("[GPU requires reset]", None),
        ("[Insufficient Permissions]", None),
    ],
)
def test_values_and_words_that_are_none(text: str, value: float | None) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize("text", ["00000000:3B:00.0", "0000:3b:00.0", "0000:3B:00.0"])
def test_one_bus_id_in_all_its_forms(text: str) -> None:
    assert shorten_bus_id(text) == "0000:3b:00.0"


def test_tensorflow_s_devices_in_old_and_new_words() -> None:
    old = (
        "Created TensorFlow device (/job:localhost/replica:0/task:0/device:GPU:0 with 14842 MB memory) -> physical GPU "
        "(device: 0, name: Tesla V100-SXM2-16GB, pci bus id: 0004:04:00.0, compute capability: 7.0)\n"
    )
    assert find_bus_ids(CREATED + old) == ["0000:3b:00.0", "0004:04:00.0"]
    assert find_bus_ids("pciBusID: 0000:1a:00.0 name: not used") == []


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, [A100, IDLE]),
        ("1", [IDLE]),
        ("1,0", [IDLE, A100]),
        ("GPU-7eb57620", [IDLE]),
        ("0,5,1", [A100]),
        ("-1", []),
        ("0,²,1", [A100]),
        ("0," + "9" * 5000, [A100]),
        ("MIG-faae5314/1/0", []),
    ],
)
def test_devices_are_counted_as_cuda_counts_them(install: Install, visible: str | None, uuids: list[str]) -> None:
    install("driver-545-a100.json")
    sampler = GpuSampler()
    sampler.open()
    deadline = time.monotonic() + 10
    while len(sampler._gpus) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        sampler.sample()
    sampler.close()
    assert [gpu.uuid for gpu in select_visible(list(sampler._gpus.values()), visible)] == uuids
