"""`fleet report`: what was measured, again and again."""

from __future__ import annotations

from pathlib import Path

from fleet.cli.index import open_synced
from fleet.cli.outputs import Outputs, put_out
from fleet.cli.words import print_error, tell
from fleet.errors import ExitCode, FleetError, StoreError
from fleet.report.view_model import Found
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store


def print_report(reports: Path, run_id: str | None, outputs: Outputs) -> ExitCode:
    """One run's report, put out; REGRESSION where an incident is open in it.

    Raises:
        StoreError: there is no such run, it cannot be read, or a file cannot be written.
    """
    store = Store(reports)
    run = store.load(run_id)
    if run_id is None:
        newer = [path.name for path in store.list_begun() if path.name > run.path.name]
        if newer:
            tell(f"a newer run is not complete: see fleet status {newer[0]}")
    return print_run(run, store, outputs)


def print_run(run: StoredRun, store: Store, outputs: Outputs) -> ExitCode:
    """The report of a run that is loaded, put out; the exit code as of `print_report`."""
    found = find_changes(run, store)
    put_out(run, found, outputs)
    return ExitCode.REGRESSION if found.regressions else ExitCode.OK


def find_changes(run: StoredRun, store: Store) -> Found:
    """What was found in a complete run of the store against those before it; nothing for any other.

    The report does not hang on it: what is in the way is said beside it.
    """
    from fleet.cli.incidents import find_in_run
    from fleet.cli.judging import judge_runs

    if run.summary is None or run.path.resolve().parent != store.runs_path.resolve():
        return Found()
    try:
        index, synced = open_synced(store)
        with index:
            for problem in synced.problems:
                print_error(StoreError(problem))
            judge_runs(index)
            return find_in_run(index, run.plan.run_id)
    except FleetError as error:
        print_error(error)
        tell("       The run is kept all the same; what it changed is told when the index can be used.")
        return Found()
