"""What people and nights have decided about the runs: it is in none of their directories, so it is kept beside them."""

from __future__ import annotations

from typing import Literal

from fleet.model.base import Record


class PinnedBaseline(Record):
    """From now on, compare with these runs. A later one for the same host and cell takes its place."""

    entry: Literal["baseline"] = "baseline"
    time: str
    """ISO 8601, UTC; so in all of these."""
    run_ids: tuple[str, ...]
    """Empty: with none any more."""
    alias: str = ""
    """Empty: all hosts."""
    cell_id: str = ""
    """Empty: all cells."""
    reason: str
    """Somebody's words."""


class IncidentState(Record):
    """A confirmed regression as it stands (`fleet.analysis.incident`). A later one of the same series and with the same
    `opened` takes its place."""

    entry: Literal["incident"] = "incident"
    time: str
    level: Literal["cell", "host", "cohort"]
    name: str
    """The host's alias, or the cohort's name."""
    cell_id: str = ""
    kind: Literal["step", "drift"]
    opened: str
    """The run that confirmed it; runs are named by their ids."""
    baseline: float
    """In the unit of the series."""
    change: float
    """Relative: 0.05 is 5 % slower."""
    good_nights: int = 0
    recovered: str | None = None
    beyond_nights: int = 0
    ending: Literal["resolved", "accepted"] | None = None
    """None: it is open."""
    ended: str | None = None
    reason: str = ""
    """Somebody's words, why it was accepted."""

    def covers(self, run_id: str) -> bool:
        """Whether it was open when this run had been judged; it may have ended since."""
        if self.ending == "accepted":
            return self.opened <= run_id <= (self.ended or "")
        return self.opened <= run_id and (self.ending is None or run_id < (self.ended or ""))

    def accuses(self, run_id: str) -> bool:
        """Whether that run is a regression for it: what somebody has accepted since is as it should be."""
        return self.covers(run_id) and self.ending != "accepted"

    def as_of(self, run_id: str) -> IncidentState:
        """As it stood when this run, which it covers, had been judged; accepted is for ever."""
        if self.ending == "accepted":
            return self
        recovered = self.recovered if self.recovered and self.recovered <= run_id else None
        return self.model_copy(update={"ending": None, "ended": None, "recovered": recovered})


class Annotation(Record):
    """Something to know when one looks at values of that time, e.g. `new cooling in rack 7`."""

    entry: Literal["annotation"] = "annotation"
    time: str
    alias: str = ""
    """Empty: all hosts."""
    message: str


class Suspicion(Record):
    """Slower in this run, and not in the one before."""

    level: Literal["cell", "host", "cohort"]
    name: str
    cell_id: str = ""
    kind: Literal["step", "drift"]
    change: float
    """Relative: 0.05 is 5 % slower."""
    sentence: str
    """With how many more cells that it tells as well."""


class JudgedRun(Record):
    """A run has been held against those before it; the incidents that it changed stand before this entry."""

    entry: Literal["judged"] = "judged"
    time: str
    run_id: str
    measured: int
    """Cells on hosts with a value."""
    learning: int
    """Those of them with too few runs before for a verdict."""
    nights: int
    """The most runs before that any of them has."""
    suspicions: tuple[Suspicion, ...] = ()
    better: tuple[tuple[str, str, str], ...] = ()
    """Level, name and cell of what is faster than its baseline, and has been told."""


Entry = PinnedBaseline | IncidentState | Annotation | JudgedRun
