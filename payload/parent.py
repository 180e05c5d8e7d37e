"""The parent: runs a spec cell by cell, one child each, and writes every document as soon as there is one.

It never loads TensorFlow, so that an out-of-memory, a crash, a hang or a leak costs one cell.
"""

import os
import sys
import time
from typing import Any, Dict, Optional

from payload.catalog import read_catalog
from payload.cell import Cell, find_unsupported, name_cell
from payload.cgroup import count_cpus, count_oom_kills, read_cpu_quota, read_memory_limit
from payload.environment import make_environment
from payload.errors import Verdict, explain, judge_death, judge_hang
from payload.files import write_json
from payload.measure import PROTOCOL
from payload.process import Ended, Listener, Observer, Stop, Stopped, run_child
from payload.search import AUTO, confirm, find_largest
from payload.spec import BadSpec, Rules, Spec, describe, read_spec
from payload.sweep import Sweep, count_devices, judge_same
from payload.telemetry import Telemetry

RESULT_SCHEMA = "fleet.result/1"
PROGRESS_SCHEMA = "fleet.progress/1"

_SYSTEM_TIMEOUT_S = 300.0
"""For loading TensorFlow once: slow disks and network file systems take minutes."""


def run(spec_path: str, out: str) -> int:
    """Measure a spec and write `system.json`, `progress.json` and `cells/NNN.json` into the directory `out`.

    Returns:
        0: every cell has a document, whatever its status. 2: the spec is bad, or the directory cannot be written.
        143, 130: told to stop by SIGTERM, SIGINT.
    """
    stop = Stop()
    stop.listen()
    try:
        spec = read_spec(spec_path)
        os.makedirs(os.path.join(out, "cells"), exist_ok=True)
        Job(spec, os.path.abspath(out), stop).run()
    except BadSpec as error:
        sys.stderr.write("%s\n" % error)
        return 2
    except OSError as error:
        where = error.filename2 or error.filename or out
        sys.stderr.write("%s: cannot be written: %s. Choose another --out.\n" % (where, error.strerror))
        return 2
    except Stopped:
        assert stop.signum is not None
        return 128 + stop.signum
    return 0


class Job:
    """One spec being measured."""

    def __init__(self, spec: Spec, out: str, stop: Stop) -> None:
        self._spec = spec
        self._out = out
        self._stop = stop
        self._sweep = Sweep()
        self._gpus = 0

    def run(self) -> None:
        """Raises OSError when a document cannot be written, Stopped when told to stop."""
        self._write_progress(None, "system", 0)
        self._write("system.json", self._describe_system())
        for index, cell in enumerate(self._spec.cells):
            if self._stop.signum is not None:
                raise Stopped()
            self._write_progress(index, "start", index)
            document = self._make_document(index, cell)
            self._write(os.path.join("cells", "%03d.json" % index), document)
        self._write_progress(None, "done", len(self._spec.cells))

    def _describe_system(self) -> Dict[str, Any]:
        environment = make_environment(self._spec.cells[0])
        ended = run_child({"kind": "system"}, environment, _SYSTEM_TIMEOUT_S, self._stop, Observer())
        document = self._begin("host")
        found = ended.result or {"software": {}, "gpus_usable": None}
        document.update(found)
        self._gpus = found["gpus_usable"] or 0
        document["cpus_usable"] = count_cpus()
        document["cpu_quota"] = read_cpu_quota()
        document["memory_limit_bytes"] = read_memory_limit()
        return document

    def _make_document(self, index: int, cell: Cell) -> Dict[str, Any]:
        started, clock = time.time(), time.monotonic()

        def listen(event: Dict[str, Any]) -> None:
            if event["event"] == "stage":
                self._write_progress(index, event["stage"], index)

        counted = count_devices(cell, self._gpus)
        skip = self._sweep.judge(counted) or judge_same(cell, counted, self._spec.cells)
        result = _fail(skip, "start") if skip is not None else self._measure(counted, listen)
        document = self._begin("cell")
        document.update(attempt=1, index=index, cell_id=name_cell(cell), cell=describe(cell))
        document.update(result, started_unix_s=started, duration_s=time.monotonic() - clock)
        return document

    def _measure(self, cell: Cell, listen: Listener) -> Dict[str, Any]:
        if cell.batch_size == AUTO:
            result = measure_largest(cell, self._spec.rules, self._stop, listen)
            search = result.get("batch_search")
            if search and search["where"]:
                self._sweep.note(cell._replace(batch_size=search["fails"]), "oom", search["where"] + "_memory")
        else:
            result = measure_cell(cell, self._spec.rules, self._stop, listen)
            self._sweep.note(cell, result["status"], result["reason"])
        return result

    def _begin(self, kind: str) -> Dict[str, Any]:
        document: Dict[str, Any] = {"schema": RESULT_SCHEMA, "kind": kind, "protocol": PROTOCOL}
        document.update(describe(self._spec.identity))
        return document

    def _write_progress(self, index: Optional[int], stage: str, done: int) -> None:
        document = {
            "schema": PROGRESS_SCHEMA,
            "index": index,
            "cell_id": None if index is None else name_cell(self._spec.cells[index]),
            "stage": stage,
            "done": done,
            "total": len(self._spec.cells),
        }
        self._write("progress.json", document)

    def _write(self, name: str, document: Dict[str, Any]) -> None:
        write_json(os.path.join(self._out, name), document)


