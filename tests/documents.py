"""What fleet prints with `--json`, held to the schema that fleet publishes for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from fleet.cli.schema import DOCUMENTS
from fleet.report.json_form import make_schema, name_schema


@cache
def open_validator(name: str) -> Any:
    """Of a document, by what it says of itself."""
    (kind,) = (kind for kind, _ in DOCUMENTS if name_schema(kind) == name)
    return Draft202012Validator(make_schema(kind))


def check_document(text: str) -> dict[str, Any]:
    """The document, which is as its schema says."""
    document: dict[str, Any] = json.loads(text, parse_constant=_refuse)
    validator = open_validator(document["schema"])
    faults = [f"{fault.json_path}: {fault.message[:200]}" for fault in validator.iter_errors(document)]
    assert not faults, faults[:5]
    return document


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")


def check_printed(args: Sequence[str], stdout: str) -> None:
    """What a test made fleet print, where it is a document."""
    if "--json" in args and "schema" not in args and stdout.startswith("{"):
        check_document(stdout)
