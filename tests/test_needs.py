"""The marker `needs`: a skip with a sentence, and a failure where FLEET_REQUIRE says so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

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


@pytest.mark.parametrize("spread", [[], ["--numprocesses=2", "--dist=loadfile"]], ids=["alone", "side_by_side"])
def test_what_is_required_is_never_skipped(tmp_path: Path, spread: list[str]) -> None:
    (tmp_path / "test_sample.py").write_text(TESTS)

    text = _run_pytest(tmp_path, "ssh, no-such-program", *spread)

    assert "1 failed, 1 passed, 1 skipped, 1 error" in text
    assert "FLEET_REQUIRE says it must be here: no-such-program: no-such-program not found on PATH" in text
    assert "skipped, but FLEET_REQUIRE names no-such-program" in text


@pytest.mark.parametrize("spread", [[], ["--numprocesses=2", "--dist=loadfile"]], ids=["alone", "side_by_side"])
def test_a_module_that_skips_itself_fails_too(tmp_path: Path, spread: list[str]) -> None:
    (tmp_path / "test_sample.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")

    assert "1 skipped" in _run_pytest(tmp_path, "", *spread)
    assert re.search(r"[1-9] errors?", _run_pytest(tmp_path, "no_such_module", *spread))


def _run_pytest(directory: Path, required: str, *options: str) -> str:
    argv = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-ra", "--rootdir", str(directory)]
    argv += ["-c", "/dev/null", "-p", "no:cacheprovider", *options, str(directory)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLEET_REQUIRE": required}
    return subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, timeout=60).stdout
