"""What is read, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import ConfigError
from fleet.inventory.loader import load_inventory
from fleet.inventory.settings import MEANINGS
from fleet.model.inventory import Connection, Host, Inventory, Settings

EXAMPLES = Path(__file__).parents[2] / "inventories"


def load(directory: Path, text: str, name: str = "lab.yaml") -> Inventory:
    (directory / name).write_text(text, encoding="utf-8")
    return load_inventory(directory / name)


def only_host(directory: Path, variables: str) -> Host:
    return load(directory, f"all: {{hosts: {{gpu01: {{{variables}}}}}}}").hosts[0]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda p: p.name)
def test_the_examples_load(path: Path) -> None:
    inventory = load_inventory(path)
    assert inventory.hosts and not inventory.warnings


def test_the_localhost_example_needs_neither_ssh_nor_a_container() -> None:
    (host,) = load_inventory(EXAMPLES / "localhost.yaml").hosts
    assert (host.alias, host.connection.kind, host.settings.runtime, host.settings.device) == (
        "localhost",
        "local",
        "native",
        "cpu",
    )


def test_the_lab_example_says_every_setting() -> None:
    text = (EXAMPLES / "lab.yaml").read_text(encoding="utf-8")
    assert [name for name in Settings.model_fields if f"fleet_{name}:" not in text] == []


def test_every_setting_has_its_meaning_in_words() -> None:
    assert set(MEANINGS) == set(Settings.model_fields)


def test_connection_variables(tmp_path: Path) -> None:
    host = only_host(
        tmp_path,
        "ansible_host: 'fe80::1%eth0', ansible_port: '2222', ansible_user: 'LAB\\bob', ansible_connection: smart,"
        " ansible_ssh_private_key_file: keys/lab, ansible_ssh_common_args: \"-o 'ProxyJump=a b'\","
        " ansible_ssh_extra_args: -4",
    )
    assert host.connection == Connection(
        host="fe80::1%eth0",
        port=2222,
        user="LAB\\bob",
        private_key_file=str(tmp_path / "keys/lab"),
        ssh_args=("-o", "ProxyJump=a b", "-4"),
    )
    assert host.source == f"{tmp_path / 'lab.yaml'}:1"


@pytest.mark.parametrize("kind", ["ssh", "smart", "paramiko", "ansible.builtin.ssh", "local", "ansible.builtin.local"])
def test_connection_kinds(tmp_path: Path, kind: str) -> None:
    expected = "local" if "local" in kind else "ssh"
    assert only_host(tmp_path, f"ansible_connection: {kind}").connection.kind == expected


def test_older_names_of_connection_variables(tmp_path: Path) -> None:
    text = "ansible_host: new, ansible_ssh_host: old, ansible_ssh_port: 22, ansible_ssh_user: bob"
    connection = only_host(tmp_path, text).connection
    assert (connection.host, connection.port, connection.user) == ("old", 22, "bob")  # Ansible, too, prefers the older


def test_a_key_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    connection = only_host(tmp_path, "ansible_private_key_file: ~/.ssh/lab").connection
    assert connection.private_key_file == "/home/ada/.ssh/lab"


def test_a_relative_path_stays_right_in_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    connection = only_host(Path(), "ansible_private_key_file: ../lab").connection
    assert connection.private_key_file == str(tmp_path / "../lab")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fleet_devices: 4", 4),
        ("fleet_devices: '4'", 4),
        ("fleet_devices: all", "all"),
        ("fleet_devices: [0, '1:0', GPU-5a]", ("0", "1:0", "GPU-5a")),
    ],
)
def test_devices(tmp_path: Path, text: str, expected: object) -> None:
    assert only_host(tmp_path, text).settings.devices == expected


def test_settings_of_group_and_host(tmp_path: Path) -> None:
    inventory = load(
        tmp_path,
        "gpu:\n  vars: {fleet_runtime_args: [--init], fleet_workdir: ~/x, fleet_ulimits: {}}\n"
        "  hosts:\n    a:\n    b: {fleet_runtime_args: []}\n",
    )
    a, b = (host.settings for host in inventory.hosts)
    assert (a.runtime_args, b.runtime_args) == (("--init",), ())
    assert a.workdir == b.workdir == "~/x" and dict(a.ulimits) == {}


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    inventory = load(
        tmp_path,
        "all:\n  vars:\n    secret: !vault |\n      $ANSIBLE_VAULT;1.1;AES256\n      6162\n"
        "    raw: !unsafe '{{ x }}'\n    text: '{{ y }}'\n    nothing:\n    7: seven\n    yes: on\n"
        "    nested: {a: {b: [~, no, 2024-13-45]}}\n    ansible_become: true\n  hosts:\n    gpu01:\n",
    )
    assert inventory.hosts[0].settings == Settings()


@pytest.mark.parametrize(
    ("written", "meant"),
    [("true", True), ("yes", True), ("On", True), ("'yes'", True), ("no", False), ("False", False)],
)
def test_become_is_a_truth_value_however_it_is_written(tmp_path: Path, written: str, meant: bool) -> None:
    text = f"all: {{vars: {{fleet_become: {written}}}, hosts: {{gpu01: , gpu02: {{fleet_become: false}}}}}}"
    first, second = load(tmp_path, text).hosts
    assert (first.settings.become, second.settings.become) == (meant, False)


def test_a_template_that_is_overridden_is_not_ours_to_judge(tmp_path: Path) -> None:
    text = "all: {vars: {ansible_user: '{{ me }}'}, hosts: {gpu01: {ansible_user: bob}}}"
    assert load(tmp_path, text).hosts[0].connection.user == "bob"


def test_an_encrypted_vars_file_is_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    secret = tmp_path / "group_vars" / "gpu.yml"
    secret.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n", encoding="utf-8")
    (warning,) = load(tmp_path, "gpu: {hosts: {gpu01: }}").warnings
    assert str(secret) in warning and "Vault" in warning


def test_an_encrypted_inventory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="encrypted with Ansible Vault"):
        load(tmp_path, "$ANSIBLE_VAULT;1.1;AES256\n6162\n")


def test_a_host_named_like_a_group_is_told(tmp_path: Path) -> None:
    (warning,) = load(tmp_path, "gate: {hosts: {gate: }}").warnings
    assert "gate is a host and a group" in warning


@pytest.mark.parametrize("prefix", ["\ufeff", "---\n", "# Größe\r\n"])
def test_marks_and_line_ends_do_not_matter(tmp_path: Path, prefix: str) -> None:
    assert load(tmp_path, f"{prefix}all:\r\n  hosts:\r\n    gpu01:\r\n").hosts[0].alias == "gpu01"


def test_json_with_tabs(tmp_path: Path) -> None:
    assert load(tmp_path, '{\n\t"all": {\n\t\t"hosts": {"gpu01": null}}\n}').hosts[0].alias == "gpu01"


def test_one_name_beside_a_range_gives_a_host_its_own(tmp_path: Path) -> None:
    inventory = load(tmp_path, "all: {hosts: {'gpu[01:03]': {fleet_devices: 2}, gpu02: {fleet_devices: 1}}}")
    assert [host.settings.devices for host in inventory.hosts] == [2, 1, 2]


@pytest.mark.parametrize("alias", ["fd00::1", "fe80::1%eth0", "192.0.2.1", "node_1.lab.example.org", "01"])
def test_aliases(tmp_path: Path, alias: str) -> None:
    inventory = load(tmp_path, f"all: {{hosts: {{'{alias}': {{ansible_host: gpu01}}}}}}")
    assert inventory.hosts[0].alias == alias


def test_a_host_with_a_very_long_name(tmp_path: Path) -> None:
    alias = ".".join(["x" * 62] * 4)  # host_vars/ALIAS.yaml would be too long for a file
    (tmp_path / "host_vars").mkdir()
    assert load(tmp_path, f"all: {{hosts: {{{alias}: }}}}").hosts[0].alias == alias


def test_a_thousand_hosts(tmp_path: Path) -> None:
    inventory = load(tmp_path, "gpu: {hosts: {'gpu[0001:1000]': {fleet_devices: 8}}}")
    assert len(inventory.hosts) == len(inventory.groups["gpu"]) == 1000
