"""The spec file: what to measure, and what to copy into every document."""

import json
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Set

from payload.cell import ALL, DATA_FORMATS, DEVICES, OPTIMIZERS, PHASES, PRECISIONS, VARIABLE_UPDATES, Cell
from payload.search import AUTO

SCHEMA = "fleet.spec/1"

_MOST = 1e9
"""No rule and no count is larger; nor is NaN smaller."""


class Rules(NamedTuple):
    """How each cell is measured; the controller's words and units."""

    warmup_steps: int
    warmup_s: float
    steps: int
    min_s: float
    max_s: float
    cell_timeout_s: float
    ci_target: float = 0.0
    """Timed steps go on until half the 95 % interval of their median is at most this part of it; 0: do not ask."""
    compat: bool = False
    """As tf_cnn_benchmarks to the letter: its learning rates, with which some losses become NaN (allowed then),
    gradients of several devices added up and not averaged, and exactly so many steps."""
    intra_threads: int = 0
    """Threads within an operation; 0: chosen by the payload."""
    inter_threads: int = 0
    """Threads for operations side by side; 0: chosen by the payload."""
    numa_node: Optional[int] = None
    """The node that the process is kept to, on a GPU too, whose host side matters; None: to none."""


Identity = NamedTuple("Identity", [("run_id", str), ("job_id", str), ("alias", str), ("payload_sha256", str)])
"""Whose job this is."""

Spec = NamedTuple("Spec", [("identity", Identity), ("rules", Rules), ("cells", List[Cell])])


class BadSpec(Exception):
    """The spec file cannot be used; the message is one sentence."""


def read_spec(path: str) -> Spec:
    """Read and check a spec file.

    Raises:
        BadSpec: it cannot be read, is not JSON, or says something the payload does not know.
    """
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise BadSpec("%s: cannot be read: %s." % (path, error.strerror))
    except (ValueError, RecursionError) as error:
        raise BadSpec("%s: is not JSON: %s." % (path, error))
    try:
        return _parse(document)
    except BadSpec as error:
        raise BadSpec("%s: %s" % (path, error))


def _parse(document: Any) -> Spec:
    keys = {"schema", "run_id", "job_id", "alias", "payload_sha256", "rules", "cells"}
    _check_keys(document, keys, "the document")
    if document["schema"] != SCHEMA:
        raise BadSpec("schema is %r; this payload reads %s." % (document["schema"], SCHEMA))
    for key in Identity._fields:
        _check(isinstance(document[key], str) and document[key] != "", key, "a text that is not empty")
    _check(isinstance(document["cells"], list), "cells", "a list")
    cells = [parse_cell(cell, "cells[%d]" % i) for i, cell in enumerate(document["cells"])]
    _check(len(cells) > 0, "cells", "at least one cell")
    return Spec(Identity(*(document[k] for k in Identity._fields)), parse_rules(document["rules"]), cells)


def parse_rules(value: Any) -> Rules:
    """Check the measuring rules. Raises BadSpec."""
    _check_keys(value, set(Rules._fields), "rules", frozenset(Rules._field_defaults))
    value = dict(Rules._field_defaults, **value)
    for key, least in (("warmup_steps", 1), ("steps", 2)):
        _check(_is_whole(value[key]) and value[key] >= least, "rules." + key, "a whole number from %d" % least)
    for key in ("warmup_s", "min_s", "ci_target"):
        _check(_is_number(value[key]) and value[key] >= 0, "rules." + key, "a number from 0")
    for key in ("max_s", "cell_timeout_s"):
        _check(_is_number(value[key]) and value[key] > 0, "rules." + key, "a number above 0")
    for key in ("intra_threads", "inter_threads"):
        _check(_is_whole(value[key]) and value[key] >= 0, "rules." + key, "a whole number from 0")
    node = value["numa_node"]
    _check(node is None or (_is_whole(node) and node >= 0), "rules.numa_node", "null or a whole number from 0")
    _check(isinstance(value["compat"], bool), "rules.compat", "true or false")
    return Rules(**value)


def parse_cell(value: Any, where: str) -> Cell:
    """Check one cell. `where` names it in the error. Raises BadSpec."""
    _check_keys(value, set(Cell._fields), where, frozenset(Cell._field_defaults))
    value = dict(Cell._field_defaults, **value)
    _check(isinstance(value["model"], str), where + ".model", "a text")
    choices = {
        "phase": PHASES,
        "precision": PRECISIONS,
        "device": DEVICES,
        "data_format": DATA_FORMATS,
        "optimizer": OPTIMIZERS,
        "variable_update": VARIABLE_UPDATES,
    }
    for key in sorted(choices):
        _check(value[key] in choices[key], "%s.%s" % (where, key), "one of " + ", ".join(choices[key]))
    for key, least in (("batch_size", AUTO), ("devices", ALL), ("steps_per_call", 1)):
        _check(_is_whole(value[key]) and value[key] >= least, "%s.%s" % (where, key), "a whole number from %d" % least)
    _check(isinstance(value["xla"], bool), where + ".xla", "true or false")
    return Cell(**value)


def describe(fields: Any) -> Dict[str, Any]:
    """The fields of a Cell, Rules or Identity, in their order, for a JSON document."""
    return {key: getattr(fields, key) for key in fields._fields}


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _MOST


def _check(good: bool, where: str, wanted: str) -> None:
    if not good:
        raise BadSpec("%s must be %s." % (where, wanted))


def _check_keys(value: Any, keys: Set[str], where: str, optional: FrozenSet[str] = frozenset()) -> None:
    """`optional`: keys that an older controller does not write."""
    _check(isinstance(value, dict), where, "an object")
    for key in sorted(set(value) - keys):
        raise BadSpec("%s has a key %r that this payload does not know." % (where, key))
    for key in sorted(keys - optional - set(value)):
        raise BadSpec("%s lacks the key %r." % (where, key))
