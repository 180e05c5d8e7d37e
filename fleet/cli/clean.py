"""`fleet clean`: what ended jobs have left on the hosts, and taking it away."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from fleet.cli.consoles import open_stdout, print_problem
from fleet.cli.ending import Answer, choose_exit_code
from fleet.cli.passwords import Ask, ask_passwords
from fleet.cli.select import name_inventory, select
from fleet.cli.words import answer_interrupt
from fleet.errors import HostError, StoreError
from fleet.fanout import Fanout
from fleet.host.framing import Shell
from fleet.host.leftovers import LeftJob, Leftovers, find_leftovers, remove_leftovers
from fleet.host.pause import Pause
from fleet.model.inventory import Host
from fleet.model.result import HostStatus
from fleet.report.json_form import write_document
from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.wording import count_things, join_names, make_line, say_sentence, say_status
from fleet.store.naming import RUN_ID
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store
from fleet.transport.open import open_transport
from fleet.transport.passwords import Passwords


@dataclass(frozen=True)
class CleanOptions:
    """The options of `fleet clean`."""

    inventory: Path
    limit: str | None
    forks: int
    ask: Ask
    uncollected: bool
    """Also jobs whose results were never collected here."""
    dry_run: bool
    json: bool
    reports: Path


@dataclass(frozen=True)
class Cleaned(Answer):
    """What was done on one host."""

    removed: Leftovers | None = None
    """In a dry run, what would be. None: nobody got that far."""
    kept: Leftovers | None = None
    notes: tuple[str, ...] = ()
    """Why jobs were kept, a sentence each."""


@dataclass(frozen=True)
class CleanedList:
    """What was done on every selected host, in the order of the inventory."""

    dry_run: bool
    """Nothing was removed."""
    hosts: tuple[Cleaned, ...]
    schema: Literal["fleet.clean/1"] = "fleet.clean/1"


def clean_hosts(options: CleanOptions) -> int:
    """Clean the selected hosts, print what was done; the exit code.

    Raises:
        FleetError: the inventory or the limit is wrong.
    """
    hosts = select(options.inventory, options.limit)
    runs = _Runs(Store(options.reports))
    passwords = ask_passwords(options.ask, hosts)
    fanout: Fanout[Cleaned] = Fanout((_clean(host, options, runs, passwords) for host in hosts), options.forks)
    with answer_interrupt("what is not removed yet stays: run it again."):
        found = {cleaned.alias: cleaned for cleaned in fanout.run()}
    results = [replace(found[h.alias], hint=name_inventory(found[h.alias].hint, options.inventory)) for h in hosts]
    if options.json:
        sys.stdout.write(write_document(CleanedList(options.dry_run, tuple(results))))
    else:
        _print_cleaned(results, dry_run=options.dry_run)
    return choose_exit_code(cleaned.status for cleaned in results)


def _clean(
    host: Host, options: CleanOptions, runs: _Runs, passwords: Passwords
) -> Generator[Cleaned | Pause, None, None]:
    transport = open_transport(host, passwords)
    shell = Shell(host.alias, transport)

    def is_wanted(job: LeftJob) -> bool:
        if job.size_bytes is None or runs.has_collected(job):
            return True
        return options.uncollected and job.state != "recent" and not runs.is_going_on(job)

    try:
        there = find_leftovers(shell, host.settings)
        chosen = there.choose(is_wanted)
        kept = there.without(chosen)
        if chosen.anything and not options.dry_run:
            kept = remove_leftovers(shell, host.settings, chosen.jobs)
        removed = there.without(kept)
        left = chosen.without(removed).jobs
        notes = tuple(_explain_kept([job for job in kept.jobs if job not in left], runs))
        cleaned = Cleaned(host.alias, HostStatus.OK, removed=removed, kept=kept, notes=notes)
        yield _complain(cleaned, left) if left else cleaned
    except HostError as error:
        yield Cleaned(host.alias, error.status, error.reason, error.message, error.hint)
    finally:
        transport.close()


def _complain(cleaned: Cleaned, left: Sequence[LeftJob]) -> Cleaned:
    workdir = cleaned.kept.workdir if cleaned.kept else ""
    said = f"the host did not let go of {join_names([job.job_id for job in left], 3)} in {workdir}/jobs"
    hint = "See there whose the files are, and whether the engine answers (docker ps)."
    return replace(cleaned, status=HostStatus.FAILED, reason="left", message=said, hint=hint)


def _explain_kept(jobs: Sequence[LeftJob], runs: _Runs) -> Iterator[str]:
    """Why they stay, a sentence for each kind."""
    running = [job.job_id for job in jobs if job.state == "running" or runs.is_going_on(job)]
    recent = [job.job_id for job in jobs if job.state == "recent" and job.job_id not in running]
    others = [job for job in jobs if job.job_id not in {*running, *recent}]
    if running:
        yield f"{join_names(running, 3)} {_are(running)} still at work."
    if recent:
        yield f"{join_names(recent, 3)} ended in the last 5 min: the fleet that started it may be about to collect it."
    if others:
        names = [job.job_id for job in others]
        ways = list(dict.fromkeys(f"fleet resume {job.run_id}" for job in others if runs.is_open(job)))
        take = f"{join_names(ways, 3)} collects {'it' if len(names) == 1 else 'them'}, " if ways else ""
        yield f"the results of {join_names(names, 3)} were never collected here: {take}--all removes all such jobs."


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


@dataclass
class _Runs:
    """What this control node knows of the runs that jobs are of. Safe to ask from any thread."""

    store: Store
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[str, StoredRun | None] = field(default_factory=dict)

    def is_open(self, job: LeftJob) -> bool:
        """Whether the run can be taken up here for the job's sake."""
        run = self._find(job.run_id)
        aliases = [host.alias for host in run.plan.hosts if host.job_id == job.job_id] if run else []
        ends = [run.outcomes.get(alias) for alias in aliases] if run else []
        return any(end is None or end.status is HostStatus.CONTACT_LOST for end in ends)

    def has_collected(self, job: LeftJob) -> bool:
        """Whether the results of the job are kept here."""
        run = self._find(job.run_id)
        outcomes = run.outcomes.values() if run else ()
        return any(outcome.job_id == job.job_id and outcome.collected for outcome in outcomes)

    def is_going_on(self, job: LeftJob) -> bool:
        """Whether a fleet here is still at work on the run."""
        run = self._find(job.run_id)
        return run is not None and run.running

    def _find(self, run_id: str) -> StoredRun | None:
        with self._lock:
            if run_id not in self._known:
                self._known[run_id] = None
                with suppress(StoreError):
                    # The name comes from the host: nothing else is read by it.
                    self._known[run_id] = self.store.load(run_id) if RUN_ID.fullmatch(run_id) else None
            return self._known[run_id]


