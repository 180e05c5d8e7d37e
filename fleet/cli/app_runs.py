"""The command line of `fleet runs`: a list by itself, and commands for one run or all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.options import REPORTS, Json, OneRun, Reports, SomeRuns, Yes

runs_app = typer.Typer(name="runs", invoke_without_command=True, rich_markup_mode=None)


@runs_app.callback()
def runs(context: typer.Context, json: Json = False, reports: Reports = REPORTS) -> None:
    """List the runs there are, newest first; or one of the commands below."""
    from fleet.cli.runs import print_runs, refuse_misplaced

    if context.invoked_subcommand is None:
        print_runs(reports, as_json=json)
        return
    given = [name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")]
    refuse_misplaced(given, context.invoked_subcommand)


@runs_app.command("show")
def show_run(run_id: OneRun, json: Json = False, reports: Reports = REPORTS) -> None:
    """Show what a run was, how its hosts ended, and what it takes on the disk."""
    from fleet.cli.runs import show_run

    show_run(reports, run_id, as_json=json)


@runs_app.command("delete")
def delete_runs(run_ids: SomeRuns, yes: Yes = False, reports: Reports = REPORTS) -> None:
    """Delete runs for good. One that goes on, or is a baseline, is refused."""
    from fleet.cli.runs import delete_runs

    raise typer.Exit(delete_runs(reports, run_ids, yes=yes))


@runs_app.command("import")
def import_runs(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="A run's directory, or a reports directory.", readable=False),
    ],
    reports: Reports = REPORTS,
) -> None:
    """Copy complete runs of another control node. What is here already is never overwritten."""
    from fleet.cli.runs import import_runs

    raise typer.Exit(import_runs(reports, directories))


@runs_app.command("export")
def export_runs(
    parquet: Annotated[
        Path, typer.Option("--parquet", metavar="FILE", help="Where to write.", show_default=False, readable=False)
    ],
    reports: Reports = REPORTS,
) -> None:
    """Write every result of every complete run to one Parquet file, a row each."""
    from fleet.cli.runs import export_runs

    raise typer.Exit(export_runs(reports, parquet))
