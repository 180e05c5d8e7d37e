"""The second half of `fleet run`, and all of `resume` and `cancel`: fan-out → store → report."""

from __future__ import annotations

from fleet.analysis.verdict import Verdict, judge
from fleet.cli.consoles import open_stderr
from fleet.cli.measure import Work, measure_hosts
from fleet.cli.outputs import Form, Outputs, put_out
from fleet.cli.report import print_run
from fleet.cli.words import print_error
from fleet.errors import ExitCode, StoreError
from fleet.progress import open_progress
from fleet.progress_print import print_line
from fleet.report.view_model import Found
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store
from fleet.store.writer import RunWriter


def carry_out(work: Work, writer: RunWriter, store: Store, *, as_json: bool, cancel: bool = False) -> int:
    """Take the run as far as it goes and print its report; the exit code.

    Args:
        cancel: begin nothing, and end what was begun.
    """
    console = open_stderr()
    plan = work.plan
    live, new = console.is_terminal, not work.left
    with open_progress(plan, console, live=live, wave=work.limits.wave, new=new) as progress:
        measured = measure_hosts(
            work,
            writer,
            progress,
            lambda sentence: print_line(console, sentence, timed=not live),
            cancel=cancel,
        )
    verdict = judge(plan, measured.outcomes, measured.interrupted)
    outputs = Outputs(Form.JSON if as_json else Form.TERMINAL)
    whole = len(measured.outcomes) == len(plan.hosts)
    trouble = measured.trouble or (_finish(writer, verdict) if whole else None)
    if trouble is not None:
        return _end_in_trouble(StoredRun(writer.path, plan, measured.outcomes, None), trouble, verdict, outputs)
    writer.close()
    shown = print_run(store.load(f"{writer.path}/"), store, outputs)
    return verdict.exit_code or shown


def _finish(writer: RunWriter, verdict: Verdict) -> StoreError | None:
    """Complete the run; what was in the way of it."""
    try:
        writer.finish(exit_code=verdict.exit_code, interrupted=verdict.interrupted)
    except StoreError as error:
        return error
    try:
        writer.move_latest()
    except StoreError as error:  # the link is for people: fleet finds the latest run without it
        print_error(error)
    return None


def _end_in_trouble(run: StoredRun, trouble: StoreError, verdict: Verdict, outputs: Outputs) -> int:
    """Show what is known of a run whose directory is not whole, as long as somebody knows it."""
    put_out(run, Found(), outputs)
    print_error(trouble)
    return ExitCode.INTERRUPTED if verdict.interrupted else ExitCode.INTERNAL
