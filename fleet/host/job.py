"""One host's job from the first connection to the last: probe, push and start, follow, collect, clean."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from fleet.errors import ContactLost, FleetError, HostError, Unreachable
from fleet.host.exclusion import Exclusion
from fleet.host.follow import Follower, GivenUp, Patience
from fleet.host.framing import Shell
from fleet.host.hanging import LeftAlone, take_step
from fleet.host.outcome import Ending, build_outcome
from fleet.host.pause import Pause
from fleet.host.preflight import check_runtime, check_tools, check_workdir, find_warnings
from fleet.host.probe import Probe, choose_python, name_job, probe_host, reread_probe
from fleet.host.results import Expectation, lose_cells
from fleet.host.steps import Task, clean_job, collect_job, poll_job, start_job
from fleet.host.trouble import ATTEMPTS, CANCELLED, may_pass, wait_before
from fleet.model.event import Event, HostFinished, HostNotice, HostStage
from fleet.model.facts import HostFacts
from fleet.model.left import JobLeft
from fleet.model.result import HostOutcome, HostStatus, Stage
from fleet.runtime.base import HostJob
from fleet.transport.base import Transport

Keep = Callable[[str, Mapping[str, bytes]], None]
"""Stores a host's files (alias, bytes by name) safely before it returns."""

Answer = TypeVar("Answer")
Steps = Generator[Event | Pause, None, Answer]


class _Cancelled(Exception):
    """Before anything was started on the host."""


