"""The run directories under one root. They are the truth: everything else can be made again from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fleet.errors import StoreError
from fleet.model.plan import Plan
from fleet.model.result import CellStatus, HostOutcome, HostStatus
from fleet.store.files import explain_error, write_atomic
from fleet.store.naming import CANCEL_FILE, PLAN_FILE, RUN_FILE, RUN_ID
from fleet.store.opening import create_run, require_open
from fleet.store.reader import StoredRun, is_running, read_plan, read_run, read_summary
from fleet.store.writer import RunWriter

LAST = "last"
"""In place of an id: the latest complete run."""

_LOOK_BACK = 10
"""Runs; what a machine did longer ago says little."""

RunState = Literal["complete", "running", "incomplete", "damaged"]


@dataclass(frozen=True)
class RunEntry:
    """One line of the list of runs. Counts are None where the directory does not say."""

    run_id: str
    path: Path
    state: RunState
    problem: str = ""
    """Why it is `damaged`."""
    created: str | None = None
    suite: str | None = None
    hosts_ok: int | None = None
    hosts_total: int | None = None
    cells_ok: int | None = None
    cells_total: int | None = None
    exit_code: int | None = None


class Store:
    """The runs under `root`: `root/runs/<run-id>/`, and `root/latest` that points to the last complete one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs_path = root / "runs"

    def create(self, plan: Plan, payload: bytes = b"") -> RunWriter:
        """Make the run's directory, the plan first, and what its hosts get.

        Raises:
            StoreError: the directory exists or cannot be written.
        """
        return create_run(self.root, plan, payload)

    def find_open(self, run_id: str | None) -> Path:
        """The directory of a run that can be taken up: not complete, or with hosts whose job may still be running.

        Args:
            run_id: as in `load`. None: the newest at which no controller is, else the newest.

        Raises:
            StoreError: there is none.
        """
        if run_id is not None:
            path = self.locate(run_id)
            _require_open(path)
            return path
        going = None
        for path in self.paths():
            with suppress(StoreError):
                _require_open(path)
                if not is_running(path):
                    return path
                going = going or path
        if going is not None:
            return going
        if not self.paths():
            raise self._explain_no_runs()
        raise StoreError(f"{self.root}: there is no run that is not complete.", "See which there are with: fleet runs")

    def list_begun(self) -> list[Path]:
        """The directories of all runs that are not complete, newest first, be a controller at them or not.

        Raises:
            StoreError: the directory above them cannot be read.
        """
        return [path for path in self.paths() if (path / PLAN_FILE).is_file() and not (path / RUN_FILE).is_file()]

    def find_newest(self) -> Path:
        """The directory of the newest run, whatever its state.

        Raises:
            StoreError: there is none.
        """
        paths = self.paths()
        return paths[0] if paths else self.find_latest()

    def ask_cancel(self, path: Path) -> None:
        """Ask the controller that works at the run in the directory `path` to cancel it.

        Raises:
            StoreError: the request cannot be written.
        """
        write_atomic(path / CANCEL_FILE, b"")

    def runs(self, known: Mapping[str, RunEntry] | None = None) -> tuple[RunEntry, ...]:
        """Every run there is, newest first; incomplete and damaged ones are listed as what they are.

        Args:
            known: by id, entries that need not be made from their directories.

        Raises:
            StoreError: the directory exists and cannot be read.
        """
        return tuple((known or {}).get(path.name) or describe_run(path) for path in self.paths())

    def paths(self) -> list[Path]:
        """The directories of all runs, newest first.

        Raises:
            StoreError: the directory above them exists and cannot be read.
        """
        try:
            with os.scandir(self.runs_path) as found:
                names = [entry.name for entry in found if RUN_ID.fullmatch(entry.name) and entry.is_dir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise explain_error(error, self.runs_path) from error
        return [self.runs_path / name for name in sorted(names, reverse=True)]

    def load(self, run_id: str | None = None) -> StoredRun:
        """Read one run.

        Args:
            run_id: an id or its beginning, if only one run begins so; `last`: the latest complete run; or a path with
                a `/`: the run in that directory, wherever it is. None: as `last`.

        Raises:
            StoreError: there is no such run, there are several, or it cannot be read.
        """
        return read_run(self.find_latest() if run_id is None else self.locate(run_id))

    def locate(self, run_id: str) -> Path:
        """The directory of a run, by an id, its beginning, a path, or `last`, as in `load`.

        Raises:
            StoreError: there is no such run, or there are several.
        """
        named = Path(run_id).resolve()
        if "/" in run_id and (RUN_ID.fullmatch(named.name) or (named / PLAN_FILE).is_file()) and named.is_dir():
            return named
        return self.find_latest() if run_id == LAST else self._find(run_id)

    def find_last(self, aliases: Iterable[str]) -> dict[str, tuple[Plan, HostOutcome]]:
        """By alias, the newest run that has results of the host, and its outcome there.

        Runs and outcomes that cannot be read count as not there. Older than the last few, nothing is looked for.
        """
        found: dict[str, tuple[Plan, HostOutcome]] = {}
        missing = set(aliases)
        with suppress(StoreError):
            for path in self.paths()[:_LOOK_BACK]:
                if not missing:
                    break
                with suppress(StoreError):
                    run = read_run(path, missing)
                    found |= {alias: (run.plan, outcome) for alias, outcome in run.outcomes.items() if outcome.cells}
                    missing -= found.keys()
        return found

    def find_latest(self) -> Path:
        """The directory of the latest complete run.

        Raises:
            StoreError: there is none.
        """
        paths = self.paths()
        try:
            named = (self.root / "latest").readlink().name
        except OSError:
            named = ""  # no link (or a copy of the directory that lost it): the newest complete run is the latest
        for path in paths:
            if path.name == named:
                return path
        for path in paths:
            if (path / RUN_FILE).is_file():
                return path
        if paths:
            raise StoreError(
                f"{self.root}: no run is complete yet.",
                f"What there is can be shown with: fleet report {paths[0].name}",
            )
        raise self._explain_no_runs()

    def _explain_no_runs(self) -> StoreError:
        where = "" if self.root.is_absolute() else f" in the current directory, {Path.cwd()}"
        return StoreError(
            f"{self.root}: there are no runs yet{where}.",
            "Make one with: fleet run -i INVENTORY; or say with --reports where they are.",
        )

    def _find(self, run_id: str) -> Path:
        paths = self.paths()
        found = [path for path in paths if path.name == run_id] or [
            path for path in paths if run_id and path.name.startswith(run_id)
        ]
        if len(found) == 1:
            return found[0]
        if not paths:
            raise self._explain_no_runs()
        if not found:
            raise StoreError(
                f"{self.root}: there is no run {run_id[:80]!r}.",
                "See which there are with: fleet runs. The newest complete one is also called: last",
            )
        names = ", ".join(path.name for path in found[:3]) + (", …" if len(found) > 3 else "")
        raise StoreError(f"{self.root}: {len(found)} runs begin with {run_id!r}: {names}", "Write more of the id.")


def _require_open(path: Path) -> None:
    require_open(path, read_summary(path, read_plan(path)))


def describe_run(path: Path) -> RunEntry:
    """What the list of runs says of the one in this directory."""
    try:
        plan = read_plan(path)
        summary = read_summary(path, plan)
        if summary is None:
            return _describe_incomplete(path, plan)
    except StoreError as error:
        return RunEntry(path.name, path, "damaged", problem=error.message)
    return RunEntry(
        run_id=plan.run_id,
        path=path,
        state="complete",
        created=plan.created,
        suite=plan.suite,
        hosts_ok=sum(status is HostStatus.OK for status in summary.hosts.values()),
        hosts_total=len(plan.hosts),
        cells_ok=summary.cells_ok,
        cells_total=_count_cells(plan),
        exit_code=summary.exit_code,
    )


def _describe_incomplete(path: Path, plan: Plan) -> RunEntry:
    outcomes = read_run(path).outcomes.values()
    return RunEntry(
        run_id=plan.run_id,
        path=path,
        state="running" if is_running(path) else "incomplete",
        created=plan.created,
        suite=plan.suite,
        hosts_ok=sum(outcome.status is HostStatus.OK for outcome in outcomes),
        hosts_total=len(plan.hosts),
        cells_ok=sum(cell.status is CellStatus.OK for outcome in outcomes for cell in outcome.cells),
        cells_total=_count_cells(plan),
    )


def _count_cells(plan: Plan) -> int:
    return sum(len(host.cells) for host in plan.hosts)
