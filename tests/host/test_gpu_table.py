"""What nvidia-smi prints. There is no GPU here: the tables have the columns, the units and the words that drivers of
these generations are publicly reported to print; the values are made up where no report gives them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleet.host.facts import read_gpus
from fleet.host.framing import Shell
from fleet.host.probe import probe_host
from fleet.model.facts import Gpu
from fleet.model.inventory import Settings
from fleet.store.rundir import Store
from fleet.transport.local import LocalTransport
from tests.conftest import LabHosts, RunFleet
from tests.lab.inventory import write_inventory

TABLES = Path(__file__).with_name("smi")
MIB = 1 << 20


def read_table(name: str) -> tuple[Gpu, ...]:
    return read_gpus((TABLES / f"{name}.csv").read_text().strip())


H100 = Gpu(
    index=0,
    uuid="GPU-3b84c06a-611d-8e07-2726-44a868f646fe",
    name="NVIDIA H100 80GB HBM3",
    pci_bus_id="00000000:0A:00.0",
    vbios="96.00.99.00.01",
    memory_bytes=81559 * MIB,
    power_limit_w=650.0,
    power_default_w=700.0,
    power_max_w=700.0,
    clock_sm_max_mhz=1980.0,
    clock_mem_max_mhz=2619.0,
    ecc="Enabled",
    mig="Disabled",
    persistence="Enabled",
    pcie_gen_max=5,
    pcie_width_max=16,
)


def test_a_new_driver() -> None:
    first, second = read_table("driver-595-h100")

    assert first == H100
    assert (second.index, second.power_limit_w, second.mig) == (1, 700.0, "Enabled")


def test_rows_of_memory_that_are_replaced_are_told_of_their_gpu() -> None:
    remapped = (TABLES / "remapped-rows-h100.csv").read_text()
    gpus = read_gpus((TABLES / "driver-595-h100.csv").read_text().strip(), remapped)

    assert [(gpu.rows_pending, gpu.rows_failed) for gpu in gpus] == [(True, False), (False, True)]
    geforce = read_gpus((TABLES / "driver-535-geforce.csv").read_text().strip(), "gpu_uuid, x\n[N/A], 1\n")
    assert (geforce[0].rows_pending, geforce[0].rows_failed, geforce[0].pcie_gen_max) == (None, None, None)


def test_a_geforce_has_neither_ecc_nor_mig() -> None:
    (gpu,) = read_table("driver-535-geforce")

    assert (gpu.name, gpu.memory_bytes) == ("NVIDIA GeForce RTX 3070", 8192 * MIB)
    assert (gpu.power_limit_w, gpu.power_default_w, gpu.power_max_w) == (200.0, 220.0, 240.0)
    assert (gpu.ecc, gpu.mig, gpu.persistence) == (None, None, "Disabled")


def test_an_old_driver_knows_less() -> None:
    (gpu,) = read_table("driver-390-kepler")

    assert (gpu.name, gpu.clock_sm_max_mhz, gpu.clock_mem_max_mhz) == ("GeForce GT 730", 901.0, 900.0)
    assert (gpu.power_limit_w, gpu.ecc, gpu.mig) == (None, None, None)


def test_a_broken_gpu_is_listed_with_what_is_known_whatever_the_columns_order() -> None:
    whole, broken, worse = read_table("requires-reset")

    assert whole == Gpu(
        index=0,
        uuid="GPU-aaaa0000-0000-0000-0000-000000000001",
        name="NVIDIA A100-SXM4-40GB",
        memory_bytes=40960 * MIB,
        power_limit_w=400.0,
        clock_mem_max_mhz=1215.0,
    )
    assert broken == Gpu(index=1, uuid="GPU-aaaa0000-0000-0000-0000-000000000002", name="NVIDIA A100-SXM4-40GB")
    assert worse == Gpu(index=2, memory_bytes=40960 * MIB)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "No devices were found",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA"
        " driver is installed and running.",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54",
        'Field "mig.mode.current" is not a valid field to query.\n',
        "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the system to recover it",
        "index, name\n0\n1, a, b\n",
        'index, name\n"0, unterminated',
    ],
)
def test_what_is_no_table_has_no_gpus(said: str) -> None:
    assert read_gpus(said) == ()


REPLAY = """#!/bin/sh
# What a driver that does not know mig.mode.current does, then what it printed when asked without it.
case "$*" in
  *mig.mode.current*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2 ;;
  *--query-gpu=index,uuid,name*--format=csv,nounits*) cat <<'END'
{table}END
    ;;
  *) exit 1 ;;
esac
"""

NEW_DRIVER = """#!/bin/sh
case "$1" in
  --query-gpu=index,uuid,name*,pcie.link.gen.max,pcie.link.width.max) cat '{tables}/driver-595-h100.csv' ;;
  --query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure) {remapped} ;;
  *) exit 2 ;;
esac
"""


@pytest.mark.parametrize(
    ("remapped", "pending"),
    [("cat '{tables}/remapped-rows-h100.csv'", [True, False]), ("echo 'Unknown option'; exit 2", [None, None])],
)
def test_the_probe_asks_for_rows_that_are_replaced(
    remapped: str, pending: list[bool | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(NEW_DRIVER.format(tables=TABLES, remapped=remapped.format(tables=TABLES)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    settings = Settings(runtime="native", python="/bin/sh", workdir=str(tmp_path))

    facts = probe_host(Shell("here", LocalTransport("here")), settings, change=False).facts

    assert [gpu.rows_pending for gpu in facts.gpus] == pending
    assert [gpu.model_copy(update={"rows_pending": None, "rows_failed": None}) for gpu in facts.gpus][:1] == [H100]


SUITE = """
name: tiny
rules: {warmup_steps: 1, steps: 2, max_s: 5, cell_timeout_s: 60}
cells: [{models: [alexnet_conv], phases: [forward], batch_sizes: [1], on: [cpu]}]
"""


@pytest.mark.needs("ssh", "docker")
def test_the_gpus_of_a_host_are_in_its_outcome(
    lab_hosts: LabHosts, run_fleet: RunFleet, workspace: Path, tmp_path: Path
) -> None:
    replay = tmp_path / "nvidia-smi"
    replay.write_text(REPLAY.format(table=(TABLES / "driver-390-kepler.csv").read_text()))
    (host,) = lab_hosts(1, nvidia_smi=replay)
    inventory = write_inventory(workspace / "lab.yaml", [host])
    (workspace / "suite.yaml").write_text(SUITE)

    done = run_fleet("run", "-i", str(inventory), "--suite", "suite.yaml")

    assert done.returncode == 0, done.stderr
    store = Store(workspace / "reports")
    facts = store.load(store.runs()[0].run_id).outcomes[host.alias].facts
    assert facts is not None
    assert [gpu.name for gpu in facts.gpus] == ["GeForce GT 730"]
    assert facts.gpus[0].memory_bytes == 1998 * MIB
    assert facts.driver == "390.157"
