"""What people install: the wheel, the lock, the make targets."""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fleet.bundle import build_bundle

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
SPAN = 2.5
"""How much longer `fleet --help` may take than Python takes to import what it is made of."""


def call(argv: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)


def run(argv: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None) -> str:
    done = call(argv, cwd, env)
    assert done.returncode == 0, f"{argv} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT], out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of an environment with nothing but the wheel and what it asks for."""
    home = tmp_path_factory.mktemp("installed")
    # The versions of the lock without its hashes: pip would want one for the wheel as well.
    (home / "versions.txt").write_text("\n".join(re.findall(r"^[A-Za-z0-9._-]+==.*?(?= *\\?$)", LOCK, re.MULTILINE)))
    run([sys.executable, "-m", "venv", home / "env"], home)
    bin_dir = home / "env" / "bin"
    run([bin_dir / "python", "-m", "pip", "-qq", "install", "--constraint", home / "versions.txt", wheel], home)
    return bin_dir


def clean_environment(home: Path) -> dict[str, str]:
    """Nothing that leads to the checkout, and nothing of a make that runs the tests."""
    ours = ("PYTHON", "FLEET_", "XDG_", "MAKE", "MFLAGS")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**env, "HOME": str(home)}


def test_wheel_holds_the_package_the_suites_the_payload_and_the_licence(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    names = set(archive.namelist())
    expected = {
        p.relative_to(ROOT).as_posix() for p in (ROOT / "fleet").rglob("*") if p.suffix in {".py", ".yaml", ".sh"}
    }
    expected |= {f"fleet/_{p.relative_to(ROOT).as_posix()}" for p in (ROOT / "payload").rglob("*.py")}
    assert expected - names == set()
    info = wheel.name.rsplit("-", 3)[0] + ".dist-info"
    assert {f"{info}/licenses/LICENSE", "fleet/_payload/catalog.json"} <= names
    assert {name.split("/")[0] for name in names} == {"fleet", info}
    assert not [name for name in names if "__pycache__" in name]
    assert "License-Expression: Apache-2.0" in archive.read(f"{info}/METADATA").decode()
    assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_installed_fleet_pushes_the_same_payload_as_the_checkout(installed: Path, tmp_path: Path) -> None:
    code = "import fleet.bundle, fleet; print(fleet.bundle.build_bundle().sha256, fleet.__file__)"
    sha256, place = run([installed / "python", "-c", code], tmp_path, clean_environment(tmp_path)).split()
    assert place.startswith(str(installed.parent))
    assert sha256 == build_bundle().sha256


def test_installed_fleet_says_its_version(installed: Path, tmp_path: Path) -> None:
    printed = run([installed / "fleet", "--version"], tmp_path, clean_environment(tmp_path))
    assert PROJECT["project"]["version"] in printed


@pytest.mark.needs("tensorflow")
@pytest.mark.usefixtures("this_machine")
def test_installed_fleet_measures_this_machine(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(
        "all:\n  hosts:\n    here:\n      ansible_connection: local\n      fleet_runtime: native\n"
        f"      fleet_devices: cpu\n      fleet_workdir: {tmp_path}/work\n      fleet_python: {sys.executable}\n"
    )
    (tmp_path / "tiny.yaml").write_text(
        "name: tiny\nrules: {warmup_steps: 1, steps: 2, max_s: 5}\n"
        "cells: [{models: [alexnet_conv], phases: [forward], batch_sizes: [1], on: [cpu]}]\n"
    )
    argv: list[str | Path] = [installed / "fleet", "run", "--inventory", "lab.yaml", "--suite", "./tiny.yaml", "--json"]
    report = run(argv, tmp_path, clean_environment(tmp_path))
    assert json.loads(report)["schema"] == "fleet.report/1"
    (cell,) = (tmp_path / "reports").glob("runs/*/hosts/here/cells/000.json")
    document = json.loads(cell.read_text())
    assert (document["status"], document["cell_id"]) == ("ok", "alexnet_conv/forward/fp32/b1/cpu1/nhwc")
    assert document["throughput"]["images_per_s"] > 0


def test_help_starts_fast(installed: Path, tmp_path: Path) -> None:
    env = clean_environment(tmp_path)

    def clock(argv: Sequence[str | Path]) -> float:
        """CPU seconds: starting is nothing but computing, and wall time is also what else the machine does."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(argv, tmp_path, env)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    ours: Sequence[str | Path] = [installed / "fleet", "--help"]
    bare: Sequence[str | Path] = [installed / "python", "-c", "import typer, rich"]
    clock(ours), clock(bare)  # the first runs compile
    times = [(clock(ours), clock(bare)) for _ in range(15)]
    ratio = statistics.median(t for t, _ in times) / statistics.median(t for _, t in times)
    assert ratio <= SPAN, f"fleet --help takes {ratio:.2f} times as long: {times}"


def test_lock_has_a_hashed_version_for_every_requirement_and_no_address() -> None:
    pins = {
        name.lower(): version for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", LOCK, re.MULTILINE)
    }
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(wish for extra in extras for wish in extra), *groups["dev"]]
    for requirement in map(Requirement, wanted):
        version = pins[requirement.name.lower()]
        assert requirement.specifier.contains(version), f"{requirement} is locked as {version}: run make lock"
    blocks = re.split(r"^(?=[A-Za-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in LOCK and "--index" not in LOCK


def test_make_test_ends_with_pytest_and_make_alone_says_what_there_is(tmp_path: Path) -> None:
    env = clean_environment(tmp_path)
    steps = run(["make", "--dry-run", "--always-make", "test"], ROOT, env).strip().splitlines()
    assert "-m pytest " in steps[-1]
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", run(["make"], ROOT, env)))


def test_make_without_a_fitting_python_says_so(tmp_path: Path) -> None:
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    done = call(["make", "PYTHON=", "demo"], tmp_path, clean_environment(tmp_path))
    assert done.returncode != 0
    assert "fleet needs Python 3.11, 3.12 or 3.13" in done.stderr
