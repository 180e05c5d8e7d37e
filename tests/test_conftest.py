"""What holds for every test: the marker `needs`, and side by side what holds alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT

SIDE_BY_SIDE = ("--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder")

TESTS = """
import pytest

@pytest.mark.needs("not-here-either", "no-such-program")
def test_marked(): ...

def test_skips_by_itself():
    pytest.skip("no-such-program is not here")

def test_skips_for_another_reason():
    pytest.skip("a Tuesday")

@pytest.mark.needs("sh")
def test_runs(): ...
"""


def test_what_is_missing_is_skipped_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(TESTS)

    text = _run_pytest(tmp_path, "ssh")

    assert "1 passed, 3 skipped" in text
    assert "no-such-program: no-such-program not found on PATH" in text


@pytest.mark.parametrize("spread", [(), SIDE_BY_SIDE], ids=["alone", "side_by_side"])
def test_what_is_required_is_never_skipped(tmp_path: Path, spread: Sequence[str]) -> None:
    (tmp_path / "test_sample.py").write_text(TESTS)

    text = _run_pytest(tmp_path, "ssh, no-such-program", *spread)

    assert "1 failed, 1 passed, 1 skipped, 1 error" in text
    assert "FLEET_REQUIRE says it must be here: no-such-program: no-such-program not found on PATH" in text
    assert "skipped, but FLEET_REQUIRE names no-such-program" in text


@pytest.mark.parametrize("spread", [(), SIDE_BY_SIDE], ids=["alone", "side_by_side"])
def test_a_module_that_skips_itself_fails_too(tmp_path: Path, spread: Sequence[str]) -> None:
    (tmp_path / "test_sample.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")

    assert "1 skipped" in _run_pytest(tmp_path, "", *spread)
    assert re.search(r"[1-9] errors?", _run_pytest(tmp_path, "no_such_module", *spread))


def test_what_a_test_starts_can_be_interrupted_in_the_background_too(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(
        "import subprocess, sys\n\n"
        "def test_started():\n"
        "    code = 'import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)'\n"
        "    assert subprocess.run([sys.executable, '-c', code], capture_output=True).stdout == b'True\\n'\n"
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        text = _run_pytest(tmp_path, "", *SIDE_BY_SIDE)
    finally:
        signal.signal(signal.SIGINT, before)

    assert "1 passed" in text


def test_long_files_begin_first(tmp_path: Path) -> None:
    for name, marker in (("a", "needs()"), ("b", "long"), ("c", "needs()")):
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n@pytest.mark.{marker}\ndef test_it(): ...\n")

    text = _run_pytest(tmp_path, "", "-v", "--numprocesses=1", *SIDE_BY_SIDE[1:])

    assert re.findall(r"PASSED.* test_(\w)\.py", text) == ["b", "a", "c"], text


def _run_pytest(directory: Path, required: str, *options: str) -> str:
    argv = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-ra", "--rootdir", str(directory)]
    argv += ["-c", "/dev/null", "-p", "no:cacheprovider", *options, str(directory)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLEET_REQUIRE": required}
    return subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, timeout=60).stdout
