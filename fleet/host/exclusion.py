"""Keeping off machines that are taken: under another name in the same run, by another fleet, by any other work."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from threading import Lock

from fleet.errors import Busy, HostError, Unreachable
from fleet.host.framing import Shell
from fleet.host.neighbours import Disturbance, find_disturbances, look_around
from fleet.host.pause import Pause
from fleet.host.probe import Probe
from fleet.host.steps import Task
from fleet.model.event import Event, HostNotice, HostProgress, HostStage
from fleet.model.facts import HostFacts
from fleet.model.result import Stage

LOOK_EVERY_S = 10.0
"""Between two looks at a machine that is waited for."""

_HINT = "Wait for it with --wait-idle 10m, or measure beside it with --ignore-busy."


class Machines:
    """The machines of one run, each under the alias that came first. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._aliases: dict[tuple[str, str], str] = {}

    def note(self, alias: str, facts: HostFacts) -> None:
        """Remember what an earlier controller of the run measured under this alias, or began to."""
        if (machine := _name_machine(facts)) is not None:
            with self._lock:
                self._aliases.setdefault(machine, alias)

    def claim(self, alias: str, facts: HostFacts) -> None:
        """Take a machine for this alias. One that cannot be named is left to its own lock, which always tells.

        Raises:
            Busy: another alias has it.
        """
        machine = _name_machine(facts)
        if machine is None:
            return
        with self._lock:
            first = self._aliases.setdefault(machine, alias)
        if first != alias:
            said = f"it is a machine that this run measures already, as {first} (one machine-id, one boot)"
            hint = "Leave one of the two names out of the inventory."
            raise Busy(alias, Stage.PROBE, "same_machine", said, hint)


def _name_machine(facts: HostFacts) -> tuple[str, str] | None:
    """Machine-id and boot: two hosts that share both are one machine, for the kernel draws a boot's id at random.

    The machine-id alone does not say it: cloned disks share it.
    """
    if facts.machine_id_sha256 is None or facts.boot_id is None:
        return None
    return facts.machine_id_sha256, facts.boot_id


@dataclass(frozen=True)
class Exclusion:
    """What the jobs of one run do about machines that are taken."""

    wait_s: float = 0.0
    """How long to wait for a machine that others use."""
    ignore: bool = False
    """Measure beside them. The machine's lock and the other names of a machine count all the same."""
    machines: Machines = field(default_factory=Machines)

    def keep_clear(
        self, task: Task, shell: Shell, probe: Probe, cancelled: Callable[[], bool]
    ) -> Generator[Event | Pause, None, None]:
        """Until the machine is free to be measured, or the job is cancelled.

        A GPU that others compute on is not taken: the benchmark wants all of its memory, and one of the two would fail.
        Processors are shared, and on many machines never idle: measuring beside others is told, and each result says
        how much they took. But who gives a time to wait wants an idle machine or no result.

        Raises:
            Busy: it is not free, by whom.
            Unreachable: it was lost while it was waited for.
        """
        self.machines.claim(shell.alias, probe.facts)
        if self.ignore:
            return
        found: Sequence[Disturbance] = find_disturbances(probe.findings, task.plan.settings)
        if self.wait_s and found and task.run_id not in found[0].message:
            found = yield from _Wait(task, shell, cancelled, self.wait_s).outlast(found)
        for disturbance in found:
            if disturbance.reason == "gpu_busy" or (disturbance.reason == "cpu_busy" and self.wait_s):
                waited = f" after {_say_time(self.wait_s)} of waiting" if self.wait_s else ""
                raise Busy(shell.alias, Stage.PROBE, disturbance.reason, f"{disturbance.message}{waited}", _HINT)
            if disturbance.reason == "cpu_busy":
                yield HostNotice(alias=shell.alias, message=f"measured all the same: {disturbance.message}")
        # Of a lock, the start says who holds it: it may be free again by then.


@dataclass
class _Wait:
    """One host that is waited for."""

    task: Task
    shell: Shell
    cancelled: Callable[[], bool]
    wait_s: float

    def outlast(self, found: Sequence[Disturbance]) -> Generator[Event | Pause, None, Sequence[Disturbance]]:
        """What still disturbs when the time is up; nothing as soon as nothing does."""
        end, lost, told = time.monotonic() + self.wait_s, None, {found[0].reason}
        yield HostStage(alias=self.shell.alias, stage=Stage.PROBE)
        yield HostNotice(alias=self.shell.alias, message=f"waiting up to {_say_time(self.wait_s)}: {found[0].message}")
        while found and (left := end - time.monotonic()) > 0:
            if found[0].reason not in told:
                told.add(found[0].reason)
                yield HostNotice(
                    alias=self.shell.alias, message=f"still waiting, up to {left:.0f} s: {found[0].message}"
                )
            yield self._tell(found[0])
            yield Pause(min(LOOK_EVERY_S, left), connecting=True)
            if self.cancelled():
                return ()
            try:
                found, lost = look_around(self.shell, self.task.plan.settings), None
            except HostError as error:
                lost = error
        if lost:
            raise Unreachable(lost.host, Stage.PROBE, lost.reason, lost.message, lost.hint)
        return found

    def _tell(self, disturbance: Disturbance) -> HostProgress:
        return HostProgress(
            alias=self.shell.alias,
            cells_done=0,
            cells_total=len(self.task.plan.cells),
            elapsed_s=0.0,
            detail=disturbance.message,
            waiting=True,
        )


def _say_time(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
