"""`fleet report` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.options import REPORTS, Assets, Html, Json, LastRun, PageAssets, Reports, ShowPage, read_page_options
from fleet.errors import ConfigError

report_app = typer.Typer(rich_markup_mode=None)


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
    html: Html = False,
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
    assets: PageAssets = Assets.STANDALONE,
    show: ShowPage = False,
    reports: Reports = REPORTS,
) -> None:
    """Show a run: the verdict, the matrix across machines, the hosts, and what to do about failures."""
    if html + json + csv + markdown > 1:
        raise ConfigError(
            "Of --json, --csv, --markdown and --html there can be one.", hint="Call it again for another."
        )
    page = read_page_options(html, output, assets, show)
    if page is not None:
        if junit or prometheus:
            raise ConfigError("--junit and --prometheus do not go with --html.", hint="Call it once more for those.")
        from fleet.cli.page import write_report

        raise typer.Exit(write_report(reports, run_id, page))
    from fleet.cli.outputs import Form, Outputs
    from fleet.cli.report import print_report

    form = Form.JSON if json else Form.CSV if csv else Form.MARKDOWN if markdown else Form.TERMINAL
    raise typer.Exit(print_report(reports, run_id, Outputs(form, junit, prometheus)))
