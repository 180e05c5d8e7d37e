"""The index's bench still measures."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.conftest import ROOT


def test_a_short_year_is_measured() -> None:
    argv = [sys.executable, "tests/bench/store.py", "--nights", "16", "--hosts", "3"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=200)

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^  results +0\.003 million", done.stdout, re.MULTILINE)  # 16 nights, 3 hosts, 60 cells
    assert len(re.findall("at most", done.stdout)) == 6
