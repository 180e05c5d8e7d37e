"""The command line: every command's options, and how every command ends.

Commands import what they need when they run, so that `fleet --help` costs nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.app_history import baseline_app, history_app
from fleet.cli.app_reading import compare, models, schema
from fleet.cli.app_report import report_app
from fleet.cli.app_runs import runs_app
from fleet.cli.completion import complete_models, complete_run, complete_suite
from fleet.cli.options import (
    REPORTS,
    AskBecomePass,
    AskPass,
    Deadline,
    Forks,
    IgnoreBusy,
    Inventory,
    Json,
    Limit,
    MaxFail,
    OneRun,
    OpenRun,
    Poll,
    Reports,
    WaitIdle,
    Wave,
    Yes,
)
from fleet.cli.streams import open_streams
from fleet.cli.words import check_words, print_error
from fleet.errors import FleetError

app = typer.Typer(
    name="fleet",
    help="Measure every GPU and CPU server of a lab with one benchmark, in one container, and compare them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich's help doubles the time that `fleet --help` takes
    context_settings={"help_option_names": ["-h", "--help"]},
)
hosts_app = typer.Typer(name="hosts", help="Hosts and their SSH keys.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(hosts_app)
app.add_typer(runs_app)
app.add_typer(baseline_app)


@app.command()
def run(
    inventory: Annotated[
        Path | None,
        typer.Option(
            "--inventory",
            "-i",
            help="Ansible inventory in YAML.",
            envvar="FLEET_INVENTORY",
            show_default="as in the run of --retry-failed",
            readable=False,
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite",
            "-s",
            help="A shipped suite (smoke, quick, …) or a file.",
            show_default="quick",
            autocompletion=complete_suite,
        ),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="In place of a suite: every combination of these and the four below, with commas between.",
            metavar="NAME,…",
            show_default=False,
            autocompletion=complete_models,
        ),
    ] = None,
    phases: Annotated[
        str | None,
        typer.Option(help="train, forward, forward_backward.", metavar="NAME,…", show_default="train"),
    ] = None,
    precisions: Annotated[
        str | None, typer.Option(help="fp32, tf32, fp16, bf16.", metavar="NAME,…", show_default="fp32")
    ] = None,
    batch_sizes: Annotated[
        str | None,
        typer.Option(help="Images per step and device; auto: the largest that fits.", metavar="N,…", show_default="32"),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(help="How many GPUs take part; all: all there are.", metavar="N,…", show_default="1"),
    ] = None,
    retry_failed: Annotated[
        str | None,
        typer.Option(
            help="Measure again what failed in this run.",
            metavar="RUN",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = None,
    limit: Limit = None,
    forks: Forks = 32,
    ask_pass: AskPass = False,
    ask_become_pass: AskBecomePass = False,
    wave: Wave = 0,
    deadline: Deadline = None,
    max_fail: MaxFail = None,
    poll: Poll = None,
    wait_idle: WaitIdle = None,
    ignore_busy: IgnoreBusy = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done; connect to nothing.")] = False,
    json: Json = False,
    reports: Reports = REPORTS,
) -> None:
    """Measure every host in parallel, then print the report."""
    from fleet.cli.passwords import Ask
    from fleet.cli.run import RunOptions, choose_work, run_suite
    from fleet.cli.values import LimitOptions

    cells = {
        "models": models,
        "phases": phases,
        "precisions": precisions,
        "batch_sizes": batch_sizes,
        "devices": devices,
    }
    work = choose_work(suite, {name: values for name, values in cells.items() if values is not None}, retry_failed)
    limits = LimitOptions(wave, deadline, max_fail, poll, wait_idle, ignore_busy)
    raise typer.Exit(
        run_suite(
            RunOptions(inventory, work, limit, forks, Ask(ask_pass, ask_become_pass), dry_run, json, reports, limits)
        )
    )


@app.command()
def resume(
    run_id: OpenRun = None,
    ask_pass: AskPass = False,
    ask_become_pass: AskBecomePass = False,
    wave: Wave = 0,
    deadline: Deadline = None,
    max_fail: MaxFail = None,
    poll: Poll = None,
    wait_idle: WaitIdle = None,
    ignore_busy: IgnoreBusy = False,
    json: Json = False,
    reports: Reports = REPORTS,
) -> None:
    """Take up a run after Ctrl-C, a crash or a lost network: collect what has finished, start what never was."""
    from fleet.cli.passwords import Ask
    from fleet.cli.resume import resume_run
    from fleet.cli.values import LimitOptions

    limits = LimitOptions(wave, deadline, max_fail, poll, wait_idle, ignore_busy)
    raise typer.Exit(resume_run(reports, run_id, Ask(ask_pass, ask_become_pass), limits, as_json=json))


@app.command()
def status(
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A run's id, its beginning, its directory, or `last`.",
            show_default="the newest",
            autocompletion=complete_run,
        ),
    ] = None,
    ask_pass: AskPass = False,
    ask_become_pass: AskBecomePass = False,
    json: Json = False,
    reports: Reports = REPORTS,
) -> None:
    """Show what every host of a run is doing now, whether or not the fleet that began it is still there."""
    from fleet.cli.passwords import Ask
    from fleet.cli.status import show_status

    show_status(reports, run_id, Ask(ask_pass, ask_become_pass), as_json=json)


@app.command()
def cancel(
    run_id: OneRun,
    ask_pass: AskPass = False,
    ask_become_pass: AskBecomePass = False,
    json: Json = False,
    reports: Reports = REPORTS,
) -> None:
    """End a run on every host, collect what it has measured, and leave nothing there."""
    from fleet.cli.passwords import Ask
    from fleet.cli.resume import cancel_run

    raise typer.Exit(cancel_run(reports, run_id, Ask(ask_pass, ask_become_pass), as_json=json))


app.registered_commands += report_app.registered_commands
app.registered_commands += history_app.registered_commands
app.command()(compare)
app.command()(models)
app.command()(schema)


@app.command()
def reindex(reports: Reports = REPORTS) -> None:
    """Build the index over all runs anew; otherwise it keeps itself. It is fleet.db among the reports, or the database
    that FLEET_DATABASE names (postgresql://user@host/database, sqlite:////path).
    """
    from fleet.cli.index import reindex

    raise typer.Exit(reindex(reports))


@app.command()
def ping(
    inventory: Inventory,
    limit: Limit = None,
    forks: Forks = 32,
    ask_pass: AskPass = False,
    ask_become_pass: AskBecomePass = False,
    json: Json = False,
) -> None:
    """Reach every host: with which key, and what runtime is there. Changes nothing."""
    from fleet.cli.passwords import Ask
    from fleet.cli.ping import ping_hosts

    raise typer.Exit(ping_hosts(inventory, limit, forks, Ask(ask_pass, ask_become_pass), as_json=json))


@app.command("push-image")
def push_image(
    inventory: Inventory,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="IMAGE|FILE",
            help="An image of this machine's docker, or a file made by docker save (.tar, .tar.gz).",
            show_default="every host's own fleet_image",
        ),
    ] = None,
    limit: Limit = None,
    forks: Forks = 8,
    ask_pass: AskPass = False,
    ask_become_pass: AskBecomePass = False,
    via_peers: Annotated[
        bool, typer.Option("--via-peers", help="Hosts that are done send it on to others, over an sshd of their own.")
    ] = False,
    json: Json = False,
) -> None:
    """Send a container image to the hosts that do not have it. What was sent before is not sent again."""
    from fleet.cli.passwords import Ask
    from fleet.cli.push_image import PushOptions, push_images

    ask = Ask(ask_pass, ask_become_pass)
    raise typer.Exit(push_images(PushOptions(inventory, what, limit, forks, ask, via_peers, json)))


@app.command()
def clean(
    inventory: Inventory,
    limit: Limit = None,
    forks: Forks = 32,
    ask_pass: AskPass = False,
    ask_become_pass: AskBecomePass = False,
    uncollected: Annotated[
        bool, typer.Option("--all", help="Also ended jobs whose results were never collected here.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed; remove nothing.")] = False,
    json: Json = False,
    reports: Reports = REPORTS,
) -> None:
    """Remove what fleet has left on the hosts: ended jobs, their containers, the benchmark. Nothing that runs."""
    from fleet.cli.clean import CleanOptions, clean_hosts
    from fleet.cli.passwords import Ask

    ask = Ask(ask_pass, ask_become_pass)
    raise typer.Exit(clean_hosts(CleanOptions(inventory, limit, forks, ask, uncollected, dry_run, json, reports)))


@hosts_app.command()
def trust(
    inventory: Inventory,
    limit: Limit = None,
    forks: Forks = 32,
    yes: Yes = False,
) -> None:
    """Show the hosts' SSH keys and, on yes, remember the new ones. A changed key is never replaced."""
    from fleet.cli.trust import trust_hosts

    raise typer.Exit(trust_hosts(inventory, limit, forks, yes=yes))


def _print_version(wanted: bool) -> None:
    if wanted:
        from fleet.cli.version import find_version

        typer.echo(f"fleet {find_version()}")
        raise typer.Exit


@app.callback()
def _fleet(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run one command and exit with its code. A person never sees a traceback for what they could cause."""
    try:
        open_streams()
        check_words()
        try:
            app()
        finally:
            sys.stdout.flush()
    except FleetError as error:
        print_error(error)
        sys.exit(error.exit_code)
