"""Faults planted in the cells of a real job: each costs its own cell, and the report says what to do about it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from fleet.model.result import CellResult
from payload.numa import read_nodes
from tests.faults.conftest import FleetRun
from tests.lab.inventory import write_inventory
from tests.lab.lab import Lab

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.timeout(600), pytest.mark.long]

SUITE = """
name: planted
description: a fault for every batch size
rules: {warmup_steps: 3, steps: 8, max_s: 30, cell_timeout_s: 100, numa_node: NODE}
cells:
  - {models: [alexnet], batch_sizes: [2], on: [cpu]}
  - {models: [alexnet_conv], phases: [forward], batch_sizes: [1, 2, 3, 4, 20000, 20001], on: [cpu]}
"""
# 20,000 images are 12 GB.

PLANT = """
import os, sys, threading
words = open('/proc/self/cmdline', 'rb').read().split(b'\\0')
if b'--report-fd' in words:
    sys.path.insert(0, words[1].decode())
    import payload.child as child
    whole, whole_cell = child.measure, child._measure

    def wait_for_a_peer():
        threading.Event().wait()

    def die():
        os.kill(os.getpid(), 9)

    def chatter():
        for _ in range(100):
            os.write(1, b'{"event": "result"}\\n' * 52429)

    def diverge():
        import payload.workload as workload
        apply = workload.Optimizer.apply
        workload.Optimizer.apply = lambda self, gradients, rate, taken: apply(self, gradients, rate * 1e12, taken)

    def measure_cell(cell, rules, report):
        if cell.phase == 'train':
            diverge()
        what = {2: wait_for_a_peer, 3: die, 4: chatter}.get(cell.batch_size if cell.phase == 'forward' else 0)
        taken = []
        def measure(step, rules, report):
            def planted():
                taken.append(1)
                if what and len(taken) == 7:
                    what()
                return step()
            return whole(planted, rules, report)
        child.measure = measure
        return whole_cell(cell, rules, report)

    child._measure = measure_cell
"""
"""A start-up file of the image's Python: the fault is chosen by the cell, and comes in its seventh step."""


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str
    cells: Mapping[str, tuple[CellResult, ...]]
    """`planted` is the host with the faults; `limited` has none and may use 1.5 GB and choose its memory's node."""
    aliases: Mapping[str, str]
    kept_bytes: int
    """All that the run directory holds of the host with the faults."""


@pytest.fixture(scope="module")
def finished(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    here = tmp_path_factory.mktemp("planted")
    plant = here / "plant"
    plant.mkdir()
    (plant / "sitecustomize.py").write_text(PLANT)
    hosts = dict(zip(("planted", "limited"), lab.add_hosts(2), strict=True))
    limit = ["--memory", "1500m", "--memory-swap", "1500m"]
    arguments = {
        "planted": [*limit, "--env", "PYTHONPATH=/plant", "--volume", f"{plant}:/plant:ro"],
        "limited": [*limit, "--cap-add", "SYS_NICE"],
    }
    inventory = write_inventory(
        here / "lab.yaml",
        list(hosts.values()),
        overrides={hosts[name].alias: {"fleet_runtime_args": words} for name, words in arguments.items()},
    )
    nodes = [node for node, cpus in sorted(read_nodes().items()) if cpus & os.sched_getaffinity(0)]
    (here / "suite.yaml").write_text(SUITE.replace("NODE", str(nodes[0]) if nodes else "null"))
    run = FleetRun(here, inventory, here / "suite.yaml")
    code, out, err = run.wait(timeout_s=500)
    cells = {name: run.outcome(host.alias).cells for name, host in hosts.items()}
    kept = run.load().path / "hosts" / hosts["planted"].alias
    kept_bytes = sum(path.stat().st_size for path in kept.rglob("*") if path.is_file())
    yield Finished(code, out, err, cells, {name: host.alias for name, host in hosts.items()}, kept_bytes)
    lab.remove_hosts(list(hosts.values()))


def test_each_fault_costs_its_own_cell(finished: Finished) -> None:
    ended = {name: [(cell.status, cell.reason) for cell in cells] for name, cells in finished.cells.items()}
    assert ended == {
        "planted": [
            ("invalid", "loss_not_finite"),
            ("ok", None),
            ("timeout", "step_hang"),
            ("crash", "killed"),
            ("ok", None),
            ("oom", "host_memory"),
            ("skipped", "larger_than_oom"),
        ],
        "limited": [*[("ok", None)] * 5, ("oom", "host_memory"), ("skipped", "larger_than_oom")],
    }
    assert finished.code == 3
    assert "Traceback" not in finished.out + finished.err


def test_what_happened_is_told_with_what_to_do(finished: Finished) -> None:
    nan, _, hang, crash, _, oom, _ = finished.cells["planted"]
    assert re.match(r"The loss is (nan|inf) at warm-up step \d\. The machine computes wrongly, ", nan.message or "")
    assert "measure it on another machine" in (nan.message or "")
    assert re.match(r"No step was done for \d+ s.* \(stage measure\): it hangs\.", hang.message or "")
    assert "in wait_for_a_peer\n" in (hang.log_tail or "")
    assert "SIGKILL" in (crash.message or "") and "dmesg" in (crash.message or "")
    assert (oom.message or "").startswith("The kernel killed it: the limit of 1.5 GiB, or the host's memory, does not")


def test_the_report_shows_it(finished: Finished) -> None:
    text = " ".join(finished.out.split())
    alias = finished.aliases["planted"]
    for said in (
        f"✖ {alias} invalid at warmup (loss_not_finite)",
        f"✖ {alias} timeout at measure (step_hang)",
        f"✖ {alias} crash at measure (killed)",
        "`log_tail` in hosts/HOST/cells/002.json of the run's directory.",
        "OOM = out of memory, a result and no failure",
        "skipped = not tried: a smaller batch did not fit",
        "1.5 of ",
    ):
        assert said in text, said


def test_100_mb_of_output_are_neither_kept_nor_in_the_way(finished: Finished) -> None:
    chatter = finished.cells["planted"][4]
    assert chatter.cell.batch_size == 4
    assert chatter.throughput and chatter.timing and chatter.timing.steps >= 8
    assert 10_000 < finished.kept_bytes < 1_000_000


def test_a_container_that_may_is_kept_to_its_nodes_memory(finished: Finished) -> None:
    cell = finished.cells["limited"][1]
    assert cell.execution
    if cell.execution.numa_nodes is None:
        pytest.skip("NUMA: the kernel names no nodes")
    assert len(cell.execution.numa_nodes) == 1
    assert cell.execution.memory_bound is True
