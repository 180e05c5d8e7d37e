"""Which fleet this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def find_version() -> str:
    """The installed version; `unknown` in a checkout that was never installed."""
    try:
        return version("fleet-bench")
    except PackageNotFoundError:
        return "unknown"
