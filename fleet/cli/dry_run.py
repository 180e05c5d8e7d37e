"""What `fleet run --dry-run` prints."""

from __future__ import annotations

import sys

from rich.table import Table

from fleet.cli.consoles import open_stdout
from fleet.model.plan import Plan
from fleet.plan import describe_plan
from fleet.report.wording import fold_names, format_duration


def print_plan(plan: Plan, *, as_json: bool) -> None:
    """The plan on stdout: hosts, cells, image, estimated time."""
    if as_json:
        sys.stdout.write(plan.model_dump_json(indent=2) + "\n")
        return
    console = open_stdout()
    summary = describe_plan(plan)
    hosts = Table(title_justify="left", title=f"{len(plan.hosts)} hosts")
    for heading in ("host", "address", "runtime", "image", "devices", "cells", "about"):
        hosts.add_column(heading, overflow="fold")
    for host in plan.hosts:
        settings, connection = host.settings, host.connection
        address = "this machine" if connection.kind == "local" else (connection.host or host.alias)
        devices = ",".join(settings.devices) if isinstance(settings.devices, tuple) else str(settings.devices)
        image = settings.image if settings.runtime != "native" else "—"
        about = format_duration(host.estimate_s) if host.cells else "skipped: no cells"
        hosts.add_row(host.alias, address, settings.runtime, image, devices, str(len(host.cells)), about)
    console.print(hosts)
    for group in summary.by_cells:
        console.print(f"\n{len(group.cells)} cells on {', '.join(fold_names(group.aliases))}:")
        for cell in group.cells:
            console.print(f"  {cell.id}")
    console.print(
        f"\nsuite {plan.suite}: {summary.cells} cells on {summary.hosts} hosts, about "
        f"{format_duration(summary.estimate_s)}. Nothing was connected to."
    )
