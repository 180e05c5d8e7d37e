"""Which hosts a command is for."""

from __future__ import annotations

from pathlib import Path

import typer

from fleet.inventory.loader import load_inventory
from fleet.inventory.patterns import select_hosts
from fleet.model.inventory import Host


def select(inventory: Path, limit: str | None) -> tuple[Host, ...]:
    """The hosts of an inventory that the limit selects; what was left out of the inventory is said on stderr.

    Raises:
        ConfigError: the inventory or the limit is wrong.
        SelectionError: nothing is selected.
    """
    loaded = load_inventory(inventory)
    for warning in loaded.warnings:
        typer.echo(f"fleet: {warning}", err=True)
    return select_hosts(loaded, limit)
