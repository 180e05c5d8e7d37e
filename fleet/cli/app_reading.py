"""Commands that read what there is."""

from __future__ import annotations

from typing import Annotated

import typer

from fleet.cli.completion import complete_side
from fleet.cli.options import REPORTS, Json, Reports


def compare(
    left: Annotated[
        str,
        typer.Argument(
            metavar="LEFT",
            help="A run, or: last, baseline, reference:SET.",
            show_default=False,
            autocompletion=complete_side,
        ),
    ],
    right: Annotated[
        str | None,
        typer.Argument(
            metavar="RIGHT",
            help="A run, or: last, baseline, reference:SET.",
            show_default="LEFT, with --hosts",
            autocompletion=complete_side,
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", metavar="A,B", help="Host A of LEFT with host B of RIGHT.", show_default=False),
    ] = None,
    json: Json = False,
    reports: Reports = REPORTS,
) -> None:
    """Compare two runs, two hosts, or a run with published figures: who is faster, by how much, and what differs."""
    from fleet.cli.compare import compare_runs

    raise typer.Exit(compare_runs(reports, (left, right), hosts, as_json=json))


def schema(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A document's name.", show_default="which there are")
    ] = None,
    json: Json = False,
) -> None:
    """Print the JSON Schema of what a command prints with --json."""
    from fleet.cli.schema import print_schema

    print_schema(name, as_json=json)


def models(json: Json = False) -> None:
    """List the models: input, parameters, operations, phases, and where the definition comes from."""
    from fleet.cli.models import print_models

    print_models(as_json=json)
