"""Options and arguments that several commands have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.completion import complete_limit, complete_run
from fleet.errors import ConfigError

Inventory = Annotated[
    Path,
    typer.Option(
        "--inventory",
        "-i",
        help="Ansible inventory in YAML.",
        envvar="FLEET_INVENTORY",
        show_default=False,
        readable=False,  # whether it can be read is found out, and said, by who reads it
    ),
]
Limit = Annotated[
    str | None,
    typer.Option(
        "--limit",
        "-l",
        help="Only these hosts: a pattern as Ansible's, e.g. 'gpu:!gpu03'.",
        show_default=False,
        autocompletion=complete_limit,
    ),
]
Forks = Annotated[
    int, typer.Option("--forks", "-f", min=1, max=1024, help="How many hosts are connected to at the same time.")
]
Reports = Annotated[
    Path,
    typer.Option("--reports", help="Directory where runs are kept.", envvar="FLEET_REPORTS", readable=False),
]
AskPass = Annotated[
    bool, typer.Option("--ask-pass", "-k", help="Ask for the SSH password of hosts that take no key of yours.")
]
AskBecomePass = Annotated[
    bool, typer.Option("--ask-become-pass", "-K", help="Ask for the sudo password of hosts with fleet_become.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


class Assets(StrEnum):
    """Where an HTML file has the library that draws its charts."""

    STANDALONE = "standalone"
    SHARED = "shared"


Html = Annotated[bool, typer.Option("--html", help="Write it as one HTML file, and print where that is.")]
PageAssets = Annotated[
    Assets,
    typer.Option(help="Keep what draws the charts in the file, or once for all of them beside the runs."),
]
ShowPage = Annotated[bool, typer.Option("--open", help="Show the HTML file in the browser.")]


@dataclass(frozen=True)
class PageOptions:
    output: Path | None
    """None: where such a page usually is."""
    shared: bool
    """plotly.js lies once beside the runs, in place of a copy in the page."""
    show: bool


def read_page_options(html: bool, output: Path | None, assets: Assets, show: bool) -> PageOptions | None:
    """What is asked for of an HTML file; None: there is to be none.

    Raises:
        ConfigError: the options do not go together.
    """
    if html:
        if output is not None and output.is_dir():
            raise ConfigError(f"{output} is a directory.", hint="Name a file in it with --output.")
        return PageOptions(output, assets is Assets.SHARED, show)
    if output is not None or assets is not Assets.STANDALONE or show:
        raise ConfigError("--output, --assets and --open are about an HTML file.", hint="Add --html.")
    return None


Wave = Annotated[
    int, typer.Option("--wave", min=0, help="At most so many hosts measure at the same time; 0: all of them.")
]
Deadline = Annotated[
    str | None,
    typer.Option("--deadline", metavar="TIME", help="End everything after so long, e.g. 6h.", show_default=False),
]
MaxFail = Annotated[
    str | None,
    typer.Option(
        "--max-fail", metavar="N|P%", help="Begin no more hosts when more than this have failed.", show_default=False
    ),
]
Poll = Annotated[
    str | None,
    typer.Option(
        "--poll",
        metavar="TIME",
        help="Between two looks at a job, at most.",
        show_default="10s, longer with more than 200 hosts",
    ),
]
WaitIdle = Annotated[
    str | None,
    typer.Option(
        "--wait-idle",
        metavar="TIME",
        help="Wait so long for hosts that others use, e.g. 10m; measure none that is still in use then.",
        show_default=False,
    ),
]
IgnoreBusy = Annotated[bool, typer.Option("--ignore-busy", help="Measure hosts whose GPUs others compute on, too.")]
OneRun = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run's id, its beginning, its directory, or `last`.", autocompletion=complete_run
    ),
]
LastRun = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="A run's id, its beginning, its directory, or `last`.",
        show_default="the last complete run",
        autocompletion=complete_run,
    ),
]
SomeRuns = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...", help="Runs' ids, their beginnings, their directories, or `last`.", autocompletion=complete_run
    ),
]
OpenRun = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="A run's id, its beginning, its directory, or `last`.",
        show_default="the newest that is not complete",
        autocompletion=complete_run,
    ),
]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]

REPORTS = Path("reports")
