"""`fleet status`: what every host of a run is doing now."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from fleet.cli.consoles import open_stdout
from fleet.cli.passwords import Ask, ask_passwords
from fleet.errors import HostError
from fleet.fanout import Fanout
from fleet.host.framing import Shell
from fleet.host.pause import Pause
from fleet.host.probe import Probe, name_job, reread_probe
from fleet.host.steps import JobState, poll_job
from fleet.model.event import HostNotice
from fleet.model.left import JobLeft
from fleet.model.plan import HostPlan
from fleet.model.result import HostOutcome, HostStatus
from fleet.progress_board import Board, HostState, count_measured
from fleet.report.json_form import write_document
from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.wording import count_things, format_duration, join_names, make_line, say_status
from fleet.runtime.base import HostJob
from fleet.store.opening import read_left, read_timed_events
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store
from fleet.transport.open import open_transport
from fleet.transport.passwords import Passwords


@dataclass(frozen=True)
class HostNow:
    """One host of a run."""

    alias: str
    state: str
    """What it is doing, or how it ended."""
    cells_done: int
    cells_total: int
    cell: str | None = None
    """Canonical id of the one it measures."""
    elapsed_s: float | None = None
    """Since the job was started there, or from then to its end."""
    ended: bool = False
    heard_s: float | None = None
    """Since this is known; None: it has just been asked, or has ended."""
    message: str = ""


@dataclass(frozen=True)
class RunNow:
    """A run and what each of its hosts is doing."""

    run_id: str
    state: str
    """`running`, `complete`, or `incomplete`: nobody is at it."""
    hosts: tuple[HostNow, ...]
    schema: Literal["fleet.status/1"] = "fleet.status/1"


def show_status(reports: Path, run_id: str | None, ask: Ask, *, as_json: bool) -> None:
    """Print it: of a run that goes on, what its controller heard last; of one whose controller is gone, what hosts say.

    Raises:
        StoreError: there is no such run, or it cannot be read.
    """
    store = Store(reports)
    run = store.load(store.find_newest().name if run_id is None else run_id)
    hosts = _read_log(run)
    if not run.running and run.summary is None:
        hosts |= _ask_hosts(run, hosts, ask)
    state = "running" if run.running else "complete" if run.summary else "incomplete"
    if as_json:
        sys.stdout.write(write_document(RunNow(run.plan.run_id, state, tuple(hosts.values()))))
    else:
        _print_hosts(run, state, list(hosts.values()))


def _read_log(run: StoredRun) -> dict[str, HostNow]:
    """By alias, what a controller has heard of each host."""
    board = Board(run.plan, lambda: 0.0)
    heard: dict[str, datetime] = {}
    notices: dict[str, str] = {}
    for moment, event in read_timed_events(run.path):
        board.apply(event)
        if isinstance(event, HostNotice):
            notices[event.alias] = event.message
        else:
            heard[event.alias] = moment
            notices.pop(event.alias, None)
    hosts = {}
    for alias, state in board.hosts.items():
        outcome = run.outcomes.get(alias)
        told = run.running and alias in heard
        heard_s = (datetime.now(UTC) - heard[alias]).total_seconds() if told else None
        hosts[alias] = _read_outcome(state, outcome) if outcome else _read_board(state, heard_s, notices.get(alias))
    return hosts


def _read_outcome(state: HostState, outcome: HostOutcome) -> HostNow:
    return HostNow(
        outcome.alias,
        say_status(outcome.status),
        count_measured(outcome),
        len(state.plan.cells),
        elapsed_s=outcome.job_s,
        ended=True,
        message=make_line(outcome.message),
    )


def _read_board(state: HostState, heard_s: float | None, notice: str | None) -> HostNow:
    seen = state.progress
    begun = seen if seen and not seen.waiting else None
    return HostNow(
        state.plan.alias,
        state.word,
        state.cells_done(),
        len(state.plan.cells),
        cell=begun.current_cell if begun else None,
        elapsed_s=begun.elapsed_s if begun else None,
        heard_s=heard_s,
        message=make_line(seen.detail if seen and seen.waiting else notice),
    )


def _ask_hosts(run: StoredRun, known: dict[str, HostNow], ask: Ask) -> dict[str, HostNow]:
    """What the hosts say for which nobody speaks any more."""
    open_ = [host for host in run.plan.hosts if host.alias not in run.outcomes]
    left = read_left(run, [host.alias for host in open_])
    begun = [host for host in open_ if left[host.alias].told]
    passwords = ask_passwords(ask, begun)
    questions = (_ask(host, run, known[host.alias], left[host.alias], passwords) for host in begun)
    fanout: Fanout[HostNow] = Fanout(questions, run.plan.forks)
    never = {host.alias: _begin_never(known[host.alias]) for host in open_}
    return never | {now.alias: now for now in fanout.run()}


def _begin_never(known: HostNow) -> HostNow:
    return HostNow(known.alias, "never begun", 0, known.cells_total)


def _ask(
    host: HostPlan, run: StoredRun, known: HostNow, left: JobLeft, passwords: Passwords
) -> Generator[HostNow | Pause, None, None]:
    probe = reread_probe(left.files.get("probe", b""))
    known = replace(known, cell=None, elapsed_s=None, heard_s=None, message="")
    if left.collected:
        done = sum(name.startswith("cells/") for name in left.files)
        yield replace(known, state="ended, results are here", cells_done=done, ended=True)
        return
    if probe is None:
        yield replace(known, state="not known: its probe is damaged")
        return
    transport = open_transport(host, passwords)
    try:
        state = poll_job(Shell(host.alias, transport), _name(host, run, probe))
    except HostError as error:
        yield replace(known, state=say_status(error.status), message=make_line(error.message))
        return
    finally:
        transport.close()
    if state.present:
        yield _read_state(host, state, known)
    else:
        # Nothing was started where a start was at most on its way: it may have waited for others until then.
        yield replace(known, state="gone") if left.seen else _begin_never(known)


def _read_state(host: HostPlan, state: JobState, known: HostNow) -> HostNow:
    done = min(state.progress.done, known.cells_total) if state.progress else known.cells_done
    now = replace(known, cells_done=done, elapsed_s=state.elapsed_s)
    if state.ended:
        return replace(now, state="ended, not collected", ended=True)
    index = state.progress.index if state.progress else None
    cell = host.cells[index].id if index is not None and index < len(host.cells) else None
    return replace(now, state="measuring" if state.supervised else "abandoned by its supervisor", cell=cell)


def _name(host: HostPlan, run: StoredRun, probe: Probe) -> HostJob:
    return name_job(host, run.plan.run_id, run.plan.payload_sha256, probe)


def _print_hosts(run: StoredRun, state: str, hosts: list[HostNow]) -> None:
    console = open_stdout()
    ink = Ink.of(console)
    columns = []
    for head, read in _COLUMNS:
        values = tuple(ink.text(read(host)) for host in hosts)
        if any(value.plain for value in values):
            columns.append(Column(ink.text(head), values, "right" if head in _NUMBERS else "left"))
    names = Column(ink.text("host"), tuple(ink.text(host.alias, "bold") for host in hosts))
    print_blocks(console, [names], columns, even=False)
    console.print(ink.text(f"run {run.plan.run_id} is {state}, {count_things(len(hosts), 'host')}."))
    lost = [alias for alias, outcome in run.outcomes.items() if outcome.status is HostStatus.CONTACT_LOST]
    if state == "incomplete":
        console.print(ink.text(f"Take it up with: fleet resume {run.plan.run_id}"), soft_wrap=True)
    elif state == "complete" and lost:
        said = f"It may still measure on {join_names(lost)}. Collect it with: fleet resume {run.plan.run_id}"
        console.print(ink.text(said), soft_wrap=True)
    elif state == "complete":
        console.print(
            ink.text(f"What it measured, and what to do about what failed: fleet report {run.plan.run_id}"),
            soft_wrap=True,
        )


def _write_s(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


_NUMBERS = {"cells", "for", "took", "last heard"}
_COLUMNS: tuple[tuple[str, Callable[[HostNow], str]], ...] = (
    ("state", lambda host: host.state),
    ("cells", lambda host: f"{host.cells_done}/{host.cells_total}"),
    ("for", lambda host: "" if host.ended else _write_s(host.elapsed_s)),
    ("took", lambda host: _write_s(host.elapsed_s) if host.ended else ""),
    ("last heard", lambda host: f"{_write_s(host.heard_s)} ago" if host.heard_s is not None else ""),
    ("cell", lambda host: host.cell or ""),
    ("", lambda host: host.message),
)
