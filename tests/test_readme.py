"""The README shows only what works: its commands are run, its tables are held to the code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fleet.bundle import read_models
from fleet.errors import ExitCode
from fleet.inventory.loader import load_inventory
from fleet.model.inventory import Settings
from fleet.model.suite import Rules
from fleet.suite import list_suites, load_suite
from tests.conftest import ROOT, LabHosts
from tests.lab.engine import DOCKER_HOST
from tests.lab.hosts import LabHost

README = (ROOT / "README.md").read_text(encoding="utf-8")
PRIORITY = (130, 75, 1, 2, 6, 3, 4, 5, 0)
FOR_OTHERS = {
    "python3 -m venv ~/.local/share/fleet": "makes an environment in the home",
    "~/.local/share/fleet/bin/pip install .": "installs what is under test; the tests of the wheel do",
    "ln -s ~/.local/share/fleet/bin/fleet ~/.local/bin/fleet": "puts a link in the home",
}
"""Commands that are not run here, and why."""

GROUPS = ("hosts", "runs", "baseline")
"""Commands with commands beneath them; `runs` is also one by itself."""

BY_HAND = "python3 -m payload "


def find_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def find_commands() -> list[str]:
    lines = [line for block in find_blocks("console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [line.removeprefix("$ ") for line in lines]


def find_rows(heading: str) -> list[list[str]]:
    """The cells of the table under this head line, without code quotes."""
    table = re.search(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert table, heading
    lines = table[1].splitlines()
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def show_help(*command: str) -> str:
    argv = [sys.executable, "-m", "fleet", *command, "--help"]
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, capture_output=True, text=True, check=True, env=environment).stdout


def list_commands(*group: str) -> list[str]:
    return re.findall(r"^  ([a-z-]+) ", show_help(*group).partition("Commands:")[2], re.MULTILINE)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a clean clone of this tree would hold."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this tree is not a git checkout")
    copy = tmp_path / "clone"
    for name in filter(None, done.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


def run_line(line: str, directory: Path, checkout: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The line as a shell runs it, with the clone's fleet on PATH and this Python as python3."""
    programs = checkout.parent / "bin"
    programs.mkdir(exist_ok=True)
    for name, words in (("fleet", " -m fleet"), ("python3", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (programs / name).chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(checkout),
        "DOCKER_HOST": DOCKER_HOST,
    }
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=directory,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=400,
    )


def prepare_hosts(directory: Path, hosts: list[LabHost], image: str) -> None:
    """The README's inventory and suite, word for word, and host_vars that lead its hosts to the lab."""
    (directory / "lab.yaml").write_text(find_blocks("yaml")[0])
    (directory / "mine.yaml").write_text(find_blocks("yaml")[1])
    aliases = [host.alias for host in load_inventory(directory / "lab.yaml").hosts]
    (directory / "host_vars").mkdir()
    for alias, host in zip(aliases, hosts, strict=True):
        options = f"-F none -o UserKnownHostsFile={directory}/known_hosts -o GlobalKnownHostsFile=/dev/null"
        variables = {
            "ansible_host": host.address,
            "ansible_port": host.port,
            "ansible_user": host.user,
            "ansible_ssh_private_key_file": str(host.private_key),
            "ansible_ssh_common_args": options,
            "fleet_image": image,
            "fleet_devices": "cpu",
            "fleet_ulimits": {},
            "fleet_ipc": "private",
            "fleet_workdir": str(host.workdir),
        }
        (directory / "host_vars" / f"{alias}.yml").write_text(yaml.safe_dump(variables))


@pytest.mark.needs("ssh", "docker")
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("isolated_home")
def test_every_command_of_fleet_works_in_the_order_of_the_readme(
    lab_hosts: LabHosts, tensorflow_image: str, checkout: Path, workspace: Path
) -> None:
    hosts = lab_hosts(3)
    prepare_hosts(workspace, hosts, tensorflow_image)
    commands = [line for line in find_commands() if line.startswith("fleet ")]

    for line in commands:
        done = run_line(line, workspace, checkout, stdin="yes\n")
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    used = {line.split()[1] for line in commands}
    assert used == {
        "run",
        "report",
        "compare",
        "outliers",
        "trend",
        "incidents",
        "baseline",
        "runs",
        "ping",
        "push-image",
        "hosts",
        "models",
        "schema",
        "status",
        "clean",
        "reindex",
    }
    keys = [f"{host.address} {host.host_key}" for host in hosts]
    assert (workspace / "known_hosts").read_text().splitlines() == keys
    assert [pong["status"] for pong in json.loads((workspace / "ping.json").read_text())["hosts"]] == ["ok"] * 3
    check_run_directory(workspace / "reports")


def check_run_directory(reports: Path) -> None:
    """The README names every file of a run, and no other."""
    (layout,) = find_blocks("text")
    named = set(re.findall(r"[\w<>-]+\.(?:jsonl?|log|pyz|html)|hosts/(?=<)|latest", layout))
    run = (reports / "latest").resolve()
    there = {f"{path.name}/" if path.is_dir() else path.name for path in run.iterdir()}
    assert named == there | {"host.json", "journal.jsonl", "latest"}
    assert all((host / "host.json").is_file() for host in (run / "hosts").iterdir())


