"""What a run gives, into its directory and into memory: when the disk fails, what there is can still be shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from fleet.errors import StoreError
from fleet.model.event import Event, HostFinished, HostStage
from fleet.model.plan import Plan
from fleet.model.result import HostOutcome, HostStatus, Stage
from fleet.store.writer import RunWriter

_BEFORE_START = {Stage.CONNECT, Stage.PROBE}
_GOOD = {HostStatus.OK, HostStatus.SKIPPED}


class Recorder:
    """Records a run's events.

    Args:
        writer: of the run's directory.
        give_up: called once, when something cannot be written: nothing more should be measured that cannot be kept.
        outcomes: what is recorded already.
    """

    def __init__(
        self, writer: RunWriter, give_up: Callable[[], None], outcomes: Mapping[str, HostOutcome] | None = None
    ) -> None:
        self._writer = writer
        self._give_up = give_up
        self._lock = threading.Lock()
        self.outcomes = dict(outcomes or {})
        """Of the hosts that have one, written or not."""
        self._left = {host.alias: host for host in writer.plan.hosts if host.cells and host.alias not in self.outcomes}
        self._started: set[str] = set()
        self.trouble: StoreError | None = None
        """The first thing that could not be written."""

    @property
    def plan(self) -> Plan:
        return self._writer.plan

    @property
    def hosts_left(self) -> int:
        """How many have cells to measure and no outcome yet."""
        return len(self._left)

    def keep(self, alias: str, files: Mapping[str, bytes]) -> None:
        """As `RunWriter.keep`. Its error says where on the host the files still are."""
        try:
            self._writer.keep(alias, files)
        except StoreError as error:
            if isinstance(error.__cause__, OSError):  # else it is about what this host sent, and no other's concern
                self._note(error)
            place = self._name_job(alias)
            kept = f"What {alias} gave is still there, in {place}." if alias in self._started else ""
            raise StoreError(error.message, f"{error.hint} {kept}".strip()) from error

    def record(self, event: Event) -> None:
        """As `RunWriter.record`, but what cannot be written is noted as `trouble`, and the run goes on to its end."""
        if isinstance(event, HostStage) and event.stage not in _BEFORE_START:
            self._started.add(event.alias)
        if isinstance(event, HostFinished):
            self.outcomes[event.alias] = event.outcome
            self._left.pop(event.alias, None)
        try:
            self._writer.record(event)
        except StoreError as error:
            self._note(error)

    def _note(self, error: StoreError) -> None:
        with self._lock:
            if self.trouble is not None:
                return
            self.trouble = error
        self._give_up()

    def _name_job(self, alias: str) -> str:
        host = next(host for host in self.plan.hosts if host.alias == alias)
        return f"{host.settings.workdir}/jobs/{host.job_id}"

    def is_open(self, alias: str) -> bool:
        """Whether a host has cells to measure and no outcome yet."""
        return alias in self._left

    def count_failed(self) -> int:
        """Hosts that ended otherwise than well."""
        return sum(outcome.status not in _GOOD for outcome in self.outcomes.values())

    def list_started(self) -> tuple[str, ...]:
        """Hosts on which something may still be running, in the order of the plan."""
        return tuple(alias for alias in self._left if alias in self._started)
