"""The list of runs."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

from fleet.errors import ExitCode
from fleet.report.wording import make_line
from fleet.store.rundir import RunEntry


@dataclass(frozen=True)
class RunLine:
    """One run in the list, inert. None: the directory does not say."""

    run_id: str
    state: str
    """`complete`, `running`, `incomplete` or `damaged`."""
    created: str | None
    suite: str | None
    hosts_ok: int | None
    hosts_total: int | None
    cells_ok: int | None
    cells_total: int | None
    exit_code: int | None
    """What the run ended with; 5 also where a regression was confirmed in it."""
    problem: str
    """Why a damaged one cannot be read."""


@dataclass(frozen=True)
class RunList:
    """The runs there are, in the order of the list."""

    runs: tuple[RunLine, ...]
    schema: Literal["fleet.runs/1"] = "fleet.runs/1"


def find_exit_code(run_id: str, exit_code: int | None, regressed: Set[str]) -> int | None:
    """What a run ended with. `run.json` is written before it is judged, and the journal knows what came of that.

    Args:
        exit_code: by its `run.json`.
        regressed: the runs with a regression.
    """
    return int(ExitCode.REGRESSION) if exit_code == ExitCode.OK and run_id in regressed else exit_code


def describe_runs(entries: Sequence[RunEntry], regressed: Set[str] = frozenset()) -> tuple[RunLine, ...]:
    """The list as it is shown, in the given order.

    Args:
        regressed: the runs with a regression.
    """
    return tuple(
        RunLine(
            run_id=entry.run_id,
            state=entry.state,
            created=make_line(entry.created, 40) or None,
            suite=make_line(entry.suite, 80) or None,
            hosts_ok=entry.hosts_ok,
            hosts_total=entry.hosts_total,
            cells_ok=entry.cells_ok,
            cells_total=entry.cells_total,
            exit_code=find_exit_code(entry.run_id, entry.exit_code, regressed),
            problem=make_line(entry.problem, 400),
        )
        for entry in entries
    )
