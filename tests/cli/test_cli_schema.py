"""`fleet schema`: every document is published, closed, and what commands really print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from jsonschema import Draft202012Validator

from fleet.cli.schema import DOCUMENTS, shorten_name
from fleet.report.json_form import make_schema, name_schema
from tests.conftest import ROOT, RunFleet
from tests.documents import check_document, open_validator
from tests.index_nights import NIGHTS, store_night
from tests.report.rich_run import store_rich_run
from tests.run_builder import RUN_ID

KINDS = [kind for kind, _ in DOCUMENTS]
HERE = str(ROOT / "inventories" / "localhost.yaml")
COMMANDS = {
    "report": ["report", RUN_ID],
    "comparison": ["compare", NIGHTS[0], NIGHTS[1]],
    "reference-comparison": ["compare", NIGHTS[0], "reference:rtx3090-ngc-20.10"],
    "outliers": ["outliers", RUN_ID],
    "trend": ["trend", "--suite", "quick"],
    "incidents": ["incidents", "--all"],
    "baseline": ["baseline", "show"],
    "runs": ["runs"],
    "run_details": ["runs", "show", RUN_ID],
    "status": ["status", RUN_ID],
    "plan": ["run", "--dry-run", "-i", HERE],
    "ping": ["ping", "-i", HERE],
    "clean": ["clean", "--dry-run", "-i", HERE],
    "models": ["models"],
}
"""Of push-image the tests of it speak: it wants a container engine."""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has something for every view, and nights before it; one of them is pinned."""
    root = tmp_path_factory.mktemp("schema")
    for night in NIGHTS:
        store_night(root, night)
    store_rich_run(root, 12)
    return root


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed_is_as_published(name: str, reports: Path, run_fleet: RunFleet) -> None:
    if name == "baseline":
        assert (
            run_fleet("baseline", "set", NIGHTS[2], "--reason", "a reason", "--reports", str(reports)).returncode == 0
        )
    done = run_fleet(*COMMANDS[name], "--json", env={"FLEET_REPORTS": str(reports)})

    document = check_document(done.stdout)
    assert shorten_name(document["schema"]) == name, done.stderr
    for place in [document, *list_objects(document)[1:12]]:
        place["unknown"] = 1
        assert not open_validator(document["schema"]).is_valid(document), place
        del place["unknown"]
    for field in list(document):
        value = document.pop(field)
        assert not open_validator(f"fleet.{name}/1").is_valid(document), field
        document[field] = value


def list_objects(value: Any) -> list[dict[str, Any]]:
    """Objects with fixed fields, not those that map any word to something."""
    if isinstance(value, dict):
        inner = [one for key, part in value.items() if key not in MAPS for one in list_objects(part)]
        return [value, *inner]
    return [one for part in value for one in list_objects(part)] if isinstance(value, list) else []


MAPS = {"legend", "by_host", "ulimits"}


def test_every_document_has_a_test() -> None:
    assert sorted(map(shorten_name, map(name_schema, KINDS))) == sorted([*COMMANDS, "push"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_one_and_closed(kind: type) -> None:
    schema = make_schema(kind)
    Draft202012Validator.check_schema(schema)
    for part in walk(schema):
        if part.get("type") == "object":
            fixed = "properties" in part
            assert (part["additionalProperties"] is False) == fixed, part
            assert not fixed or sorted(part["required"]) == sorted(part["properties"])


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_is_left_out(kind: type) -> None:
    schema = make_schema(kind)
    parts = {part["title"]: part for part in (schema, *schema.get("$defs", {}).values())}
    for known in list_classes(kind, set()):
        names = [field.name for field in fields(known)] if is_dataclass(known) else list(known.model_fields)
        assert [name.rstrip("_") for name in names] == list(parts[known.__name__]["properties"]), known


def list_classes(hint: Any, seen: set[Any]) -> set[Any]:
    """The dataclasses and models that a document of this kind is made of."""
    known = get_origin(hint) or hint
    if known not in seen and (is_dataclass(known) or hasattr(known, "model_fields")):
        seen.add(known)
        for inner in get_type_hints(known).values():
            list_classes(inner, seen)
    for inner in get_args(hint):
        list_classes(inner, seen)
    return seen


def walk(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from walk(inner)


def test_fields_are_described_as_where_they_are_defined() -> None:
    definitions = make_schema(KINDS[0])["$defs"]

    assert definitions["SettingLine"]["properties"]["gpus"]["description"] == (
        "Indexes of the GPUs; empty: it is of the host itself."
    )
    assert "description" not in definitions["SettingLine"]["properties"]["hosts"]
    assert definitions["Rules"]["properties"]["warmup_steps"]["description"] == (
        "Steps that are not counted, at least."
    )


def test_the_command_lists_them_and_prints_any(run_fleet: RunFleet) -> None:
    listed, one, every = run_fleet("schema"), run_fleet("schema", "trend"), run_fleet("schema", "--json")

    names = [line.split()[:2] for line in listed.stdout.splitlines()[2:]]
    assert ["baseline", "fleet.baseline/1"] in names
    assert len(names) == len(KINDS)
    assert json.loads(one.stdout) == json.loads(every.stdout)["fleet.trend/1"]
    assert json.loads(one.stdout)["$id"] == "urn:fleet:trend:1"
    assert json.loads(run_fleet("schema", "fleet.trend/1").stdout) == json.loads(one.stdout)
    unknown = run_fleet("schema", "trnd")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "there is no document 'trnd'" in unknown.stderr and "fleet schema" in unknown.stderr