@pytest.mark.needs("make")
def test_the_commands_of_make_are_there(checkout: Path) -> None:
    commands = [line for line in find_commands() if line.startswith("make ")]

    assert commands == ["make demo", "make test"]
    for line in commands:
        done = run_line(line.replace("make", "make -n"), checkout, checkout)
        assert done.returncode == 0, done.stderr
        steps = done.stdout
        if line == "make demo":
            assert "fleet run --inventory inventories/localhost.yaml --suite smoke" in steps
            assert "fleet is here: .venv/bin/fleet." in steps.splitlines()[-1]
        else:
            assert re.search(r"ruff check.*mypy.*pytest", steps, re.DOTALL)
    assert run_line("make -n pictures", checkout, checkout).returncode == 0


def test_every_other_command_is_held_elsewhere() -> None:
    others = [line for line in find_commands() if not line.startswith(("fleet ", "make ", BY_HAND))]

    assert others == list(FOR_OTHERS)


@pytest.mark.needs("tensorflow")
def test_the_benchmark_runs_by_hand(checkout: Path) -> None:
    (line,) = (line for line in find_commands() if line.startswith(BY_HAND))
    done = run_line(line, checkout, checkout)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^total images/sec: \d+\.\d\d$", done.stdout, re.MULTILINE)


def test_the_inventories_can_be_planned(checkout: Path, workspace: Path) -> None:
    (workspace / "lab.yaml").write_text(find_blocks("yaml")[0])
    for inventory in ("lab.yaml", *re.findall(r"`(inventories/[\w.]+)`", README)):
        path = inventory if inventory == "lab.yaml" else str(checkout / inventory)
        done = run_line(f"fleet run -i '{path}' --dry-run --json", workspace, checkout)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["hosts"]


def test_commands_and_options_are_those_of_help() -> None:
    known = {name for name in list_commands() if name not in {"hosts", "baseline"}}
    known |= {f"{group} {name}" for group in GROUPS for name in list_commands(group)}
    helps = {command: show_help(*command.split()) for command in known} | {"": show_help()}
    mentions = [line for line in find_commands() if line.startswith("fleet ")] + re.findall(r"`(fleet [^`]+)`", README)

    used = set()
    for mention in mentions:
        words = re.split(r" \||>", mention)[0].split()
        deep = words[1] in GROUPS and len(words) > 2 and words[2][0] != "-"
        command = " ".join(words[1:3] if deep else [word for word in words[1:2] if word[0] != "-"])
        assert command in helps, mention
        used.add(command)
        for option in (word for word in words if re.match("--?[a-z]", word)):
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", helps[command]), mention
    assert used == helps.keys()
    ours = re.sub(r"`docker run [^`]*`|`--ipc=host`|`make [^`]*`|--cpuset-cpus", "", README)
    by_hand = [sys.executable, "-m", "payload", "--help"]
    helps["payload"] = subprocess.run(by_hand, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    everything = " ".join(helps.values())
    assert set(re.findall(r"--[a-z][a-z_-]+", ours)) <= set(re.findall(r"--[a-z][a-z_-]+", everything))
    assert set(re.findall(r"`(FLEET_[A-Z]+)`", README)) == set(re.findall(r"FLEET_[A-Z]+", everything))


def test_every_setting_is_in_the_table_with_its_default() -> None:
    shown = {name: yaml.safe_load(default) for name, default, _ in find_rows("setting")}

    expected = json.loads(Settings().model_dump_json())
    assert shown == {f"fleet_{name}": default for name, default in expected.items()}


def test_every_rule_of_a_suite_is_in_the_table_with_its_default_and_unit() -> None:
    shown = {name: (yaml.safe_load(default), unit) for name, default, unit, _ in find_rows("rule")}

    units = {name: "seconds" if name.endswith("_s") else "steps" for name in Rules.model_fields}
    units |= {"ci_target": "part", "intra_threads": "threads", "inter_threads": "threads"}
    units |= {"compat": "—", "numa_node": "—"}
    assert shown == {name: (default, units[name]) for name, default in Rules().model_dump().items()}


def test_the_suite_of_the_readme_is_read_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(find_blocks("yaml")[1])
    suite = load_suite(str(tmp_path / "mine.yaml"), read_models())

    assert (suite.name, suite.rules) == ("mine", Rules(min_s=30, max_s=60))
    assert (len(suite.cells_for("gpu")), len(suite.cells_for("cpu"))) == (8, 2)
    assert {name for name, _ in find_rows("suite")} == {shipped.name for shipped in list_suites()}
    assert (ROOT / "fleet" / "suites").is_dir()


def test_the_exit_codes_are_those_that_fleet_has_in_order_of_priority() -> None:
    sources = [path.read_text() for path in (ROOT / "fleet").rglob("*.py") if path.name != "errors.py"]
    used = {ExitCode[name] for text in sources for name in re.findall(r"\bExitCode\.([A-Z]+)\b", text)}
    raised = {"ConfigError": ExitCode.USAGE, "SelectionError": ExitCode.NOTHING, "LockedError": ExitCode.LOCKED}
    used |= {code for name, code in raised.items() if any(f"{name}(" in text for text in sources)}
    used |= {ExitCode.INTERNAL}  # of FleetError itself, and Python's own for what nobody foresaw

    assert [int(row[0]) for row in find_rows("code")] == [code for code in PRIORITY if code in used]


def test_links_and_pictures_lead_somewhere(checkout: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)

    assert "docs/report.svg" in targets
    for target in targets:
        assert (checkout / target).is_file(), target
    picture = (checkout / "docs" / "report.svg").read_text(encoding="utf-8")
    assert "@font-face" not in picture
    assert "systemctl" in picture
