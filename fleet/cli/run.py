"""`fleet run`: inventory → plan → fan-out → store → report."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fleet.analysis.verdict import list_failed_cells
from fleet.bundle import Bundle, build_bundle, read_models
from fleet.cli.dry_run import print_plan
from fleet.cli.execution import carry_out
from fleet.cli.measure import Work
from fleet.cli.passwords import Ask, ask_passwords
from fleet.cli.select import select
from fleet.cli.values import LimitOptions, read_limits
from fleet.cli.version import find_version
from fleet.cli.words import tell
from fleet.errors import ConfigError, ExitCode, SelectionError, StoreError
from fleet.estimate import Past
from fleet.model.plan import Plan
from fleet.model.suite import Cell, Suite
from fleet.plan import RunRequest, build_plan
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store
from fleet.suite import load_suite
from fleet.suite_options import CellOptions, make_suite


@dataclass(frozen=True)
class RunOptions:
    """The options of `fleet run`."""

    inventory: Path | None
    """None: for a retry, as in the run that is retried."""
    work: str | CellOptions | Retry
    """A shipped suite or the path of one, cells, or what failed in another run."""
    limit: str | None
    forks: int
    ask: Ask
    dry_run: bool
    json: bool
    reports: Path
    limits: LimitOptions


@dataclass(frozen=True)
class Retry:
    """What failed in a run is measured again."""

    run_id: str


def choose_work(suite: str | None, cells: Mapping[str, str], retry_failed: str | None) -> str | CellOptions | Retry:
    """What `--suite`, or `--models` and its companions, or `--retry-failed` ask for.

    Args:
        cells: the fields of `CellOptions` that were given.

    Raises:
        ConfigError: they do not go together.
    """
    given = ", ".join("--" + name.replace("_", "-") for name in cells)
    if retry_failed is not None:
        if suite is not None or cells:
            raise ConfigError(
                f"--retry-failed says what to measure, and {given or '--suite'} too", hint="Use one of them."
            )
        return Retry(retry_failed)
    if not cells:
        return suite or "quick"
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
    limits = read_limits(options.limits, plan)
    if options.dry_run:
        print_plan(plan, limits.wave, as_json=options.json)
        return ExitCode.OK
    passwords = ask_passwords(options.ask, plan.hosts)
    store = Store(options.reports)
    with store.create(plan, bundle.data) as writer:
        tell(f"run {plan.run_id} · results in {writer.path}")
        work = Work(plan, bundle.data, limits, {}, {}, passwords)
        return carry_out(work, writer, store, as_json=options.json)


def _make_plan(options: RunOptions, bundle: Bundle) -> Plan:
    """Everything that can be wrong with what the user wrote is found here, before the first connection."""
    models = read_models()
    store = Store(options.reports)
    old = store.load(options.work.run_id) if isinstance(options.work, Retry) else None
    inventory = options.inventory or (Path(old.plan.inventory) if old else None)
    if inventory is None:
        raise ConfigError("which hosts? --inventory is missing (or FLEET_INVENTORY)", hint="See fleet run --help.")
    request = RunRequest(
        inventory=str(inventory),
        limit=options.limit,
        forks=options.forks,
        payload_sha256=bundle.sha256,
        fleet_version=find_version(),
        now=datetime.now(UTC),
        token="".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(4)),
    )
    hosts, only = select(inventory, options.limit), None
    if old is not None:
        suite, only = _read_failed(old)
        hosts = tuple(host for host in hosts if host.alias in only)
    elif isinstance(options.work, str):
        suite = load_suite(options.work, models)
    elif isinstance(options.work, CellOptions):
        suite = make_suite(options.work, models)
    last = store.find_last(host.alias for host in hosts)
    past = {alias: Past(plan.rules, outcome.cells) for alias, (plan, outcome) in last.items()}
    return build_plan(hosts, suite, models, request, past, only)


def _read_failed(run: StoredRun) -> tuple[Suite, dict[str, tuple[Cell, ...]]]:
    """The suite of a run, less what went well on all hosts; and by alias what did not."""
    if run.summary is None:
        run_id = run.plan.run_id
        raise StoreError(f"run {run_id} is not complete.", f"End it first, with: fleet resume {run_id}")
    failed = list_failed_cells(run.plan, run.outcomes)
    if not failed:
        raise SelectionError(f"Nothing failed in run {run.plan.run_id}.", "There is nothing to measure again.")
    cells = tuple(dict.fromkeys(cell for host in failed.values() for cell in host))
    return Suite(name=run.plan.suite, rules=run.plan.rules, cells=cells), failed
