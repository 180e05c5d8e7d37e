"""What the shell offers for a word that is half written. Whatever is wrong with a file, it offers nothing, silently."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from fleet.errors import FleetError

_MOST_RUNS = 50


def complete_suite(incomplete: str) -> Iterator[tuple[str, str]]:
    """Shipped suites, each with what it is for."""
    from fleet.suite import list_suites

    for suite in list_suites():
        if suite.name.startswith(incomplete):
            yield suite.name, suite.description


def complete_models(incomplete: str) -> Iterator[str]:
    """Models, for the last name of the list."""
    from fleet.bundle import read_models

    begun, comma, name = incomplete.rpartition(",")
    with contextlib.suppress(FleetError):
        yield from (begun + comma + model for model in read_models() if model.startswith(name))


def complete_run(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Ids of the runs there are, the newest first, each with its suite; of thousands the newest few are enough."""
    from fleet.store.rundir import Store, describe_run

    with contextlib.suppress(FleetError):
        paths = Store(Path(ctx.params.get("reports") or "reports")).paths()
        for path in [path for path in paths if path.name.startswith(incomplete)][:_MOST_RUNS]:
            run = describe_run(path)
            yield run.run_id, run.suite or run.state


def complete_side(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """What `fleet compare` takes: its words, published figures, runs."""
    from fleet.reference import list_references

    words = [("last", "the last complete run"), ("baseline", "the run that is pinned")]
    words += [(f"reference:{one.id}", "published figures") for one in list_references()]
    yield from (word for word in words if word[0].startswith(incomplete))
    yield from complete_run(ctx, incomplete)


def complete_limit(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Groups and hosts of the inventory that stands before it on the line, for the last part of the pattern."""
    from fleet.inventory.loader import load_inventory

    inventory = ctx.params.get("inventory")
    begun = re.fullmatch(r"(.*[:,])?[&!]?", incomplete[: len(incomplete) - len(_last_name(incomplete))])
    if not inventory or not begun:
        return
    with contextlib.suppress(FleetError):
        loaded = load_inventory(Path(inventory))
        for name in dict.fromkeys([*loaded.groups, *(host.alias for host in loaded.hosts)]):
            if name.startswith(_last_name(incomplete)):
                yield begun[0] + name


def _last_name(pattern: str) -> str:
    return re.split(r"[:,&!]", pattern)[-1]
