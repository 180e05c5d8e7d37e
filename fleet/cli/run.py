"""`fleet run`: inventory → plan → fan-out → store → report."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import typer

from fleet.analysis.verdict import Verdict, judge
from fleet.bundle import Bundle, build_bundle, read_models
from fleet.cli.consoles import open_stderr
from fleet.cli.dry_run import print_plan
from fleet.cli.measure import measure_hosts
from fleet.cli.report import print_run
from fleet.cli.select import select
from fleet.cli.version import find_version
from fleet.cli.words import print_error
from fleet.errors import ConfigError, ExitCode, StoreError
from fleet.estimate import Past
from fleet.model.plan import Plan
from fleet.plan import RunRequest, build_plan
from fleet.progress import open_progress
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store
from fleet.store.writer import RunWriter
from fleet.suite import load_suite
from fleet.suite_options import CellOptions, make_suite


@dataclass(frozen=True)
class RunOptions:
    """The options of `fleet run`."""

    inventory: Path
    work: str | CellOptions
    """A shipped suite or the path of one, or cells."""
    limit: str | None
    forks: int
    dry_run: bool
    json: bool
    reports: Path


def choose_work(suite: str | None, cells: Mapping[str, str]) -> str | CellOptions:
    """What `--suite`, or `--models` and its companions, ask for.

    Args:
        cells: the fields of `CellOptions` that were given.

    Raises:
        ConfigError: they do not go together.
    """
    if not cells:
        return suite or "quick"
    given = ", ".join("--" + name.replace("_", "-") for name in cells)
    if suite is not None:
        raise ConfigError(
            f"--suite {suite} says what to measure, and {given} too",
            hint="Use one or the other; or copy the suite and change it.",
        )
    if "models" not in cells:
        raise ConfigError(f"{given} without --models", hint="See which there are with: fleet models")
    return CellOptions(**cells)


def run_suite(options: RunOptions) -> int:
    """The whole main job; the exit code.

    Raises:
        FleetError: nothing could be planned, or nothing can be kept.
    """
    bundle = build_bundle()
    plan = _make_plan(options, bundle)
    if options.dry_run:
        print_plan(plan, as_json=options.json)
        return ExitCode.OK
    return _carry_out(plan, bundle, options)


def _make_plan(options: RunOptions, bundle: Bundle) -> Plan:
    """Everything that can be wrong with what the user wrote is found here, before the first connection."""
    models = read_models()
    request = RunRequest(
        inventory=str(options.inventory),
        limit=options.limit,
        forks=options.forks,
        payload_sha256=bundle.sha256,
        fleet_version=find_version(),
        now=datetime.now(UTC),
        token="".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(4)),
    )
    hosts = select(options.inventory, options.limit)
    suite = load_suite(options.work, models) if isinstance(options.work, str) else make_suite(options.work, models)
    last = Store(options.reports).find_last(host.alias for host in hosts)
    past = {alias: Past(plan.rules, outcome.cells) for alias, (plan, outcome) in last.items()}
    return build_plan(hosts, suite, models, request, past)


def _carry_out(plan: Plan, bundle: Bundle, options: RunOptions) -> int:
    store = Store(options.reports)
    console = open_stderr()
    with store.create(plan) as writer:
        typer.echo(f"run {plan.run_id} · results in {writer.path}", err=True)
        with open_progress(plan, console, live=console.is_terminal) as progress:
            measured = measure_hosts(
                plan, bundle, writer, progress, lambda sentence: console.print(sentence, soft_wrap=True)
            )
        verdict = judge(plan, measured.outcomes, measured.interrupted)
        trouble = measured.trouble or _finish(writer, verdict)
    if trouble is not None:
        return _end_in_trouble(StoredRun(writer.path, plan, measured.outcomes, None), trouble, verdict, options)
    print_run(store.load(plan.run_id), as_json=options.json)
    return verdict.exit_code


def _finish(writer: RunWriter, verdict: Verdict) -> StoreError | None:
    """Complete the run; what was in the way of it."""
    try:
        writer.finish(exit_code=verdict.exit_code, interrupted=verdict.interrupted)
    except StoreError as error:
        return error
    return None


def _end_in_trouble(run: StoredRun, trouble: StoreError, verdict: Verdict, options: RunOptions) -> int:
    """Show what is known of a run whose directory is not whole, as long as somebody knows it."""
    print_run(run, as_json=options.json)
    print_error(trouble)
    return ExitCode.INTERRUPTED if verdict.interrupted else ExitCode.INTERNAL
