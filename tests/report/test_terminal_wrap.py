"""Lines are broken between words, and never inside a command that somebody is to copy."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from fleet.progress_print import print_line
from fleet.report.terminal_wrap import wrap_words
from tests.conftest import ROOT
from tests.test_progress import read_to_end

LEAVING = "leaving; what was started on lab3 goes on there. Take it up again with: fleet resume 20261201T023000Z-k3x9."


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("short  as it is", 15, ["short  as it is"]),
        (
            f"{LEAVING} Ctrl-C again within 2 s ends it on the hosts.",
            60,
            [
                "leaving; what was started on lab3 goes on there. Take it up",
                "  again with: fleet resume 20261201T023000Z-k3x9. Ctrl-C",
                "  again within 2 s ends it on the hosts.",
            ],
        ),
        (
            "no space in /var/lib/fleet-lab. Then (`fleet hosts trust --limit lab1`), and more",
            24,
            ["no space in", "  /var/lib/fleet-lab.", "  Then", "  (`fleet hosts trust --limit lab1`),", "  and more"],
        ),
        ("one\ntwo three", 8, ["one", "two", "  three"]),
        ("計算機 計算機", 8, ["計算機", "  計算機"]),  # each sign takes two columns
        ("a lone ` is a word", 10, ["a lone `", "  is a", "  word"]),
    ],
)
def test_lines_are_broken_between_words(text: str, width: int, lines: list[str]) -> None:
    assert wrap_words(text, width, 2) == lines


def test_progress_breaks_lines_on_a_terminal_alone() -> None:
    shown = {}
    for terminal in (True, False):
        file = io.StringIO()
        print_line(Console(file=file, force_terminal=terminal, color_system=None, width=60), LEAVING)
        shown[terminal] = file.getvalue().splitlines()
    assert shown[False] == [LEAVING]
    assert shown[True] == [LEAVING[:59], "  " + LEAVING[60:]]


def test_errors_are_broken_between_words_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    chunks: list[bytes] = []
    reader = threading.Thread(target=read_to_end, args=(ours, chunks))
    reader.start()
    argv = [sys.executable, "-m", "fleet", "run", "--retry-failed", "2026", "--suite", "quick"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "40"}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    reader.join()
    lines = b"".join(chunks).decode().splitlines()
    assert done.returncode == 2
    assert lines == [
        "fleet: --retry-failed says what to",
        "       measure, and --suite too",
        "       Use one of them.",
    ]
