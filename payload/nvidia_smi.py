"""Runs nvidia-smi: what it knows, who is on the GPUs, and one long query that prints a line per GPU and half second.

Its output is `--format=csv,noheader,nounits`: fields separated by `, `, memory in MiB, power in W, clocks in MHz. What
it does not know it says in words, e.g. `[N/A]` or `[GPU requires reset]`.
"""

import functools
import os
import re
import shutil
import signal
import subprocess
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from payload.procfs import read_cpu_s

INTERVAL_MS = 500

_PATIENCE_S = 10.0
"""For one short call. Without persistence mode it takes seconds per GPU, and with a broken driver for ever."""

FIELDS = (
    ("timestamp", ("timestamp",)),
    ("uuid", ("uuid", "gpu_uuid")),
    ("pci_bus_id", ("pci.bus_id", "gpu_bus_id")),
    ("sm_mhz", ("clocks.sm", "clocks.current.sm")),
    ("memory_mhz", ("clocks.mem", "clocks.current.memory")),
    # On newer GPUs power.draw is the mean of a second.
    ("power_w", ("power.draw.instant", "power.draw")),
    ("temperature_c", ("temperature.gpu",)),
    ("memory_mib", ("memory.used",)),
    # Renamed in driver 535; newer ones take both.
    ("event_reasons", ("clocks_event_reasons.active", "clocks_throttle_reasons.active")),
    ("ecc_corrected", ("ecc.errors.corrected.volatile.total",)),
    ("ecc_uncorrected", ("ecc.errors.uncorrected.volatile.total",)),
    ("pcie_replays", ("pcie.replay.counter", "pcie.replay_counter")),
    ("pcie_gen", ("pcie.link.gen.gpucurrent", "pcie.link.gen.current")),
    ("pcie_width", ("pcie.link.width.current",)),
)
"""Our name, and nvidia-smi's names for it by preference."""

App = NamedTuple("App", [("uuid", str), ("pid", Optional[int]), ("name", str), ("memory_bytes", Optional[int])])
"""A process that holds a context on a GPU. Inside a container the numbers are the host's, or there are none."""


class SmiError(Exception):
    """nvidia-smi does not answer; the message says what it did instead, without a full stop."""


def find_program() -> Optional[str]:
    """The path of nvidia-smi; None: this machine, or this container, has none."""
    return shutil.which("nvidia-smi")


@functools.lru_cache(maxsize=None)
def choose_fields(program: str) -> Tuple[Tuple[str, str], ...]:
    """(our name, its name) of every field that this nvidia-smi knows. Raises SmiError."""
    known = frozenset(re.findall(r'"([A-Za-z0-9_.]+)"', _call([program, "--help-query-gpu"])))
    return _match_fields(known)


def _match_fields(known: FrozenSet[str]) -> Tuple[Tuple[str, str], ...]:
    chosen = []
    for name, candidates in FIELDS:
        found = [candidate for candidate in candidates if candidate in known]
        if found:
            chosen.append((name, found[0]))
    return tuple(chosen)


def list_apps(program: str) -> List[App]:
    """Who computes on any GPU now. Raises SmiError."""
    query = "--query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name"
    apps = []
    for line in _call([program, query, "--format=csv,noheader,nounits"]).splitlines():
        words = [word.strip() for word in line.split(",", 3)]
        if len(words) == 4:
            memory = int(words[2]) << 20 if words[2].isdecimal() else None
            apps.append(App(words[0], int(words[1]) if words[1].isdecimal() else None, words[3], memory))
    return apps


class SmiStream:
    """The long query. Raises SmiError when it cannot be started."""

    def __init__(self, program: str) -> None:
        self._names = [name for name, _ in choose_fields(program)]
        query = "--query-gpu=" + ",".join(field for _, field in choose_fields(program))
        argv = [program, query, "--format=csv,noheader,nounits", "-lms", str(INTERVAL_MS)]
        self._process = _start(argv)
        assert self._process.stdout is not None
        self._descriptor = self._process.stdout.fileno()
        os.set_blocking(self._descriptor, False)
        self._rest = b""
        self.complaint: Optional[str] = None
        """The last line that was no row; it says why when there are no rows at all."""

    def read(self) -> List[Dict[str, str]]:
        """The rows printed since the last call: texts by our names. Never waits."""
        rows = []
        for line in self._read_lines():
            words = [word.strip() for word in line.split(",")]
            if len(words) == len(self._names):
                rows.append({name: words[i] for i, name in enumerate(self._names)})
            elif line.strip():
                self.complaint = line.strip()[:200]
        return rows

    def read_cpu_s(self) -> Optional[float]:
        """Processor seconds it has taken so far."""
        return read_cpu_s(self._process.pid)

    def close(self) -> None:
        """End it. One that waits in a broken driver is left behind."""
        _end(self._process, signal.SIGTERM)

    def _read_lines(self) -> List[str]:
        data = self._rest
        while True:
            try:
                piece = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                break
            if not piece:
                break
            data += piece
        lines = data.split(b"\n")
        self._rest = lines.pop()
        return [line.decode("utf-8", "replace") for line in lines]


def _call(argv: List[str]) -> str:
    """What a short call prints. Raises SmiError."""
    process = _start(argv)
    try:
        output, _ = process.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        _end(process, signal.SIGKILL)
        raise SmiError("nvidia-smi did not answer within %g s" % _PATIENCE_S)
    text = output.decode("utf-8", "replace")
    if process.returncode != 0:
        said = " ".join(text.split())[:200]
        raise SmiError("nvidia-smi ended with exit status %d: %s" % (process.returncode, said))
    return text


def _start(argv: List[str]) -> "subprocess.Popen[bytes]":
    environment = dict(os.environ, LC_ALL="C")
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
    except OSError as error:
        raise SmiError("nvidia-smi cannot be started: %s" % error.strerror)


def _end(process: "subprocess.Popen[Any]", signum: int) -> None:
    process.send_signal(signum)
    for _ in range(2):
        try:
            process.wait(1.0)
            break
        except subprocess.TimeoutExpired:
            process.kill()
    assert process.stdout is not None
    process.stdout.close()
