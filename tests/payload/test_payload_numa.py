"""Nodes of memory: read as the kernel shows them, and a cell kept to one of them, within what it is allowed anyway."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fleet.model.suite import Rules
from payload.errors import Unsupported
from payload.numa import Binding, bind_to_node, read_nodes
from tests.payload import bench

SHOWN = Path("/sys/devices/system/node")
ALLOWED = sorted(os.sched_getaffinity(0))


def lay_out(root: Path, nodes: Mapping[int, str]) -> str:
    """A tree as the kernel's, with these lists of processors."""
    for number, cpus in nodes.items():
        (root / f"node{number}").mkdir(parents=True)
        (root / f"node{number}" / "cpulist").write_text(cpus + "\n")
    (root / "power").mkdir(parents=True)
    (root / "online").write_text("0-1\n")
    return str(root)


def test_nodes_are_read_as_the_kernel_shows_them(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "node", {0: "0-2,8-9", 1: "3,5", 10: "16", 2: ""})
    assert read_nodes(root) == {0: {0, 1, 2, 8, 9}, 1: {3, 5}, 10: {16}, 2: set()}
    assert read_nodes(str(tmp_path / "nothing")) == {}


def test_the_nodes_of_this_machine_are_what_it_links_to() -> None:
    # The kernel says it twice: as a list, and as a link to each processor.
    linked = {
        int(node.name.removeprefix("node")): {int(cpu.name.removeprefix("cpu")) for cpu in node.glob("cpu[0-9]*")}
        for node in SHOWN.glob("node[0-9]*")
    }
    assert read_nodes() == linked


BOUND = """
import json, os, sys, threading
from payload.cgroup import count_cpus
from payload.numa import bind_to_node
binding = bind_to_node(*[int(sys.argv[1]), *sys.argv[2:]])
later = []
thread = threading.Thread(target=lambda: later.append(os.sched_getaffinity(threading.get_native_id())))
thread.start()
thread.join()
maps = open("/proc/self/numa_maps").read() if os.path.exists("/proc/self/numa_maps") else ""
policies = {line.split()[1] for line in maps.splitlines()}
print(json.dumps([binding, sorted(later[0]), count_cpus(), f"bind:{sys.argv[1]}" in policies]))
"""


def bind(node: int, *root: str) -> list[Any]:
    """The binding of a process of its own, where a thread of it may run, how many processors it counts, and whether
    the kernel says that it takes its memory from that node."""
    argv = [sys.executable, "-c", BOUND, str(node), *root]
    done = subprocess.run(argv, cwd=bench.ROOT, capture_output=True, text=True, check=True)
    answer: list[Any] = json.loads(done.stdout)
    return answer


@pytest.mark.skipif(len(ALLOWED) < 2, reason="processors: this test needs two of them")
def test_a_process_is_kept_to_its_node_and_to_what_it_may_use_anyway(tmp_path: Path) -> None:
    # The second node has a processor that this machine lacks, and one that it has.
    root = lay_out(tmp_path, {900: str(ALLOWED[0]), 901: f"{ALLOWED[1]},4000"})
    assert bind(901, root) == [[[901], False], [ALLOWED[1]], 1, False]
    assert bind_to_node(None, root) == Binding([900, 901], None)
    assert sorted(os.sched_getaffinity(0)) == ALLOWED


@pytest.mark.skipif(not SHOWN.exists(), reason="NUMA: the kernel names no nodes")
def test_memory_is_bound_as_the_kernel_says() -> None:
    node = next(number for number, cpus in sorted(read_nodes().items()) if cpus & set(ALLOWED))
    (nodes, memory_bound), cpus, count, kept = bind(node)
    assert nodes == [node]
    assert cpus == sorted(read_nodes()[node] & set(ALLOWED)) and 1 <= count <= len(cpus)
    assert memory_bound == kept


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ({0: f"0-{ALLOWED[-1]}", 1: "4000-4001"}, "None of the processors of NUMA node 1 may be used here; the nodes"),
        ({0: f"0-{ALLOWED[-1]}", 1: ""}, "None of the processors of NUMA node 1 may be used here; the nodes"),
        ({0: f"0-{ALLOWED[-1]}"}, r"There is no NUMA node 1 here; the nodes to choose from: 0\. Change numa_node"),
        ({}, "There is no NUMA node 1 here; the kernel names no nodes"),
    ],
)
def test_a_node_that_cannot_be_used_is_told_with_those_that_can(
    tmp_path: Path, nodes: dict[int, str], said: str
) -> None:
    with pytest.raises(Unsupported, match=said) as caught:
        bind_to_node(1, lay_out(tmp_path / "node", nodes))
    assert caught.value.reason == "no_numa_node"
    assert sorted(os.sched_getaffinity(0)) == ALLOWED


@pytest.mark.needs("tensorflow")
@pytest.mark.skipif(not SHOWN.exists(), reason="NUMA: the kernel names no nodes")
def test_a_cell_is_measured_on_its_node_within_what_the_job_may_use(tmp_path: Path) -> None:
    cpu = ALLOWED[-1]
    node = next(number for number, cpus in read_nodes().items() if cpu in cpus)
    rules = bench.QUICK.model_copy(update={"numa_node": node})
    spec = bench.write_spec(tmp_path, [bench.FAST], rules)
    taskset = lambda: os.sched_setaffinity(0, {cpu})  # noqa: E731
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", preexec=taskset)
    assert (done.returncode, done.stderr) == (0, "")
    (cell,) = bench.read_cells(tmp_path / "out")
    assert cell.status == "ok" and cell.execution, cell.message
    assert cell.execution.numa_nodes == (node,) and cell.execution.memory_bound is not None
    assert (cell.execution.intra_threads, cell.execution.inter_threads) == (1, 1)


@pytest.mark.needs("tensorflow")
def test_a_cell_without_its_node_is_refused_and_one_that_names_none_says_what_was_in_force(tmp_path: Path) -> None:
    far = Rules(**{**bench.QUICK.model_dump(), "numa_node": 1023})
    for name, rules in (("far", far), ("any", bench.QUICK)):
        (tmp_path / name).mkdir()
        spec = bench.write_spec(tmp_path / name, [bench.FAST], rules)
        assert bench.run_payload("run", spec, "--out", tmp_path / name / "out").returncode == 0
    (refused,), (cell,) = (bench.read_cells(tmp_path / name / "out") for name in ("far", "any"))
    assert (refused.status, refused.reason, refused.stage) == ("unsupported", "no_numa_node", "start")
    assert (refused.message or "").startswith("There is no NUMA node 1023 here; ") and not refused.failed
    assert cell.execution and cell.execution.memory_bound is None
    usable = tuple(sorted(number for number, cpus in read_nodes().items() if cpus & set(ALLOWED)))
    assert cell.execution.numa_nodes == (usable or None)