def _print_cleaned(results: Sequence[Cleaned], *, dry_run: bool) -> None:
    console = open_stdout()
    ink = Ink.of(console)
    heads = ("status", "would be removed" if dry_run else "removed", "size", "stays")
    rows = [
        (
            ink.text(say_status(cleaned.status), "green" if cleaned.status == HostStatus.OK else "red"),
            ink.text(_count_all([cleaned.removed])),
            ink.text(_say_size(cleaned.removed.size_bytes) if cleaned.removed else ""),
            ink.text(_count_all([cleaned.kept])),
        )
        for cleaned in results
    ]
    columns = [
        Column(ink.text(head), cells, "right" if head == "size" else "left")
        for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
    ]
    names = Column(ink.text("host"), tuple(ink.text(cleaned.alias, "bold") for cleaned in results))
    print_blocks(console, [names], columns, even=False)
    for cleaned in results:
        for note in cleaned.notes:
            console.print(ink.text(f"{cleaned.alias}: {say_sentence(make_line(note, 600), cleaned.alias)}\n", "yellow"))
    failed = [cleaned for cleaned in results if cleaned.status != HostStatus.OK]
    for cleaned in failed:
        print_problem(console, cleaned.alias, cleaned.message, cleaned.hint)
    removed = [cleaned.removed for cleaned in results if cleaned.removed]
    size = sum(leftovers.size_bytes for leftovers in removed)
    word = "Would remove" if dry_run else "Removed"
    where = f"{len(results) - len(failed)}/{count_things(len(results), 'host')}"
    console.print(ink.text(f"{word} {_count_all(removed)} on {where}, {_say_size(size)}."))


def _count_all(leftovers: Sequence[Leftovers | None]) -> str:
    """`2 jobs, 1 container, 1 benchmark`, of all together; `nothing`."""
    there = [one for one in leftovers if one]
    files = [file.name.partition("-")[0] for one in there for file in one.files]
    jobs = [job for one in there for job in one.jobs]
    counts = {
        "job": sum(job.size_bytes is not None for job in jobs),
        "container": sum(job.container for job in jobs),
        "benchmark": files.count("payload"),
        "image part": files.count("image"),
        "lock name": sum(len(one.holders) for one in there),
    }
    return ", ".join(count_things(count, thing) for thing, count in counts.items() if count) or "nothing"


def _say_size(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.1f} MiB"
