"""`fleet status`: what every host of a run is doing now."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fleet.cli.consoles import open_stdout
from fleet.cli.passwords import Ask, ask_passwords
from fleet.errors import HostError
from fleet.fanout import Fanout
from fleet.host.framing import Shell
from fleet.host.pause import Pause
from fleet.host.probe import Probe, name_job, reread_probe
from fleet.host.steps import poll_job
from fleet.model.left import JobLeft
from fleet.model.plan import HostPlan
from fleet.progress_board import Board, HostState, count_measured
from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.wording import count_things, format_duration, make_line, say_status
from fleet.runtime.base import HostJob
from fleet.store.opening import read_events, read_left
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
    """Since the job was started there."""
    message: str = ""


def show_status(reports: Path, run_id: str | None, ask: Ask, *, as_json: bool) -> None:
    """Print it: of a run that goes on, what its controller heard last; of one whose controller is gone, what hosts say.

    Raises:
        StoreError: there is no such run, or it cannot be read.
    """
    store = Store(reports)
    run = store.load(store.find_newest().name if run_id is None else run_id)
    board = Board(run.plan, lambda: 0.0)
    for event in read_events(run.path):
        board.apply(event)
    hosts = {alias: _read_board(state, run) for alias, state in board.hosts.items()}
    if not run.running and run.summary is None:
        hosts |= _ask_hosts(run, hosts, ask)
    state = "running" if run.running else "complete" if run.summary else "incomplete"
    if as_json:
        document = {
            "schema": "fleet.status/1",
            "run_id": run.plan.run_id,
            "state": state,
            "hosts": [asdict(host) for host in hosts.values()],
        }
        sys.stdout.write(json.dumps(document, indent=2, sort_keys=True) + "\n")
    else:
        _print_hosts(run, state, list(hosts.values()))


def _read_board(state: HostState, run: StoredRun) -> HostNow:
    alias, total = state.plan.alias, len(state.plan.cells)
    outcome = run.outcomes.get(alias)
    if outcome is not None:
        message = make_line(outcome.message)
        return HostNow(alias, say_status(outcome.status), count_measured(outcome), total, None, outcome.job_s, message)
    seen = state.progress
    cell, elapsed_s = (seen.current_cell, seen.elapsed_s) if seen else (None, None)
    return HostNow(alias, state.word, state.cells_done(), total, cell, elapsed_s)


def _ask_hosts(run: StoredRun, known: dict[str, HostNow], ask: Ask) -> dict[str, HostNow]:
    """What the hosts say for which nobody speaks any more."""
    open_ = [host for host in run.plan.hosts if host.alias not in run.outcomes]
    left = read_left(run, [host.alias for host in open_])
    begun = [host for host in open_ if left[host.alias].told]
    passwords = ask_passwords(ask, begun)
    questions = (_ask(host, run, known[host.alias], left[host.alias], passwords) for host in begun)
    fanout: Fanout[HostNow] = Fanout(questions, run.plan.forks)
    never = {host.alias: replace(known[host.alias], state="never begun", cell=None) for host in open_}
    return never | {now.alias: now for now in fanout.run()}


def _ask(
    host: HostPlan, run: StoredRun, known: HostNow, left: JobLeft, passwords: Passwords
) -> Generator[HostNow | Pause, None, None]:
    probe = reread_probe(left.files.get("probe", b""))
    if left.collected or probe is None:
        word = "ended, results are here" if left.collected else "not known: its probe is damaged"
        yield replace(known, state=word, cell=None)
        return
    transport = open_transport(host, passwords)
    try:
        state = poll_job(Shell(host.alias, transport), _name(host, run, probe))
    except HostError as error:
        yield replace(known, state=say_status(error.status), message=make_line(error.message))
        return
    finally:
        transport.close()
    if not state.present:
        yield replace(known, state="gone", cell=None)
    elif state.ended:
        yield replace(known, state="ended, not collected", cell=None)
    else:
        index = state.progress.index if state.progress else None
        cell = host.cells[index].id if index is not None and index < len(host.cells) else None
        done = min(state.progress.done, known.cells_total) if state.progress else known.cells_done
        doing = "measuring" if state.supervised else "abandoned by its supervisor"
        yield HostNow(host.alias, doing, done, known.cells_total, cell, state.elapsed_s)


def _name(host: HostPlan, run: StoredRun, probe: Probe) -> HostJob:
    return name_job(host, run.plan.run_id, run.plan.payload_sha256, probe)


def _print_hosts(run: StoredRun, state: str, hosts: list[HostNow]) -> None:
    console = open_stdout()
    ink = Ink.of(console)
    columns = []
    for head, read in _COLUMNS:
        values = tuple(ink.text(read(host)) for host in hosts)
        if any(value.plain for value in values):
            columns.append(Column(ink.text(head), values, "right" if head in {"cells", "since"} else "left"))
    names = Column(ink.text("host"), tuple(ink.text(host.alias, "bold") for host in hosts))
    print_blocks(console, [names], columns, even=False)
    console.print(ink.text(f"run {run.plan.run_id} is {state}, {count_things(len(hosts), 'host')}."))
    if state == "incomplete":
        console.print(ink.text(f"Take it up with: fleet resume {run.plan.run_id}"), soft_wrap=True)


_COLUMNS: tuple[tuple[str, Callable[[HostNow], str]], ...] = (
    ("state", lambda host: host.state),
    ("cells", lambda host: f"{host.cells_done}/{host.cells_total}"),
    ("since", lambda host: format_duration(host.elapsed_s) if host.elapsed_s is not None else ""),
    ("cell", lambda host: host.cell or ""),
    ("", lambda host: host.message),
)
