"""Documents for programs: what a command prints with `--json`, and the JSON Schema that it keeps to.

A document is a dataclass or a pydantic model whose field `schema` says which it is: `fleet.report/1`. The number
changes when a program that read the last one may fail: a field that is gone, or means another thing.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from textwrap import dedent
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def write_document(document: object) -> str:
    """The document as JSON text: keys sorted, ASCII, a newline at its end. What is not a finite number is null."""
    text = TypeAdapter(type(document)).dump_json(document, warnings=False)
    return json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def make_schema(kind: type) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind of document: every field there is, all of them required, no other."""
    found = TypeAdapter(kind).json_schema(mode="serialization", schema_generator=_Closed)
    return {"$schema": DIALECT, "$id": f"urn:{re.sub('[./]', ':', name_schema(kind))}", **found}


def name_schema(kind: type) -> str:
    """What the document says of itself: `fleet.report/1`."""
    hints = get_type_hints(kind)
    (name,) = get_args(hints.get("schema") or hints["schema_"])
    return str(name)


class _Closed(GenerateJsonSchema):
    """Every object has just the fields of its class, described as there."""

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        return _close(super().dataclass_schema(schema), schema["cls"])

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        return _close(super().model_schema(schema), schema["cls"])

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_is_required(self, field: Any, total: bool) -> bool:
        return True

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _close(found: JsonSchemaValue, kind: type) -> JsonSchemaValue:
    words = {name: text for parent in reversed(kind.__mro__) for name, text in _read_words(parent)}
    properties = {
        name: {**of, "description": words[name]} if name in words else of for name, of in found["properties"].items()
    }
    return {**found, "properties": properties, "additionalProperties": False}


@cache
def _read_words(kind: type) -> tuple[tuple[str, str], ...]:
    """Name of a field and what is written below it, where the class is defined."""
    try:
        (tree,) = ast.parse(dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):  # a class of Python itself
        return ()
    return tuple(_pair_words(tree)) if isinstance(tree, ast.ClassDef) else ()


def _pair_words(tree: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield field.target.id, " ".join(below.value.value.split())
