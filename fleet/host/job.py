"""One host's job from the first connection to the last: probe, push and start, follow, collect, clean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from fleet.errors import ContactLost, FleetError, HostError, Unreachable
from fleet.host.follow import Follower, Patience, Pause
from fleet.host.framing import Shell
from fleet.host.outcome import build_outcome
from fleet.host.preflight import check_runtime, check_tools, check_workdir, find_warnings
from fleet.host.probe import Probe, choose_python, probe_host
from fleet.host.results import Expectation, lose_cells
from fleet.host.steps import Task, clean_job, collect_job, start_job
from fleet.model.event import Event, HostFinished, HostNotice, HostStage
from fleet.model.facts import HostFacts
from fleet.model.result import HostOutcome, HostStatus, Stage
from fleet.runtime.base import HostJob
from fleet.transport.base import Transport

ATTEMPTS = 3
"""How often a step that may safely be repeated is taken when contact is lost in it."""

Keep = Callable[[str, Mapping[str, bytes]], None]
"""Stores a host's files (alias, bytes by name) safely before it returns."""

Answer = TypeVar("Answer")
Steps = Generator[Event | Pause, None, Answer]


@dataclass
class Job:
    """The work on one host, as steps that somebody else paces."""

    task: Task
    transport: Transport
    keep: Keep
    cancelled: Callable[[], bool]
    patience: Patience = field(default_factory=Patience)

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

    def run(self) -> Steps[None]:
        """Events as they happen, `Pause` where the host can be left alone; ends with exactly one `HostFinished`."""
        try:
            outcome = yield from self._work()
        except HostError as error:
            outcome = self._end(HostStatus(error.status), Stage(error.stage), error.reason, error.message, error.hint)
        except FleetError as error:
            outcome = self._end(HostStatus.FAILED, Stage.COLLECT, "store", error.message, error.hint)
        except Exception as error:
            # A fault of ours on one host must not cost the others their results.
            outcome = self._end(
                HostStatus.FAILED, Stage.RUN, "internal", f"fleet itself failed: {error!r}", "Please report it."
            )
        finally:
            self.transport.close()
        finished = outcome.model_copy(update={"started": self._started, "finished": _now()})
        yield HostFinished(alias=self._alias, outcome=finished)

    def _work(self) -> Steps[HostOutcome]:
        if self.cancelled():
            return self._cancel(Stage.CONNECT)
        probe = yield from self._prepare()
        if self.cancelled():
            return self._cancel(Stage.PROBE)
        job = self._name_job(probe)
        yield self._enter(Stage.START)
        yield from self._insist(
            lambda: start_job(self._shell, self.task, self._settings, job, push=not probe.payload_present)
        )
        follower = Follower(
            self._shell, self.task, self._settings, job, probe.facts.boot_id, self.cancelled, self.patience
        )
        self._started_there = True
        ending = yield from follower.follow()
        yield self._enter(Stage.COLLECT)
        files = yield from self._insist(lambda: collect_job(self._shell, job, len(self.task.plan.cells)))
        self.keep(self._alias, files)
        outcome = build_outcome(self._expected, files, self._facts, ending)
        yield from self._clean(job)
        return outcome

    def _prepare(self) -> Steps[Probe]:
        """The probe, kept, and its checks passed."""
        yield self._enter(Stage.CONNECT)
        sha256 = self.task.payload_sha256
        try:
            probe = yield from self._insist(lambda: probe_host(self._shell, self._settings, payload_sha256=sha256))
        except ContactLost as error:
            # Nothing was started, so nothing can be lost there.
            raise Unreachable(error.host, Stage.PROBE, error.reason, error.message, error.hint) from error
        self._facts = probe.facts
        self.keep(self._alias, {"probe": probe.raw})
        for warning in (*self.transport.warnings, *find_warnings(self._settings, probe)):
            yield HostNotice(alias=self._alias, message=warning)
        check_tools(self._alias, probe)
        check_runtime(self._alias, self._settings, probe)
        check_workdir(self._alias, self._settings, probe)
        return probe

    def _name_job(self, probe: Probe) -> HostJob:
        return HostJob(
            job_id=self.task.plan.job_id,
            run_id=self.task.run_id,
            workdir=probe.facts.workdir or "",
            payload_sha256=self.task.payload_sha256,
            uid=probe.uid,
            gid=probe.gid,
            rootless=probe.facts.rootless,
        )

    def _clean(self, job: HostJob) -> Steps[None]:
        """What is left behind is worth a notice; the results are already safe."""
        yield self._enter(Stage.CLEAN)
        try:
            clean = clean_job(self._shell, job, self._settings)
            trouble = "" if clean else "the host did not let go of it"
        except HostError as error:
            trouble = error.message
        if trouble:
            yield HostNotice(alias=self._alias, message=f"{job.directory} was left on the host: {trouble}")

    def _insist(self, step: Callable[[], Answer]) -> Steps[Answer]:
        """Take a step that may be repeated, again when contact is lost in it."""
        for attempt in range(1, ATTEMPTS):
            try:
                return step()
            except ContactLost as error:
                yield HostNotice(alias=self._alias, message=f"trying again: {error.message}")
                yield Pause(2.0**attempt)
        return step()

    def _enter(self, stage: Stage) -> HostStage:
        return HostStage(alias=self._alias, stage=stage)

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
