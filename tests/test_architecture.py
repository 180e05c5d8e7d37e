"""The layout of the code: who may import whom, and how large things get.

A row imports itself and the rows above it; a third-party library only where its row says so. Imports inside functions
count like all others: being lazy is about time, not about layers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

ROWS: dict[str, tuple[str, ...]] = {
    # row: the libraries that only it imports
    "errors": (),
    "model": (),
    "inventory": ("yaml",),
    "suite": ("yaml",),
    "reference": ("yaml",),
    "plan": (),
    "bundle": (),
    "transport": ("fabric", "paramiko"),
    "runtime": (),
    "host": (),
    "fanout": (),
    "store": ("sqlalchemy", "alembic", "numpy", "pyarrow"),
    "analysis": ("numpy",),
    "report": ("jinja2", "plotly"),
    "doctor": (),
    "notify": ("apprise",),
    "progress": ("rich",),
    "nightly": (),
    "cli": ("typer", "rich"),
}
IN_ROW = {
    "estimate": "plan",
    "suite_file": "suite",
    "suite_matrix": "suite",
    "suite_options": "suite",
    "progress_board": "progress",
    "progress_lines": "progress",
    "progress_live": "progress",
    "progress_print": "progress",
    "progress_push": "progress",
    "__main__": "cli",
}
"""Modules that belong to a row of another name."""

EVERYWHERE = {"pydantic"}
"""Every file and every message is validated with it."""

RICH_IN_REPORT = ("fleet/report/terminal", "fleet/report/runs")
"""How the names of the modules begin that draw on a terminal."""

PAYLOAD_LIBRARIES = {"tensorflow", "numpy"}
FORBIDDEN_NAMES = {"utils", "util", "common", "core", "manager", "helpers", "misc"}
MAX_MODULE_LINES = 350
MAX_PARAMETERS = 6


def modules(root: Path, package: str) -> list[Path]:
    return sorted(path for path in (root / package).rglob("*.py") if "__pycache__" not in path.parts)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything a file imports; `from a import b` gives `a.b`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{'.' * node.level}{node.module or ''}.{alias.name}") for alias in node.names)


def row_of(name: str) -> str:
    return IN_ROW.get(name, name)


def find_import_faults(root: Path) -> list[str]:
    """Every import of fleet/ that the table does not allow, as `file:line: sentence`."""
    order = list(ROWS)
    faults = []
    for path in modules(root, "fleet"):
        place = path.relative_to(root).with_suffix("").as_posix()
        row = row_of(place.split("/")[1])
        if place == "fleet/__init__":
            continue
        if row not in ROWS:
            faults.append(f"{place}.py:1: {row} is not a row of the table")
            continue
        for line, name in imports(path):
            if fault := judge_import(name, place, row, order):
                faults.append(f"{place}.py:{line}: {fault}")
    return faults


def judge_import(name: str, place: str, row: str, order: list[str]) -> str:
    library, _, rest = name.partition(".")
    if not library:
        return f"relative import {name}"
    if library == "fleet":
        target = row_of(rest.split(".")[0])
        if target in order and order.index(target) > order.index(row):
            return f"{row} imports {target}, which is below it"
        # `import fleet` alone says where the package lies.
        return "" if target in order or not rest else f"{name} is not a row of the table"
    if library in sys.stdlib_module_names or library in EVERYWHERE or library in ROWS[row]:
        return ""
    if library == "rich" and place.startswith(RICH_IN_REPORT):
        return ""
    return f"{row} imports {library}"


def find_payload_faults(root: Path) -> list[str]:
    """Every import of payload/ beyond itself, the standard library and TensorFlow (with its numpy)."""
    allowed = {*sys.stdlib_module_names, *PAYLOAD_LIBRARIES, "payload"}
    return [
        f"{path.relative_to(root)}:{line}: imports {name}"
        for path in modules(root, "payload")
        for line, name in imports(path)
        if name.partition(".")[0] not in allowed
    ]


def find_size_faults(root: Path) -> list[str]:
    faults = []
    for package in ("fleet", "payload", "tests"):
        for path in modules(root, package):
            text = path.read_text(encoding="utf-8")
            place = path.relative_to(root)
            if (lines := text.count("\n")) > MAX_MODULE_LINES:
                faults.append(f"{place}: {lines} lines")
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                    if len(set(names) - {"self", "cls"}) > MAX_PARAMETERS and not node.decorator_list:
                        faults.append(f"{place}:{node.lineno}: {node.name} has {len(names)} parameters")
    return faults


def find_name_faults(root: Path) -> list[str]:
    faults = []
    for package in ("fleet", "payload", "tests"):
        for path in modules(root, package):
            place = path.relative_to(root)
            if FORBIDDEN_NAMES & {*place.parts, path.stem}:
                faults.append(f"{place}: says nothing about what is in it")
            if path.name == "__init__.py" and path.read_text(encoding="utf-8").strip():
                faults.append(f"{place}: is not empty")
    return faults


CHECKS = [find_import_faults, find_payload_faults, find_size_faults, find_name_faults]


@pytest.mark.parametrize("check", CHECKS)
def test_the_code_keeps_to_its_layout(check: object) -> None:
    assert callable(check)
    assert check(ROOT) == []


def test_the_table_is_walked() -> None:
    found = {row_of(path.relative_to(ROOT).with_suffix("").parts[1]) for path in modules(ROOT, "fleet")}
    assert {"errors", "model", "suite", "plan", "bundle", "progress"} <= found
    assert len(modules(ROOT, "payload")) > 5


def test_planted_faults_are_found(tmp_path: Path) -> None:
    planted = {
        "fleet/model/plan.py": "def f():\n    from fleet.store import rundir\n",
        "fleet/plan.py": "import yaml\nfrom .model import plan\n",
        "fleet/report/view.py": "from rich.text import Text\nimport tensorflow\nimport payload.spec\n",
        "fleet/report/terminal.py": "from rich.text import Text\nfrom fleet import store\nfrom fleet.store import x\n",
        "fleet/host/__init__.py": "x = 1\n",
        "fleet/host/utils.py": "def f(a, b, c, *, d, e, f, g): ...\n",
        "fleet/extra.py": "",
        "payload/cell.py": "import fleet.model\nimport requests\nimport tensorflow, json\nfrom payload import spec\n",
        "payload/long.py": "x = 1\n" * 400,
        "tests/test_long.py": "x = 1\n" * 400,
    }
    for name, text in planted.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert find_import_faults(tmp_path) == [
        "fleet/extra.py:1: extra is not a row of the table",
        "fleet/model/plan.py:2: model imports store, which is below it",
        "fleet/plan.py:1: plan imports yaml",
        "fleet/plan.py:2: relative import .model.plan",
        "fleet/report/view.py:1: report imports rich",
        "fleet/report/view.py:2: report imports tensorflow",
        "fleet/report/view.py:3: report imports payload",
    ]
    assert find_payload_faults(tmp_path) == [
        "payload/cell.py:1: imports fleet.model",
        "payload/cell.py:2: imports requests",
    ]
    assert find_size_faults(tmp_path) == [
        "fleet/host/utils.py:1: f has 7 parameters",
        "payload/long.py: 400 lines",
        "tests/test_long.py: 400 lines",
    ]
    assert find_name_faults(tmp_path) == [
        "fleet/host/__init__.py: is not empty",
        "fleet/host/utils.py: says nothing about what is in it",
    ]
