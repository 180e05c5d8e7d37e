"""README.md lists every fault with the tests that hold fleet to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def list_rows() -> list[list[str]]:
    """The cells of every row of the table."""
    lines = (HERE / "README.md").read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| \d+ \|", line)]


def find_missing(held_by: str) -> Iterator[str]:
    """What is named in the last cell of a row and is not there."""
    for place in held_by.split(";"):
        file, _, names = place.strip().partition(": ")
        text = (HERE / file).read_text() if (HERE / file).is_file() else ""
        if not text:
            yield file
        for name in filter(None, names.split(", ")):
            if f"def {name}(" not in text and f'"{name}":' not in text and f'"{name}"' not in text:
                yield f"{file}: {name}"


def test_every_named_test_is_there() -> None:
    rows = list_rows()

    assert len(rows) >= 38
    assert {len(row) for row in rows} == {4}
    assert len({row[0] for row in rows}) == len(rows)
    missing = [what for row in rows for what in find_missing(row[3])]
    assert missing == []


def test_every_file_of_whole_runs_is_named() -> None:
    named = " ".join(row[3] for row in list_rows())

    assert [p.name for p in HERE.glob("test_*.py") if p.name != Path(__file__).name and p.name not in named] == []


def test_what_is_not_there_is_found() -> None:
    assert list(find_missing("test_no_such.py: x; test_catalogue.py: test_nothing")) == [
        "test_no_such.py",
        "test_no_such.py: x",
        "test_catalogue.py: test_nothing",
    ]
