"""The TensorFlows that the payload runs on, each with a Python of its time and in an environment of its own."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.payload import bench, zoo
from tests.waiting import hold

PYTHONS = ("3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13")


class Pair(NamedTuple):
    """A version of TensorFlow, and the Python that it is tried with."""

    tensorflow: str
    python: str

    def __str__(self) -> str:
        return f"tensorflow-{self.tensorflow}-python{self.python}"


PAIRS = (
    Pair("2.3.1", "3.6"),  # NGC 20.10
    Pair("2.6.5", "3.8"),
    Pair("2.8.4", "3.8"),
    Pair("2.10.1", "3.8"),
    Pair("2.13.1", "3.8"),
    Pair("2.15.1", "3.11"),
    Pair("2.21.0", "3.11"),
    Pair("2.21.0", "3.13"),
)

ALONE = {"PYTHONPATH": ""}
"""What another interpreter must not inherit of this one's environment."""


class Missing(Exception):
    """What a pair needs is not here; the message says what."""


def choose_pairs() -> list[Pair]:
    """The oldest and the newest; with FLEET_ZOO=all (`make compat`) every one."""
    return list(PAIRS) if zoo.takes_all() else [PAIRS[0], PAIRS[-1]]


@functools.cache
def find_python(version: str) -> str:
    """A Python of this version that can make environments: on PATH, or one of pyenv's.

    Raises:
        Missing: there is none.
    """
    name = f"python{version}"
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for python in filter(None, [shutil.which(name), *map(str, sorted(root.glob(f"versions/{version}.*/bin/{name}")))]):
        # pyenv has a program of this name on PATH even where it has no such version.
        if subprocess.run([python, "-c", "import ensurepip"], capture_output=True).returncode == 0:
            return python
    raise Missing(f"python {version}: found neither on PATH nor among pyenv's versions")


def make_environment(pair: Pair) -> str:
    """The interpreter of an environment with this TensorFlow, made once and kept.

    Raises:
        Missing: there is no such Python, or the packages cannot be had.
    """
    root = bench.ROOT / ".cache" / str(pair)
    python = str(root / "bin" / "python")
    root.parent.mkdir(exist_ok=True)
    with hold(root.with_name(f"{pair}.lock")):  # `make test` and `make compat` may want it at the same time
        if not (root / "complete").exists():
            shutil.rmtree(root, ignore_errors=True)
            subprocess.run([find_python(pair.python), "-m", "venv", str(root)], check=True, env=_clean_env())
            if pair.python == "3.6":
                _install(pair, python, "pip==21.3.1")  # its own does not know the wheels' platform
            _install(pair, python, f"tensorflow-cpu=={pair.tensorflow}")
            (root / "complete").touch()
    return python


def _install(pair: Pair, python: str, package: str) -> None:
    argv = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", package]
    done = subprocess.run(argv, env=_clean_env(), capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"tensorflow {pair.tensorflow} for Python {pair.python}: {package}: {done.stderr.strip()[-500:]}")


def _clean_env() -> dict[str, str]:
    return {**os.environ, **ALONE}
