"""NUMA: the nodes of processors with memory of their own, and keeping a process to one of them. Linux."""

import ctypes
import glob
import os
import platform
from typing import Dict, List, NamedTuple, Optional, Set

from payload.errors import Unsupported
from payload.procfs import read_text

ROOT = "/sys/devices/system/node"

_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
"""The number of the system call by machine: the C library has no function for it."""

_MPOL_BIND = 2

Binding = NamedTuple("Binding", [("nodes", Optional[List[int]]), ("memory_bound", Optional[bool])])
"""`nodes`: those whose processors the process may use; None: the kernel names none. `memory_bound`: whether the kernel
keeps its memory to the node; None: it was not asked to."""


def bind_to_node(node: Optional[int], root: str = ROOT) -> Binding:
    """Keep this process, and the threads it will start, to the processors and the memory of a node.

    A limit that is there already stays: of the node's processors, those are left that may be used anyway. A container
    may be forbidden to choose its memory (Docker's is, without CAP_SYS_NICE). Then `memory_bound` is False, and memory
    is still the node's as far as there is room, for it is taken where it is touched first.

    Args:
        node: None: change nothing, and say what is in force.
        root: where the kernel shows its nodes.

    Raises:
        Unsupported: there is no such node, or none of its processors may be used.
    """
    nodes = read_nodes(root)
    if node is None:
        return Binding(_list_usable(nodes), None)
    usable = _list_usable(nodes) or []
    if node not in usable:
        raise Unsupported("no_numa_node", _explain_missing(node, nodes, usable))
    os.sched_setaffinity(0, nodes[node] & os.sched_getaffinity(0))
    return Binding([node], _bind_memory(node))


def read_nodes(root: str = ROOT) -> Dict[int, Set[int]]:
    """The processors of every node by its number. A node may have memory alone."""
    nodes = {}
    for folder in glob.glob(root + "/node[0-9]*"):
        nodes[int(folder.rpartition("node")[2])] = _parse_cpus(read_text(folder + "/cpulist"))
    return nodes


def _parse_cpus(text: str) -> Set[int]:
    """A list of the kernel's, e.g. `0-3,8`."""
    cpus: Set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def _list_usable(nodes: Dict[int, Set[int]]) -> Optional[List[int]]:
    """Nodes of which this process may use processors; None: there are no nodes."""
    if not nodes:
        return None
    allowed = os.sched_getaffinity(0)
    return sorted(node for node, cpus in nodes.items() if cpus & allowed)


def _explain_missing(node: int, nodes: Dict[int, Set[int]], usable: List[int]) -> str:
    what = "There is no NUMA node %d here"
    if node in nodes:
        what = "None of the processors of NUMA node %d may be used here"
    rest = "the nodes to choose from: " + ", ".join(map(str, usable)) if usable else "the kernel names no nodes"
    return "%s; %s. Change numa_node in the suite, or leave it out." % (what % node, rest)


def _bind_memory(node: int) -> bool:
    """Whether the kernel will take memory from this node alone."""
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None:
        return False
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (node // bits + 1))()
    mask[node // bits] = 1 << node % bits
    # The kernel reads one bit less than it is told.
    width = ctypes.c_ulong(bits * len(mask) + 1)
    return bool(ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(_MPOL_BIND), mask, width) == 0)
