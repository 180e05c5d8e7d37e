"""`fleet report` and its options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.options import REPORTS, Json, LastRun, Reports
from fleet.errors import ConfigError

report_app = typer.Typer(rich_markup_mode=None)


class Assets(StrEnum):
    """Where an HTML report has the library that draws its charts."""

    STANDALONE = "standalone"
    SHARED = "shared"


@report_app.command()
def report(
    run_id: LastRun = None,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, a line for each cell on each host.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit's XML.", readable=False)
    ] = None,
    prometheus: Annotated[
        Path | None,
        typer.Option(
            "--prometheus", metavar="FILE", help="Also write metrics for node_exporter's textfile.", readable=False
        ),
    ] = None,
    html: Annotated[
        bool, typer.Option("--html", help="Write the report as one HTML file, and print where it is.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where --html writes to.",
            show_default="report.html in the run's directory",
            readable=False,
        ),
    ] = None,
    assets: Annotated[
        Assets,
        typer.Option(help="Keep what draws the charts in the file, or once for all of them beside the runs."),
    ] = Assets.STANDALONE,
    show: Annotated[bool, typer.Option("--open", help="Show the HTML file in the browser.")] = False,
    reports: Reports = REPORTS,
) -> None:
    """Show a run: the verdict, the matrix across machines, the hosts, and what to do about failures."""
    if html + json + csv + markdown > 1 and not (html and json):
        raise ConfigError(
            "Of --json, --csv, --markdown and --html there can be one.", hint="Call it again for another."
        )
    if html:
        if junit or prometheus:
            raise ConfigError("--junit and --prometheus do not go with --html.", hint="Call it once more for those.")
        from fleet.cli.page import PageOptions, write_page

        raise typer.Exit(write_page(reports, run_id, PageOptions(output, assets is Assets.SHARED, show, json)))
    if output is not None or assets is not Assets.STANDALONE or show:
        raise ConfigError("--output, --assets and --open are about an HTML file.", hint="Add --html.")
    from fleet.cli.outputs import Form, Outputs
    from fleet.cli.report import print_report

    form = Form.JSON if json else Form.CSV if csv else Form.MARKDOWN if markdown else Form.TERMINAL
    raise typer.Exit(print_report(reports, run_id, Outputs(form, junit, prometheus)))
