"""Which hosts a command is for, and of which inventory."""

from __future__ import annotations

import shlex
from pathlib import Path

from fleet.cli.words import tell
from fleet.inventory.loader import load_inventory
from fleet.inventory.patterns import select_hosts
from fleet.model.inventory import Host
from fleet.model.text import make_inert


def select(inventory: Path, limit: str | None) -> tuple[Host, ...]:
    """The hosts of an inventory that the limit selects; what was left out of the inventory is said on stderr.

    Raises:
        ConfigError: the inventory or the limit is wrong.
        SelectionError: nothing is selected.
    """
    loaded = load_inventory(inventory)
    for warning in loaded.warnings:
        tell(f"fleet: {make_inert(warning)}")
    return select_hosts(loaded, limit)


def name_inventory(hint: str, inventory: Path | str) -> str:
    """The hint with this inventory in the commands it advises; the transport that wrote it knows no inventory."""
    return hint.replace("-i INVENTORY", f"-i {shlex.quote(str(inventory))}")
