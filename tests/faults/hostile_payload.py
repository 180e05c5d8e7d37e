"""A start-up file of a container's Python that makes the payload's parent hostile: it measures its first cell, says of
every further one that it was the same, and writes what it likes in the place of their documents."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORDS = Path("/proc/self/cmdline").read_bytes().split(b"\0")
EVIL = "\x1b[2J\x1b]8;;http://x\x07\x9b2J\u202e\u200b[/red]<script>alert(1)</script>=1+1"
CUT_OFF = 1 << 20
"""As much of a file as fleet takes."""


def damage(text: str) -> dict[int, bytes]:
    """By the place of the cell, what is written for it; `text` is its document."""
    value = '"duration_s":'
    return {
        1: text[: len(text) // 2].encode(),
        2: b"",
        3: text.replace(value, '"x":NaN,' + value).encode(),
        4: text.replace(value, '"x":[1e999],' + value).encode(),
        5: text.replace(value, '"x":-Infinity,' + value).encode(),
        6: text.replace(value, '"x":' + "[" * 100_000 + "]" * 100_000 + "," + value).encode(),
        7: text.replace(value, '"x":' + "9" * 10_000_000 + "," + value).encode(),
        8: text.replace(value, '"attempt":2,' + value).encode(),
        9: b"\xef\xbb\xbf" + text.encode(),
        10: text.replace(value, '"x":"\\ud800",' + value).encode(),
        11: text.replace(value, '"x":"').encode() + b'\xff"}',
        12: text.replace('"alias":"', '"alias":"another-').encode(),
        13: text.replace('"index":13,', '"index":true,').encode(),
    }


def leave_hole(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def leave_words(path: Path) -> None:
    """A document that is in order, of a cell that failed, with words that are not."""
    document: dict[str, Any] = json.loads(path.with_name("000.json").read_text())
    number = int(path.stem)
    cell_id = document["cell_id"].replace("/b1/", f"/b{number + 1}/")
    document.update(index=number, cell_id=cell_id, cell=dict(document["cell"], batch_size=number + 1))
    document.update(status="crash", reason=EVIL, message=EVIL, stage="measure", timing=None, throughput=None)
    path.write_text(json.dumps(document))


PLACES: dict[int, Callable[[Path], None]] = {
    14: os.mkfifo,
    15: lambda path: path.symlink_to("/etc/passwd"),
    16: Path.mkdir,
    17: leave_hole,
    18: leave_words,
}


def make_hostile() -> None:
    sys.path.insert(0, WORDS[1].decode())
    from payload import parent

    measure, write = parent.measure_cell, parent.Job._write
    measured: list[dict[str, Any]] = []

    def measure_once(*given: Any) -> dict[str, Any]:
        if not measured:
            measured.append(measure(*given))
        return copy.deepcopy(measured[0])

    def write_hostile(job: Any, name: str, document: dict[str, Any]) -> None:
        place = document.get("index") if name.startswith("cells") else None
        path = Path(job._out, name)
        if place in PLACES:
            PLACES[place](path)
            return
        write(job, name, document)
        if place and (data := damage(path.read_text()).get(place)) is not None:
            path.write_bytes(data)

    parent.__dict__["measure_cell"] = measure_once
    parent.Job._write = write_hostile  # type: ignore[assignment, method-assign]


if b"run" in WORDS and b"--report-fd" not in WORDS:
    if os.environ.get("HOSTILE") == "dies":
        print(EVIL, flush=True)
        os._exit(5)
    make_hostile()
