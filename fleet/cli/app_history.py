"""Commands that hold hosts against their like, and against what they did before."""

from __future__ import annotations

from typing import Annotated

import typer

from fleet.cli.completion import complete_models, complete_suite
from fleet.cli.options import REPORTS, Json, LastRun, Reports


def outliers(run_id: LastRun = None, json: Json = False, reports: Reports = REPORTS) -> None:
    """Find the odd ones among identical hosts: who is slow, in which cells, by how much, and what of them differs."""
    from fleet.cli.outliers import print_outliers

    raise typer.Exit(print_outliers(reports, run_id, as_json=json))


def trend(
    host: Annotated[
        str | None, typer.Option("--host", metavar="H", help="This host alone.", show_default=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="M", help="This model alone.", show_default=False, autocompletion=complete_models
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite", "-s", help="The suite.", show_default="that of the last run", autocompletion=complete_suite
        ),
    ] = None,
    json: Json = False,
    reports: Reports = REPORTS,
) -> None:
    """Show how each cell has gone on each host, run by run: its level, the last change, what changed there."""
    from fleet.cli.trend import print_trend

    raise typer.Exit(print_trend(reports, suite, host, model, as_json=json))
