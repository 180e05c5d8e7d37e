"""What a person can get wrong on the command line or in a file: a sentence, the right exit code, no traceback."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from fleet.model.plan import Plan
from tests.conftest import ROOT, RunFleet
from tests.run_builder import Ending, make_cells, make_plan, store_run

GOOD = """
all:
  hosts:
    here: {ansible_connection: local, fleet_runtime: native, fleet_devices: cpu}
    cpu[01:02]: {ansible_host: 192.0.2.1, fleet_devices: cpu}
  children:
    gpu:
      hosts:
        gpu01:
          ansible_host: 192.0.2.2
"""

FILES = {
    "good.yaml": GOOD,
    "typo.yaml": "all:\n  hosts:\n    gpu01:\n      fleet_imge: x\n",
    "open.yaml": "all:\n  hosts: [gpu01\n",
    "value.yaml": "all:\n  vars:\n    fleet_devices: many\n  hosts:\n    gpu01:\n",
    "empty.yaml": "",
    "suite.yaml": "name: mine\ncells:\n  - {models: [resnet51], batch_sizes: [1], on: [cpu]}\n",
}

CASES = {
    "unknown command": (["rnu"], 2, "'rnu'.*Did you mean 'run'"),
    "unknown option": (["run", "-i", "good.yaml", "--dryrun"], 2, "--dryrun.*--dry-run"),
    "no inventory": (["run"], 2, "--inventory.*FLEET_INVENTORY"),
    "missing inventory": (["run", "-i", "nope.yaml"], 2, r"nope\.yaml: there is no such file"),
    "inventory of another ending": (["run", "-i", "good.yml"], 2, r"no such file.*did you mean good\.yaml\?"),
    "suite of another ending": (["run", "-i", "good.yaml", "-s", "suite.yml"], 2, r"did you mean suite\.yaml\?"),
    "missing inventory of ping": (["ping", "-i", "nope.yaml"], 2, r"nope\.yaml: there is no such file"),
    "missing inventory of trust": (["hosts", "trust", "-i", "nope.yaml"], 2, r"nope\.yaml: there is no such file"),
    "a directory": (["run", "-i", "."], 2, "directory"),
    "malformed YAML": (["run", "-i", "open.yaml"], 2, r"open\.yaml:\d+: is not valid YAML"),
    "empty inventory": (["run", "-i", "empty.yaml"], 2, r"empty\.yaml: "),
    "unknown setting": (["run", "-i", "typo.yaml"], 2, r"typo\.yaml:4: .*gpu01.*fleet_imge.*fleet_image"),
    "wrong value": (["run", "-i", "value.yaml"], 2, r"value\.yaml:3: .*fleet_devices.*cpu, all, a number"),
    "unknown suite": (["run", "-i", "good.yaml", "-s", "smok"], 2, "'smok'; did you mean smoke\\?"),
    "missing suite": (["run", "-i", "good.yaml", "-s", "./mine.yaml"], 2, r"mine\.yaml: .*no such file"),
    "wrong suite": (["run", "-i", "good.yaml", "-s", "suite.yaml"], 2, r"suite\.yaml:3: .*resnet51.*resnet50"),
    "a suite and cells": (
        ["run", "-i", "good.yaml", "-s", "quick", "--devices", "1"],
        2,
        "--suite quick.*--devices too",
    ),
    "cells of no model": (["run", "-i", "good.yaml", "--batch-sizes", "8"], 2, "--batch-sizes without --models"),
    "unknown model": (["run", "-i", "good.yaml", "--models", "resnet51"], 2, "--models: 'resnet51'.*resnet50"),
    "no length of time": (["run", "-i", "good.yaml", "--wait-idle", "soon"], 2, "--wait-idle: 'soon' is not a time"),
    "waiting and not": (
        ["run", "-i", "good.yaml", "--wait-idle", "10m", "--ignore-busy"],
        2,
        "--wait-idle and --ignore-busy",
    ),
    "no forks": (["run", "-i", "good.yaml", "-f", "0"], 2, "--forks.*1"),
    "too many forks": (["ping", "-i", "good.yaml", "--forks", "5000"], 2, "--forks.*1024"),
    "forks in words": (["ping", "-i", "good.yaml", "--forks", "many"], 2, "--forks.*valid integer"),
    "limit of nothing": (["run", "-i", "good.yaml", "-l", "gup"], 6, r"`gup`.*did you mean gpu\?"),
    "limit that takes all away": (["ping", "-i", "good.yaml", "-l", "gpu:!gpu"], 6, "selects no host"),
    "limit of trust": (["hosts", "trust", "-i", "good.yaml", "-l", "gup"], 6, r"did you mean gpu\?"),
    "a limit that acts": (
        ["ping", "-i", "good.yaml", "-l", "a:\x1b[31mX"],
        2,
        r"argument 5 .* U\+001B: 'a:\\x1b\[31mX'",
    ),
    "a suite that is empty": (["run", "-i", "good.yaml", "-s", ""], 2, "argument 5 is empty"),
    "a deadline that is empty": (["run", "-i", "good.yaml", "--deadline="], 2, "argument 4 is empty: '--deadline='"),
    "a bound that is empty": (["run", "-i", "good.yaml", "--max-fail", " "], 2, "argument 5 is empty"),
    "a run that is empty": (["report", ""], 2, "argument 2 is empty"),
    "an option that acts": (["ping", "--\x1b[31mX"], 2, r"argument 2 .* U\+001B"),
    "an inventory not in UTF-8": (["run", "-i", "l\udcff.yaml"], 2, r"argument 3 is not UTF-8: 'l\\udcff\.yaml'"),
    "bad expression": (["run", "-i", "good.yaml", "-l", "~gpu("], 2, "not a regular expression"),
}


@pytest.fixture
def files(workspace: Path) -> Path:
    for name, text in FILES.items():
        (workspace / name).write_text(text)
    return workspace


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_a_sentence(name: str, files: Path, run_fleet: RunFleet) -> None:
    arguments, code, says = CASES[name]
    done = run_fleet(*arguments)

    assert done.returncode == code, done.stderr
    assert re.search(says, done.stderr, re.DOTALL), done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in files.iterdir()) == sorted(FILES)


def test_a_dry_run_connects_to_nothing_and_writes_nothing(files: Path, run_fleet: RunFleet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.setblocking(False)
        port = door.getsockname()[1]
        (files / "door.yaml").write_text(
            f"all: {{hosts: {{door: {{ansible_host: 127.0.0.1, ansible_port: {port}, fleet_devices: cpu}}}}}}"
        )
        before = sorted(files.iterdir())
        done = run_fleet("run", "-i", "door.yaml", "--suite", "smoke", "--dry-run")

        assert done.returncode == 0, done.stderr
        with pytest.raises(BlockingIOError):
            door.accept()
        assert sorted(files.iterdir()) == before


def test_a_dry_run_does_not_wait_for_hosts_and_says_what_would_be_done(files: Path, run_fleet: RunFleet) -> None:
    begin = time.monotonic()
    done = run_fleet("run", "-i", "good.yaml", "--suite", "smoke", "--dry-run", env={"COLUMNS": "80"})

    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begin < 10
    for words in (
        "gpu01",
        "192.0.2.2",
        "this machine",
        "nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
        "resnet50/train/fp32",
    ):
        assert words in done.stdout
    assert re.search(r"4 cells on here, cpu01, cpu02:", done.stdout)
    assert re.search(r"suite smoke: 16 cells on 4 hosts, about .* Nothing was connected to\.", done.stdout)
    assert "pulls it first" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_a_dry_run_in_json_is_the_plan(files: Path, run_fleet: RunFleet) -> None:
    done = run_fleet("run", "-i", "good.yaml", "-l", "all:!here", "-s", "smoke", "-f", "7", "--dry-run", "--json")

    plan = Plan.model_validate_json(done.stdout)
    assert (plan.limit, plan.forks, plan.suite, plan.inventory) == ("all:!here", 7, "smoke", "good.yaml")
    assert [host.alias for host in plan.hosts] == ["cpu01", "cpu02", "gpu01"]
    assert json.loads(done.stdout)["schema"] == "fleet.plan/1"


def test_options_can_come_from_the_environment(files: Path, run_fleet: RunFleet) -> None:
    done = run_fleet("run", "--dry-run", "--json", env={"FLEET_INVENTORY": "good.yaml"})

    assert Plan.model_validate_json(done.stdout).inventory == "good.yaml"
    assert "elsewhere" in run_fleet("report", env={"FLEET_REPORTS": "elsewhere"}).stderr


def test_a_dry_run_tells_a_number_of_gpus_from_their_indexes(files: Path, run_fleet: RunFleet) -> None:
    hosts = {"a": "2", "b": "1", "c": "[2]", "d": "[0, 3]", "e": "all", "f": "cpu"}
    (files / "gpus.yaml").write_text(
        f"all: {{hosts: {{{', '.join(f'{name}: {{fleet_devices: {value}}}' for name, value in hosts.items())}}}}}"
    )
    done = run_fleet("run", "-i", "gpus.yaml", "--dry-run")

    shown = ("2 GPUs", "1 GPU", "GPU 2", "GPU 0, 3", "all GPUs", "CPU")
    for name, devices in zip(hosts, shown, strict=True):
        assert re.search(rf"^{name} +{name} +{devices} +\d", done.stdout, re.MULTILINE), done.stdout
    native = run_fleet("run", "-i", "good.yaml", "-l", "here", "--dry-run")
    assert "pull" not in native.stdout


@pytest.mark.needs("root", "setpriv")
def test_an_inventory_that_may_not_be_read_is_said_as_everything_else(files: Path) -> None:
    inventory = files / "lab.yaml"
    inventory.write_text(GOOD)
    inventory.chmod(0o600)
    os.chown(inventory, 65534, 65534)
    # Root as everybody else: without the right to read what belongs to others.
    argv = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable, "-m", "fleet"]
    done = subprocess.run(
        [*argv, "run", "-i", str(inventory), "--dry-run"],
        cwd=files,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"fleet: {inventory}: cannot be read: Permission denied\n"


def test_usage_writes_an_argument_that_may_be_left_out_in_brackets_once(run_fleet: RunFleet) -> None:
    assert "fleet report [OPTIONS] [RUN]\n" in run_fleet("report", "--help").stdout


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("fleet run --suite ", ["alexnet-cpu-gpu", "full", "precision", "quick", "scaling", "smoke", "standard"]),
        ("fleet run --models lenet,bert", ["lenet,bert_base_128", "lenet,bert_base_512"]),
        ("fleet run --suite sm", ["smoke"]),
        ("fleet run -i good.yaml --limit g", ["gpu", "gpu01"]),
        ("fleet ping -i good.yaml -l all,!cpu", ["all,!cpu01", "all,!cpu02"]),
        ("fleet run -i open.yaml --limit g", []),
        ("fleet run --limit g", []),
        ("fleet report 2026", ["20260101T023000Z-k3x9"]),
        ("fleet report --reports nowhere 2", []),
    ],
)
def test_the_shell_is_offered_what_there_is(line: str, offers: list[str], files: Path, run_fleet: RunFleet) -> None:
    store_run(files / "reports", make_plan({"cpu01": make_cells()}), {"cpu01": Ending()})
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_PYTHON _M FLEET_COMPLETE": "complete_bash"}
    done = run_fleet(env=asked)

    assert done.stdout.split() == offers, done.stderr
    assert done.stderr == ""


def test_version(run_fleet: RunFleet) -> None:
    try:
        expected = version("fleet-bench")
    except PackageNotFoundError:
        expected = "unknown"

    assert run_fleet("--version").stdout == f"fleet {expected}\n"


@pytest.mark.parametrize("arguments", [[], ["hosts"]])
def test_no_command_shows_which_there_are(arguments: list[str], run_fleet: RunFleet) -> None:
    done = run_fleet(*arguments)

    assert done.returncode == 2
    assert "Commands:" in done.stdout + done.stderr


def test_reports_that_cannot_be_written_are_a_sentence(files: Path, run_fleet: RunFleet) -> None:
    (files / "file").write_text("")
    done = run_fleet("run", "-i", "good.yaml", "-l", "here", "-s", "smoke", "--reports", "file/reports")

    assert done.returncode == 2, done.stderr
    assert re.search(r"^fleet: file/reports.*[Nn]ot a directory", done.stderr, re.MULTILINE), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the C locale of Linux")
def test_an_ascii_terminal_gets_ascii(files: Path, run_fleet: RunFleet) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for arguments in (
        ["--help"],
        ["runs"],
        ["run", "-i", "good.yaml", "--dry-run"],
        ["ping", "-i", "good.yaml", "-l", "here"],
    ):
        done = run_fleet(*arguments, env=ascii_only)
        assert done.returncode in {0, 3}, done.stderr
        assert (done.stdout + done.stderr).isascii()


def test_a_variable_that_stands_for_an_option_is_looked_at_too(files: Path, run_fleet: RunFleet) -> None:
    done = run_fleet("run", env={"FLEET_INVENTORY": "l\udcff.yaml"})

    assert done.returncode == 2
    assert done.stderr.startswith("fleet: FLEET_INVENTORY is not UTF-8")
    assert not (files / "reports").exists()


@pytest.mark.needs("root", "setpriv")
def test_an_account_without_name_and_home_can_run(files: Path, isolated_home: Path) -> None:
    privileges = ["+dac_override", "--ambient-caps", "+dac_override"]  # to read this checkout, wherever it is
    nobody = [
        "setpriv",
        "--reuid",
        "54321",
        "--inh-caps",
        *privileges,
        "env",
        "-u",
        "HOME",
        "-u",
        "USER",
        "-u",
        "LOGNAME",
    ]
    argv = [*nobody, sys.executable, "-m", "fleet", "run", "-i", "here.yaml", "-s", "smoke"]
    (files / "here.yaml").write_text(
        "all: {hosts: {here: {ansible_connection: local, fleet_runtime: native, fleet_devices: cpu}}}"
    )
    done = subprocess.run(
        argv, cwd=files, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=100
    )

    assert done.returncode == 6, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"✖ here +preflight failed at probe \(workdir_", done.stdout), done.stdout
