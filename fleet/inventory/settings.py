"""The `fleet_*` variables → `Settings`."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable

from pydantic import ValidationError
from yaml.nodes import SequenceNode

from fleet.errors import ConfigError
from fleet.inventory.values import Variable
from fleet.inventory.variables import Variables
from fleet.model.inventory import Settings

PREFIX = "fleet_"
BECOME = PREFIX + "become"
"""The one setting that is a truth value."""

MEANINGS = {
    "image": "the name of a container image, e.g. nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
    "runtime": "docker or native",
    "runtime_args": 'a list of texts, e.g. ["--cpuset-cpus", "0-15"]',
    "devices": "cpu, all, a number of GPUs, or a list of GPU indexes or UUIDs",
    "become": "true or false",
    "workdir": "an absolute path or one that begins with ~/, without blanks",
    "ulimits": "a mapping of limits, e.g. {memlock: -1}",
    "ipc": "host or private",
    "python": "the path of an interpreter, without blanks",
}
"""What each setting must be, for people."""

WORDS = {
    "runtime": ("docker", "native"),
    "devices": ("cpu", "all"),
    "become": ("true", "false"),
    "ipc": ("host", "private"),
}
"""The words that these settings take."""


def check_settings(variables: Iterable[Variable]) -> None:
    """Look at every `fleet_*` variable by itself, wherever it is written and whether or not it comes into force.

    Raises:
        ConfigError: there is no such setting, or the value is not right.
    """
    for variable in variables:
        if variable.key.startswith(PREFIX):
            _read_settings({variable.key: variable})


def read_settings(variables: Variables) -> Settings:
    """The settings of a host from the variables that hold for it.

    Raises:
        ConfigError: as `check_settings`.
    """
    return _read_settings({key: v for key, v in variables.items() if key.startswith(PREFIX)})


def _read_settings(variables: Variables) -> Settings:
    for variable in variables.values():
        if variable.key.removeprefix(PREFIX) not in Settings.model_fields:
            raise _unknown_setting(variable)
    values = {key.removeprefix(PREFIX): variable.read(truth=key == BECOME) for key, variable in variables.items()}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]["loc"]
        field = str(first[0]) if first else next(iter(values))
        raise _invalid_setting(variables[PREFIX + field], field, error) from None


def _unknown_setting(variable: Variable) -> ConfigError:
    known = [PREFIX + name for name in Settings.model_fields]
    near = difflib.get_close_matches(variable.key, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return variable.document.error(variable.key_node, f"{variable.owner}: {variable.key} is not a setting", hint)


def _invalid_setting(variable: Variable, field: str, error: ValidationError) -> ConfigError:
    """What the setting must be; and what its own check said, if one did."""
    details = [e for e in error.errors() if e["loc"][:1] == (field,)]
    said = next((str(e["ctx"]["error"]) for e in details if e["type"] == "value_error" and "ctx" in e), "")
    node = variable.node
    if isinstance(node, SequenceNode):
        indexes = [part for e in details for part in e["loc"] if isinstance(part, int) and part < len(node.value)]
        node = node.value[indexes[0]] if indexes else node
    message = f"must be {MEANINGS[field]}"
    message = f"{message}: {said}" if said and said not in message else f"{message}; {_shown(variable)}"
    return variable.error(message, _suggest_value(field, variable.read()), node=node)


def _suggest_value(field: str, value: object) -> str:
    """What was probably meant by a text."""
    if not isinstance(value, str):
        return ""
    text = value.strip()
    near = difflib.get_close_matches(text.lower(), WORDS.get(field, ()), n=1, cutoff=0.7)  # gpu is not near cpu
    if near:
        return f"did you mean {near[0]}?"
    if field == "devices" and "gpu" in (text.lower(), text.lower().removesuffix("s")):
        return "write all for every GPU there is, or how many"
    if field == "devices" and re.search("[,; ]", text):
        return f"write [{', '.join(re.findall(r'[^,; ]+', text.strip('[]')))}]"
    if field == "runtime_args" and text:
        return f"write {json.dumps(text.split())}"
    return ""


def _shown(variable: Variable) -> str:
    text = repr(variable.read())
    return f"it is {text if len(text) <= 80 else text[:80] + '…'}"
