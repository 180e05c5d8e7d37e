"""What `fleet run --dry-run` prints."""

from __future__ import annotations

import sys
from collections.abc import Callable

from fleet.cli.consoles import open_stdout
from fleet.model.plan import HostPlan, Plan
from fleet.plan import describe_plan
from fleet.report.json_form import write_document
from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.wording import count_things, fold_names, format_duration

_WIDEST = 44
_LEFT_OUT = "—"


def print_plan(plan: Plan, wave: int, *, as_json: bool) -> None:
    """The plan on stdout: hosts, cells, image, estimated time with at most `wave` hosts at a time (0: all)."""
    if as_json:
        sys.stdout.write(write_document(plan))
        return
    console = open_stdout()
    ink = Ink.of(console)
    columns, shared = [], []
    for head, read in _COLUMNS:
        values = [read(host) for host in plan.hosts]
        if not any(values):
            continue
        said = set(values) - {_LEFT_OUT}
        if head in _SAID_ONCE and len(said) <= 1:
            shared += [f"{head} {value}" for value in said]
        else:
            cells = tuple(ink.text(value) for value in values)
            columns.append(Column(ink.text(head), cells, "right" if head == "cells" else "left", widest=_WIDEST))
    aliases = Column(ink.text("host"), tuple(ink.text(host.alias, "bold") for host in plan.hosts), widest=_WIDEST)
    print_blocks(console, [aliases], columns, even=False)
    if shared:
        console.print(ink.text(" · ".join(shared) + "\n"))
    summary = describe_plan(plan, wave)
    for group in summary.by_cells:
        console.print(ink.text(f"{count_things(len(group.cells), 'cell')} on {', '.join(fold_names(group.aliases))}:"))
        for cell in group.cells:
            console.print(ink.text(f"  {cell.id}"))
        console.print()
    console.print(
        f"suite {plan.suite}: {count_things(summary.cells, 'cell')} on {count_things(summary.hosts, 'host')}, about "
        f"{format_duration(summary.estimate_s)}. Nothing was connected to."
    )
    if any(host.cells and host.settings.runtime != "native" for host in plan.hosts):
        console.print("A host that does not have its image yet pulls it first, which takes longer.")


def _write_address(host: HostPlan) -> str:
    return "this machine" if host.connection.kind == "local" else (host.connection.host or host.alias)


def _write_devices(host: HostPlan) -> str:
    devices = host.settings.devices
    if isinstance(devices, tuple):
        return f"GPU {', '.join(devices)}"
    return {"cpu": "CPU", "all": "all GPUs"}[devices] if isinstance(devices, str) else count_things(devices, "GPU")


_COLUMNS: tuple[tuple[str, Callable[[HostPlan], str]], ...] = (
    ("address", _write_address),
    ("as", lambda host: "root" if host.settings.become else ""),
    ("devices", _write_devices),
    ("cells", lambda host: str(len(host.cells))),
    ("about", lambda host: format_duration(host.estimate_s) if host.cells else "skipped: no cells"),
    ("runtime", lambda host: host.settings.runtime),
    ("image", lambda host: _LEFT_OUT if host.settings.runtime == "native" else host.settings.image),
)
_SAID_ONCE = {"runtime", "image"}
"""Said below the table, once, where all hosts agree."""
