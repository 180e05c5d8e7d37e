"""fleet and Ansible read oracle/lab.yaml alike: recorded.json is what ansible-core 2.19 printed (record_ansible.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import SelectionError
from fleet.inventory.documents import read_document
from fleet.inventory.hosts import read_tree
from fleet.inventory.loader import load_inventory
from fleet.inventory.patterns import select_hosts
from fleet.inventory.variables import VariableFiles, merge_variables

ORACLE = Path(__file__).parent / "oracle"
RECORDED: dict[str, Any] = json.loads((ORACLE / "recorded.json").read_text(encoding="utf-8"))


def test_variables_are_merged_as_ansible_merges_them() -> None:
    merged = merge_variables(read_tree(read_document(ORACLE / "lab.yaml")), VariableFiles(ORACLE))
    ours = {alias: {key: v.read() for key, v in variables.items()} for alias, variables in merged.items()}
    # ansible_port as a part of the name is a number to Ansible and still a text to us; both become Connection.port.
    for variables in [*ours.values(), *RECORDED["hostvars"].values()]:
        if "ansible_port" in variables:
            variables["ansible_port"] = int(variables["ansible_port"])
    assert ours == RECORDED["hostvars"]


def test_ports_and_addresses_reach_the_connection() -> None:
    inventory = load_inventory(ORACLE / "lab.yaml")
    found = {h.alias: (h.connection.port, h.connection.host) for h in inventory.hosts}
    recorded = RECORDED["hostvars"]
    assert found == {a: (v.get("ansible_port"), v.get("ansible_host")) for a, v in recorded.items()}


@pytest.mark.parametrize("pattern", sorted(RECORDED["selected"]))
def test_a_pattern_selects_what_ansible_selects(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ORACLE)
    inventory = load_inventory(Path("lab.yaml"))
    recorded = RECORDED["selected"][pattern]
    if not recorded:
        with pytest.raises(SelectionError):
            select_hosts(inventory, pattern)
        return
    selected = [host.alias for host in select_hosts(inventory, pattern)]
    assert sorted(selected) == sorted(recorded)
    order = [host.alias for host in inventory.hosts]
    assert selected == sorted(selected, key=order.index)


@pytest.mark.parametrize("group", ["all", "gpu", "a100", "v100", "east", "west", "zone", "alpha", "ungrouped", "empty"])
def test_a_group_holds_its_hosts_in_ansibles_order(group: str) -> None:
    inventory = load_inventory(ORACLE / "lab.yaml")
    recorded = RECORDED["selected"][group]
    if group in ("all", "gpu", "zone"):  # two or more levels deep Ansible's own order changes from call to call
        assert sorted(inventory.groups[group]) == sorted(recorded)
    else:
        assert list(inventory.groups[group]) == recorded
    members = set(inventory.groups[group])
    assert group == "all" or members == {h.alias for h in inventory.hosts if group in h.groups}
