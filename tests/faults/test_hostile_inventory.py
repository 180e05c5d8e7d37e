"""An inventory that somebody else may edit: what it says is refused with its line, or is text and no command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fleet.model.result import HostStatus
from tests.conftest import LabHosts, RunFleet
from tests.faults.conftest import TINY, FleetRun
from tests.faults.traces import find_traces
from tests.lab.inventory import write_inventory

TOUCH = "$(touch made)"
REFUSED = {
    "host": f'gpu01: {{ansible_host: "{TOUCH}"}}',
    "user": f'gpu01: {{ansible_user: "{TOUCH}"}}',
    "image": f'gpu01: {{fleet_image: "{TOUCH}"}}',
    "key": f'gpu01: {{ansible_ssh_private_key_file: "{TOUCH}"}}',
    "work_directory": f'gpu01: {{fleet_workdir: "/srv/{TOUCH}"}}',
    "option_as_host": "gpu01: {ansible_host: -oProxyCommand=touch made}",
    "option_as_name": "-oProxyCommand=touch: {}",
    "option_as_user": "gpu01: {ansible_user: -oProxyCommand=touch}",
    "line_end": 'gpu01: {ansible_host: "gpu01\\ntouch made"}',
    "path_as_name": "../../made: {}",
    "path_as_host": "gpu01: {ansible_host: ../../made}",
    "empty_label": "gpu01: {ansible_host: a..b}",
    "port": "gpu01: {ansible_port: 99999}",
    "port_in_host": "gpu01: {ansible_host: '[::1]:22'}",
    "zone": 'gpu01: {ansible_host: "fe80::1%$(touch made)"}',
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_value_is_refused_before_anything_is_done(name: str, workspace: Path, run_fleet: RunFleet) -> None:
    (workspace / "lab.yaml").write_text(f"all:\n  hosts:\n    {REFUSED[name]}\n")
    done = run_fleet("run", "-i", "lab.yaml", "--suite", "smoke", timeout_s=60)

    assert done.returncode == 2, done.stderr
    assert "lab.yaml:3: " in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in workspace.iterdir()] == ["lab.yaml"]


@pytest.mark.needs("ssh", "docker")
def test_what_may_be_any_text_is_text(lab_hosts: LabHosts, workspace: Path) -> None:
    host, other = lab_hosts(2)
    touch = f"touch {workspace}/made"
    words = ["--env", f"X=$({touch}) `{touch}`; {touch}", "--label", "x='\"$(id)"]
    overrides: dict[str, Mapping[str, object]] = {
        host.alias: {"fleet_runtime_args": words},
        other.alias: {"ansible_host": other.address6 or other.address},
    }
    inventory = write_inventory(workspace / "lab.yaml", [host, other], overrides=overrides)
    (workspace / "suite.yaml").write_text(TINY)
    run = FleetRun(workspace, inventory, workspace / "suite.yaml")
    code, _, err = run.wait(120)

    assert code == 0, err
    assert {run.outcome(one.alias).status for one in (host, other)} == {HostStatus.OK}
    assert find_traces(host) + find_traces(other) == []
    assert host.exec("find", "/", "-xdev", "-name", "made") == ""
    assert not list(workspace.rglob("made"))
