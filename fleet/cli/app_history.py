"""Commands that hold hosts against their like, and against what they did before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.completion import complete_models, complete_suite
from fleet.cli.options import (
    REPORTS,
    Assets,
    Html,
    Json,
    LastRun,
    OneRun,
    PageAssets,
    Reports,
    ShowPage,
    read_page_options,
)
from fleet.errors import ConfigError

history_app = typer.Typer(rich_markup_mode=None)
baseline_app = typer.Typer(
    name="baseline", help="What runs are compared with.", no_args_is_help=True, rich_markup_mode=None
)


@history_app.command()
def outliers(run_id: LastRun = None, json: Json = False, reports: Reports = REPORTS) -> None:
    """Find the odd ones among identical hosts: who is slow, in which cells, by how much, and what of them differs."""
    from fleet.cli.outliers import print_outliers

    raise typer.Exit(print_outliers(reports, run_id, as_json=json))


@history_app.command()
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
    html: Html = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where --html writes to.",
            show_default="trend.html beside the runs",
            readable=False,
        ),
    ] = None,
    assets: PageAssets = Assets.STANDALONE,
    show: ShowPage = False,
    reports: Reports = REPORTS,
) -> None:
    """Show how each cell has gone on each host, run by run: its level, the last change, what changed there."""
    from fleet.cli.trend import Asked, print_trend, write_trend

    if html and json:
        raise ConfigError("Of --json and --html there can be one.", hint="Call it again for another.")
    page = read_page_options(html, output, assets, show)
    asked = Asked(suite, host, model)
    raise typer.Exit(write_trend(reports, asked, page) if page else print_trend(reports, asked, as_json=json))


@history_app.command()
def incidents(
    everything: Annotated[bool, typer.Option("--all", help="Those that have ended, too.")] = False,
    json: Json = False,
    reports: Reports = REPORTS,
) -> None:
    """List regressions that a second run has confirmed, until they are over or accepted."""
    from fleet.cli.incidents import print_incidents

    raise typer.Exit(print_incidents(reports, everything=everything, as_json=json))


@baseline_app.command("set")
def set_baseline(
    run_id: OneRun,
    reason: Annotated[str, typer.Option(help="Why this one.", show_default=False)] = "",
    reports: Reports = REPORTS,
) -> None:
    """Pin a run: slow drift away from it is found, which a baseline that rolls along forgets."""
    from fleet.cli.incidents import set_baseline

    raise typer.Exit(set_baseline(reports, run_id, reason))


@baseline_app.command("show")
def show_baseline(json: Json = False, reports: Reports = REPORTS) -> None:
    """Show what runs are compared with."""
    from fleet.cli.incidents import show_baseline

    raise typer.Exit(show_baseline(reports, as_json=json))


@baseline_app.command("accept")
def accept_incident(
    incident: Annotated[str, typer.Argument(metavar="INCIDENT", help="Its name, as fleet incidents shows it.")],
    reason: Annotated[str, typer.Option(help="Why it is as it should be.", show_default=False)],
    reports: Reports = REPORTS,
) -> None:
    """End an incident: what was measured since is the level to compare with."""
    from fleet.cli.incidents import accept_incident

    raise typer.Exit(accept_incident(reports, incident, reason))