def measure_cell(cell: Cell, rules: Rules, stop: Stop, listen: Listener, every: int = 0) -> Dict[str, Any]:
    """Measure one cell in a child.

    Args:
        every: let the child report step times each so many steps; 0: never.

    Returns:
        Of a cell's result document: status, stage, reason, message and, where there are any, timing, throughput, loss,
        workload, memory, telemetry, device_name, log_tail.

    Raises:
        Stopped: told to stop.
    """
    problem = find_unsupported(cell, read_catalog())
    if problem is not None:
        return _fail(Verdict("unsupported", problem[0], problem[1]), "start")
    request = {"kind": "cell", "cell": describe(cell), "rules": describe(rules), "every": every}
    kills = count_oom_kills()
    telemetry = Telemetry(cell)
    telemetry.open()
    try:
        ended = run_child(request, make_environment(cell), rules.cell_timeout_s, stop, _Followers(telemetry, listen))
    finally:
        telemetry.close()
    telemetry.look_again()
    result = _fail(_judge(ended, kills), ended.stage) if ended.result is None else ended.result
    result["telemetry"] = telemetry.summarise(ended.output)
    if result["status"] != "ok":
        verdict = explain(Verdict(*(result[key] for key in Verdict._fields)), ended.output)
        if verdict.reason == "device_memory":
            verdict = verdict._replace(message=(verdict.message + " " + telemetry.describe_foreign_memory()).rstrip())
        result.update(verdict._asdict(), log_tail=ended.output or None)
    return result


def measure_largest(cell: Cell, rules: Rules, stop: Stop, listen: Listener) -> Dict[str, Any]:
    """Find the largest batch that fits, and measure that.

    Args:
        cell: its `batch_size` does not count.

    Returns:
        As `measure_cell`, with `batch_search`; where nothing fits, what became of the smallest batch.

    Raises:
        Stopped: told to stop.
    """
    # Two steps show what a batch needs; how long they take does not matter.
    short = rules._replace(warmup_steps=1, warmup_s=0.0, steps=2, min_s=0.0, max_s=min(rules.max_s, 1.0))
    found = find_largest(lambda size: measure_cell(cell._replace(batch_size=size), short, stop, listen))
    found, result = confirm(found, lambda size: measure_cell(cell._replace(batch_size=size), rules, stop, listen))
    result["batch_search"] = {
        "batch_size": None if result["status"] == "oom" else found.fits or None,
        "fails": found.fails,
        "where": found.where,
        "attempts": found.attempts,
        "reason": None if found.failure is None else found.failure["reason"],
    }
    return result


class _Followers(Observer):
    """Passes everything on to the telemetry, and events to whoever else listens."""

    def __init__(self, telemetry: Telemetry, listen: Listener) -> None:
        self._telemetry = telemetry
        self._listen = listen

    def begin(self, pid: int) -> None:
        self._telemetry.begin(pid)

    def take(self, event: Dict[str, Any]) -> None:
        self._telemetry.take(event)
        self._listen(event)

    def tick(self) -> None:
        self._telemetry.tick()


def _judge(ended: Ended, kills_before: Optional[int]) -> Verdict:
    if ended.overdue is not None:
        return judge_hang(ended.overdue, ended.stage)
    return judge_death(ended.returncode, ended.output, (count_oom_kills() or 0) > (kills_before or 0))


def _fail(verdict: Verdict, stage: str) -> Dict[str, Any]:
    return dict(verdict._asdict(), stage=stage)
