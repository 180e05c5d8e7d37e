"""Published figures, from the YAML files that come with fleet."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from fleet.errors import ConfigError
from fleet.model.reference import ReferenceSet

_HERE = Path(__file__).parent
# Beside the package in an installed fleet, where a checkout keeps them for people to read and to add to.
_FOLDERS = (_HERE / "_reference", _HERE.parent / "reports" / "reference")


@cache
def list_references() -> tuple[ReferenceSet, ...]:
    """The sets that say images per second, in the order of their files."""
    folder = next(folder for folder in _FOLDERS if folder.is_dir())
    sets = [one for path in sorted(folder.glob("*.yaml")) for one in yaml.safe_load(path.read_text("utf-8"))["sets"]]
    return tuple(ReferenceSet.model_validate(one) for one in sets if "batch_sizes" in one)


def find_reference(name: str) -> ReferenceSet:
    """The set of this id.

    Raises:
        ConfigError: there is none.
    """
    sets = list_references()
    for one in sets:
        if one.id == name:
            return one
    known = ", ".join(one.id for one in sets)
    raise ConfigError(f"there are no published figures called {name!r}", hint=f"There are: {known}")