@dataclass
class Job:
    """The work on one host, as steps that somebody else paces."""

    task: Task
    transport: Transport
    keep: Keep
    cancelled: Callable[[], bool]
    patience: Patience = field(default_factory=Patience)
    left: JobLeft = field(default_factory=JobLeft)
    """What an earlier controller of the same run left of the job."""
    exclusion: Exclusion = field(default_factory=Exclusion)
    """One for all jobs of a run."""

    def __post_init__(self) -> None:
        plan = self.task.plan
        self._alias = plan.alias
        self._shell = Shell(plan.alias, self.transport)
        python = choose_python(plan.settings, plan.connection, sys.executable)
        self._settings = plan.settings.model_copy(update={"python": python})
        self._started = _now()
        self._facts: HostFacts | None = None
        self._started_there = False
        self._expected = Expectation(plan, self.task.run_id, self.task.payload_sha256)
        self._earlier = reread_probe(self.left.files.get("probe", b""))

    def run(self) -> Steps[None]:
        """Events as they happen, `Pause` where the host can be left alone; ends with exactly one `HostFinished`."""
        try:
            outcome = yield from self._work()
        except _Cancelled:
            outcome = self._cancel(Stage.PROBE)
        except HostError as error:
            outcome = self._end(*self._name_end(error), error.reason, error.message, error.hint)
        except FleetError as error:
            outcome = self._fail(Stage.COLLECT, "store", error.message, error.hint)
        except Exception as error:
            # A fault of ours on one host must not cost the others their results.
            outcome = self._fail(Stage.RUN, "internal", f"fleet itself failed: {error!r}", "Please report it.")
        finally:
            self.transport.close()
        finished = outcome.model_copy(update={"started": self._started, "finished": _now()})
        yield HostFinished(alias=self._alias, outcome=finished)

    def _work(self) -> Steps[HostOutcome]:
        if self.left.collected:
            return (yield from self._finish_collected())
        if self.cancelled() and not self.left.told:
            return self._cancel(Stage.CONNECT)
        probe = yield from self._prepare()
        job, boot_id, started = self._name_job(probe), probe.facts.boot_id, True
        # Where the earlier probe is damaged, a reboot since then is not known of.
        earlier_id = (self._earlier or probe).facts.boot_id
        if self.left.told and (yield from self._goes_on(job, earlier_id)):
            boot_id = earlier_id
        elif self.cancelled():
            return self._cancel(Stage.PROBE)
        else:
            yield self._enter(Stage.START)
            started = yield from self._start(job, push=not probe.payload_present)
        follower = Follower(self._shell, self.task, self._settings, job, boot_id, self.cancelled, self.patience)
        self._started_there = True
        try:
            ending = yield from follower.follow()
        except GivenUp as error:
            if not error.answers:
                raise
            return (yield from self._collect_unended(job, error))
        if ending and ending.reason == "removed" and not started:
            self._started_there = False
            return self._cancel(Stage.START)
        files = yield from self._collect(job)
        return (yield from self._clean(job, build_outcome(self._expected, files, self._facts, ending)))

    def _finish_collected(self) -> Steps[HostOutcome]:
        """The outcome of a job whose files are all here; what is left of it on the host is removed."""
        self._started_there = True
        probe, trouble = self._earlier, ""
        if probe is None:
            # It is damaged: the host can say again what it is, and where its jobs are.
            try:
                probe = yield from self._prepare()
            except HostError as error:
                trouble = error.message
        self._facts = probe.facts if probe else None
        outcome = build_outcome(self._expected, self.left.files, self._facts, None)
        if probe is None:
            return (yield from self._leave(outcome, f"{self._settings.workdir}/jobs/{outcome.job_id}", trouble))
        return (yield from self._clean(self._name_job(probe), outcome))

    def _goes_on(self, job: HostJob, boot_id: str | None) -> Steps[bool]:
        """Whether what an earlier controller started goes on, has ended, or is gone and so must not begin anew.

        Else it is to be started: it never was, its start was cut off, or its supervisor is dead.
        """
        state = yield from self._insist(lambda: poll_job(self._shell, job))
        if not state.present:
            return self.left.seen
        rebooted = bool(boot_id and state.boot_id and state.boot_id != boot_id)
        return state.ended or state.supervised or rebooted

    def _start(self, job: HostJob, *, push: bool) -> Steps[bool]:
        """Whether the job was started for certain: when cancelled in mid-start, that is left to whoever follows it."""

        def start() -> None:
            start_job(self._shell, self.task, self._settings, job, push=push)

        try:
            yield from self._insist(lambda: self._take(start))
        except (ContactLost, Unreachable) as error:
            if self.cancelled():
                return False
            message = f"whether the job was started is not known: {error.message}"
            hint = f"See that `ssh HOST true` ends at once. If the job was started, it is in {job.directory} there."
            raise ContactLost(error.host, Stage.START, error.reason, message, hint) from error
        return True

    def _collect(self, job: HostJob) -> Steps[Mapping[str, bytes]]:
        """The job's files, kept; where that fails they stay on the host."""
        yield self._enter(Stage.COLLECT)

        def collect() -> Mapping[str, bytes]:
            return collect_job(self._shell, job, len(self.task.plan.cells))

        try:
            files = yield from self._insist(lambda: self._take(collect))
        except HostError as error:
            error.stage = Stage.COLLECT
            there = f"What was measured is still there: {job.directory}. Get it with: fleet resume {self.task.run_id}."
            error.hint = f"{there} {error.hint}".strip()
            raise
        # Whoever finds the last one finds all of them.
        self.keep(self._alias, {name: data for name, data in files.items() if name != "exit.json"})
        self.keep(self._alias, {name: data for name, data in files.items() if name == "exit.json"})
        return files

    def _collect_unended(self, job: HostJob, error: GivenUp) -> Steps[HostOutcome]:
        """What a job has measured that is waited for no longer. It stays, for it may still be running."""
        files = yield from self._collect(job)
        ending = Ending(HostStatus(error.status), Stage(error.stage), error.reason, error.message, error.hint)
        return build_outcome(self._expected, files, self._facts, ending)

    def _prepare(self) -> Steps[Probe]:
        """The probe, kept, and its checks passed."""
        yield self._enter(Stage.CONNECT)
        sha256, busy = self.task.payload_sha256, not (self.exclusion.ignore or self.left.told)

        def look() -> Probe:
            return probe_host(self._shell, self._settings, payload_sha256=sha256, busy=busy)

        try:
            patience_s = None if self.left.told else 0.0
            probe = yield from self._insist(lambda: self._take(look, patience_s), timeouts=0)
        except ContactLost as error:
            if error.reason == CANCELLED and not self.left.told:
                raise _Cancelled from None
            # Nothing was started, so nothing can be lost there.
            raise Unreachable(error.host, Stage.PROBE, error.reason, error.message, error.hint) from error
        self._facts = probe.facts
        if not self._earlier:  # which says in what boot the job was started
            self.keep(self._alias, {"probe": probe.raw})
        for warning in (*self.transport.warnings, *find_warnings(self._settings, probe)):
            yield HostNotice(alias=self._alias, message=warning)
        check_tools(self._alias, probe)
        if not self.left.told:  # else what it has measured is wanted, whatever has become of the host meanwhile
            check_runtime(self._alias, self._settings, probe)
            check_workdir(self._alias, self._settings, probe)
            yield from self.exclusion.keep_clear(self.task, self._shell, probe, self.cancelled)
        return probe

    def _name_job(self, probe: Probe) -> HostJob:
        return name_job(self.task.plan, self.task.run_id, self.task.payload_sha256, probe)

    def _clean(self, job: HostJob, outcome: HostOutcome) -> Steps[HostOutcome]:
        """The outcome with what is left behind, which is worth a notice; the results are already safe."""
        yield self._enter(Stage.CLEAN)
        try:
            clean = self._take(lambda: clean_job(self._shell, job, self._settings))
            trouble = "" if clean else "the host did not let go of it"
        except HostError as error:
            trouble = error.message
        return (yield from self._leave(outcome, job.directory, trouble)) if trouble else outcome

    def _leave(self, outcome: HostOutcome, directory: str, trouble: str) -> Steps[HostOutcome]:
        yield HostNotice(alias=self._alias, message=f"{directory} was left on the host: {trouble}")
        return outcome.model_copy(update={"leftover": directory})

    def _insist(self, step: Callable[[], Answer], *, timeouts: int = 1) -> Steps[Answer]:
        """Take a step that may be repeated, again where that may help.

        Before a job was started there, a few times; then for as long as its results may still be reached. A host that
        hung in a command does so again and holds a worker all the while: that is tried again `timeouts` times.
        """
        lost_at = None
        for attempt in itertools.count(1):
            try:
                return step()
            except HostError as error:
                lost_at = lost_at or time.monotonic()
                timeouts -= isinstance(error, ContactLost) and error.reason == "timeout"
                if timeouts < 0 or not may_pass(error) or self._has_tried_enough(attempt, lost_at):
                    raise
                if attempt == 1:
                    yield HostNotice(alias=self._alias, message=f"trying again: {error.message}")
            yield wait_before(attempt, connecting=not self._started_there)
        raise AssertionError

    def _has_tried_enough(self, attempt: int, lost_at: float) -> bool:
        if not self._started_there:
            return attempt == ATTEMPTS or self.cancelled()
        return time.monotonic() - lost_at >= self.patience.now(cancelled=self.cancelled())

    def _take(self, step: Callable[[], Answer], patience_s: float | None = None) -> Answer:
        """Take a step that may hang; once the run is cancelled it is waited for no longer than a cancelled job is.

        Raises:
            ContactLost: it was left alone.
        """
        patience_s = self.patience.cancel_s if patience_s is None else patience_s
        try:
            return take_step(step, self.cancelled, patience_s, self.transport.close)
        except LeftAlone:
            message = f"the host did not answer within {patience_s:.0f} s of the cancel"
            hint = f"Take it up with: fleet resume {self.task.run_id}"
            raise ContactLost(self._alias, Stage.RUN, CANCELLED, message, hint) from None

    def _enter(self, stage: Stage) -> HostStage:
        return HostStage(alias=self._alias, stage=stage)

    def _name_end(self, error: HostError) -> tuple[HostStatus, Stage]:
        """A host that cannot be reached any more may still be at work on what was started there, now or earlier."""
        status = HostStatus(error.status)
        if self._started_there and status.out_of_reach:
            return HostStatus.CONTACT_LOST, Stage(error.stage)
        if self.left.told and (status.out_of_reach or self._facts is None):
            return HostStatus.CONTACT_LOST, Stage.RUN
        return status, Stage(error.stage)

    def _fail(self, stage: Stage, reason: str, message: str, hint: str) -> HostOutcome:
        """Of our own doing: what goes on there, or lies there, can be taken up."""
        if not self._started_there:
            return self._end(HostStatus.FAILED, stage, reason, message, hint)
        hint = f"{hint} The job may go on there. Take it up with: fleet resume {self.task.run_id}".strip()
        return self._end(HostStatus.CONTACT_LOST, stage, reason, message, hint)

    def _cancel(self, stage: Stage) -> HostOutcome:
        return self._end(HostStatus.CANCELLED, stage, "cancelled", "cancelled before anything was started there", "")

    def _end(self, status: HostStatus, stage: Stage, reason: str, message: str, hint: str) -> HostOutcome:
        return HostOutcome(
            alias=self._alias,
            job_id=self.task.plan.job_id,
            status=status,
            stage=stage,
            reason=reason,
            message=message,
            hint=hint,
            facts=self._facts,
            cells=lose_cells(self._expected) if self._started_there else (),
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
