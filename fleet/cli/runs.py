"""`fleet runs` and what is beneath it: the runs as directories, which are listed, shown, moved and deleted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from fleet.cli.consoles import open_stdout
from fleet.cli.index import list_runs, open_synced
from fleet.cli.words import print_error, tell
from fleet.errors import ConfigError, ExitCode, LockedError, StoreError
from fleet.model.journal import PinnedBaseline
from fleet.model.push import format_bytes
from fleet.report.json_form import write_document
from fleet.report.run_details import describe_run_details
from fleet.report.runs import RunList, describe_runs
from fleet.report.terminal_runs import render_details, render_runs
from fleet.report.wording import count_things, join_names
from fleet.store.journal import list_pinned, list_regressed, read_journal
from fleet.store.moving import find_runs, measure_size, remove_run, take_in_run
from fleet.store.reader import is_running
from fleet.store.rundir import Store


def refuse_misplaced(given: Sequence[str], command: str) -> None:
    """Options of the list do not reach the commands beneath it: better refused than ignored.

    Raises:
        ConfigError: some were given.
    """
    if given:
        option = f"--{given[0]}"
        raise ConfigError(f"{option} stands before {command}", hint=f"Write: fleet runs {command} … {option} …")


def print_runs(reports: Path, *, as_json: bool) -> None:
    """The list of runs, on stdout."""
    store = Store(reports)
    lines = describe_runs(list_runs(store), _find_regressed(store))
    if as_json:
        sys.stdout.write(write_document(RunList(lines)))
    else:
        render_runs(lines, open_stdout())


def show_run(reports: Path, run_id: str, *, as_json: bool) -> None:
    """What a run was and how it went, on stdout.

    Raises:
        StoreError: there is no such run, or it cannot be read.
    """
    store = Store(reports)
    path = store.locate(run_id)
    run = store.load(f"{path}/")
    details = describe_run_details(run, measure_size(path), _find_reasons(store, path), _find_regressed(store))
    if as_json:
        sys.stdout.write(write_document(details))
    else:
        render_details(details, open_stdout())


def delete_runs(reports: Path, run_ids: Sequence[str], *, yes: bool) -> int:
    """Delete runs when somebody has said yes; the exit code.

    Raises:
        StoreError: one of them cannot be deleted. Nothing is, then.
    """
    store = Store(reports)
    paths = list(dict.fromkeys(_find_deletable(store, run_id) for run_id in run_ids))
    size = format_bytes(sum(measure_size(path) for path in paths))
    if not yes and not _confirm(f"Delete {join_names([path.name for path in paths])} for good ({size})?"):
        return ExitCode.NOTHING
    for path in paths:
        remove_run(store, path)
    typer.echo(f"{count_things(len(paths), 'run')} deleted, {size}")
    return ExitCode.OK


def import_runs(reports: Path, directories: Sequence[Path]) -> int:
    """Take in runs of other control nodes, one after the other; the exit code.

    Raises:
        StoreError: a directory holds no runs.
    """
    store = Store(reports)
    sources = [path for directory in directories for path in find_runs(directory)]
    refused = 0
    for source in sources:
        try:
            taken = take_in_run(store, source)
        except StoreError as error:
            print_error(error)
            refused += 1
            continue
        typer.echo(f"{source.name} {'imported' if taken else 'is here already'}")
    return ExitCode.FAILED if refused else ExitCode.OK


def export_runs(reports: Path, file: Path) -> int:
    """Every result of every complete run as one file; the exit code.

    Raises:
        FleetError: the index cannot be used, pyarrow is missing, or the file cannot be written.
    """
    from fleet.store.export import export_parquet

    store = Store(reports)
    index, synced = open_synced(store)
    with index:
        written = export_parquet(index.database, file, _find_regressed(store))
    for problem in synced.problems:
        print_error(StoreError(problem))
    typer.echo(f"{count_things(written, 'result')} written to {file}")
    return ExitCode.OK if written else ExitCode.NOTHING


def _find_deletable(store: Store, run_id: str) -> Path:
    path = store.locate(run_id)
    if path.parent.resolve() != store.runs_path.resolve():
        raise StoreError(f"{path} is not one of the runs in {store.root}.", "Say with --reports where it is.")
    if is_running(path):
        hint = f"End it first, with: fleet cancel {path.name}"
        raise LockedError(f"run {path.name} is going on: a fleet works at it.", hint)
    if reasons := _find_reasons(store, path):
        what = f"run {path.name} is a baseline: {reasons[0].reason}"
        raise StoreError(what.rstrip(". ") + ".", "What was measured later is compared with it. Choose another first.")
    return path


def _find_reasons(store: Store, path: Path) -> list[PinnedBaseline]:
    """The baselines that name the run."""
    entries, _ = read_journal(store.root)
    return [baseline for baseline in list_pinned(entries).values() if path.name in baseline.run_ids]


def _find_regressed(store: Store) -> frozenset[str]:
    return list_regressed(read_journal(store.root)[0])


def _confirm(question: str) -> bool:
    """Whether somebody says yes. An input that ends is a no: nobody looked."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    if answer.strip().lower() in {"y", "yes"}:
        return True
    tell(f"Nothing was deleted.{'' if answer else ' Nobody was there to answer; give --yes.'}")
    return False
