"""Where the machine of `script_machine` has its files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def ground() -> Iterator[Path]:
    """A directory that is not below /tmp, which the machine covers."""
    with tempfile.TemporaryDirectory(prefix="fleet-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)
