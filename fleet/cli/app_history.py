"""Commands that hold hosts against their like, and against what they did before."""

from __future__ import annotations

import typer

from fleet.cli.options import REPORTS, Json, LastRun, Reports


def outliers(run_id: LastRun = None, json: Json = False, reports: Reports = REPORTS) -> None:
    """Find the odd ones among identical hosts: who is slow, in which cells, by how much, and what of them differs."""
    from fleet.cli.outliers import print_outliers

    raise typer.Exit(print_outliers(reports, run_id, as_json=json))
