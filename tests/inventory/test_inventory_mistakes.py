"""Every mistake is one sentence that says where it is, whose it is, and where possible what was meant."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fleet.errors import ConfigError
from fleet.inventory.loader import load_inventory


def refusal(directory: Path, text: str | bytes, name: str = "lab.yaml") -> tuple[int | None, str, str]:
    """Line, message and hint."""
    (directory / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as error:
        load_inventory(directory / name)
    assert error.value.file == str(directory / name)
    assert re.fullmatch(r"[^\x00-\x1f]+", str(error.value)), "one line, nothing that a terminal acts on"
    return error.value.line, error.value.message, error.value.hint


HOST = "all:\n  hosts:\n    gpu03:\n      {}\n"

VARIABLES = [
    ("fleet_imgae: x", "host gpu03: fleet_imgae is not a setting", "did you mean fleet_image?"),
    ("fleet_: x", "fleet_ is not a setting", "did you mean fleet_"),
    ('"fleet_\\x1b[2J": x', "is not a setting", ""),
    ("fleet_image:", "fleet_image has no value", "remove the line"),
    ("fleet_image: no", "fleet_image is a truth value: YAML reads no as false", "'no'"),
    ("fleet_image: [a]", "fleet_image must be the name of a container image", ""),
    ("fleet_image: {a: b}", "fleet_image must be the name of a container image", ""),
    ("fleet_image: -rm", "fleet_image must be", ""),
    ("fleet_image: $(reboot)", "fleet_image must be", ""),
    ("fleet_image: '{{ image }}'", "fleet_image is a template", "write the value itself"),
    ("fleet_image: {{ image }}", "fleet_image is a template", "write the value itself"),
    ("fleet_image: !vault x", "fleet_image has the tag !vault", "unencrypted"),
    ("fleet_image: !unsafe x", "fleet_image has the tag !unsafe", ""),
    ("fleet_image: 2024-13-45", "fleet_image cannot be read", "quotes"),
    ("fleet_image: !!timestamp x", "fleet_image cannot be read", "quotes"),
    ('fleet_devices: !!int ""', "fleet_devices cannot be read", "quotes"),
    ("fleet_devices: !!bool x", "fleet_devices cannot be read", "quotes"),
    ('fleet_image: "a\\x1b[2Jb"', "fleet_image holds the control character U+001B", "remove it"),
    ('fleet_image: "a\\nb"', "fleet_image holds the control character U+000A", ""),
    ("fleet_runtime: dokcer", "fleet_runtime must be docker or native; it is 'dokcer'", "did you mean docker?"),
    ("fleet_runtime_args: --cpus 2", "fleet_runtime_args must be a list of texts", 'write ["--cpus", "2"]'),
    ("fleet_runtime_args: [--init, 7]", "fleet_runtime_args must be a list of texts", ""),
    ("fleet_runtime_args: [--init, ~]", "fleet_runtime_args has no value", ""),
    ("fleet_devices: 0", "a number of GPUs is from 1 to 1024", ""),
    ("fleet_become: maybe", "fleet_become must be true or false; it is 'maybe'", ""),
    ("fleet_become: ture", "fleet_become must be true or false", "did you mean true?"),
    ("fleet_become: 2", "fleet_become must be true or false; it is 2", ""),
    ("fleet_become: '{{ x }}'", "fleet_become is a template", ""),
    ("fleet_become:", "fleet_become has no value", ""),
    ("fleet_devices: yes", "fleet_devices is a truth value", "'yes'"),
    ("fleet_devices: gpu", "fleet_devices must be cpu, all, a number of GPUs, or a list", "write all for every GPU"),
    ("fleet_devices: CPU", "it is 'CPU'", "did you mean cpu?"),
    ('fleet_devices: "0,1"', "it is '0,1'", "write [0, 1]"),
    ("fleet_devices: GPU-ab, GPU-cd", "fleet_devices must be", "write [GPU-ab, GPU-cd]"),
    ("fleet_devices: [0, 1, 0]", "0 is in the list more than once", ""),
    ("fleet_image: x@sha256:abc", "what follows the @ is no digest: sha256: and 64 digits", ""),
    ("fleet_image: x@", "what follows the @ is no digest", ""),
    ("fleet_devices: 010", "fleet_devices is not what it looks like: YAML reads 010 as 8", "quotes"),
    ("fleet_devices: [1:0]", "YAML reads 1:0 as 60", "quotes"),
    ("fleet_devices: [0, x]", "'x' is neither a GPU index nor a UUID", ""),
    ("fleet_devices: []", "the list of GPUs is empty", ""),
    ("fleet_workdir: ~", "fleet_workdir has no value", ""),
    ("fleet_workdir: tmp/x", "fleet_workdir must be an absolute path", ""),
    ("fleet_ulimits: memlock=-1", "fleet_ulimits must be a mapping", ""),
    ("fleet_ulimits: {a: 1, a: 2}", "fleet_ulimits: a is here twice", ""),
    ("ansible_port: 0", "host gpu03: ansible_port must be a number from 1 to 65535, not `0`", ""),
    ("ansible_port: 70000", "ansible_port must be a number from 1 to 65535", ""),
    ("ansible_port: abc", "ansible_port must be a number from 1 to 65535", ""),
    ("ansible_port: 22.5", "ansible_port must be one text", ""),
    ("ansible_port: 22:22", "YAML reads 22:22 as 1342", ""),
    ("ansible_port: true", "ansible_port is a truth value", ""),
    ("ansible_port: [22]", "ansible_port must be one text, not a list", ""),
    ("ansible_port:", "ansible_port has no value", ""),
    ("ansible_connection: winrm", "ansible_connection must be ssh or local, not `winrm`", ""),
    ("ansible_connection: locla", "ansible_connection must be ssh or local", "did you mean local?"),
    ("ansible_user: -oProxyCommand=x", "ansible_user `-oProxyCommand=x` is not the name of a user", ""),
    ("ansible_user: a b", "is not the name of a user", ""),
    ("ansible_user: $(id)", "is not the name of a user", ""),
    ("ansible_user: ''", "is not the name of a user", ""),
    ("ansible_host: -oProxyCommand=x", "ansible_host `-oProxyCommand=x` begins with `-`", ""),
    ("ansible_host: $(touch x)", "is not a host name", ""),
    ("ansible_host: a..b", "is not a host name", ""),
    ("ansible_host: ../../x", "is not a host name", ""),
    ("ansible_host: gpu 03", "is not a host name", ""),
    ('ansible_host: "gpu\\n03"', "holds the control character U+000A", ""),
    ("ansible_host: gpu-", "is not a host name", ""),
    ("ansible_host: ''", "is empty", ""),
    ("ansible_host: '[::1]:22'", "set the port with ansible_port", ""),
    ("ansible_host: gpu03:22", "set the port with ansible_port", ""),
    ("ansible_host: bob@gpu03", "set ansible_user", ""),
    ("ansible_host: fd00::1::2", "is not an IPv6 address", ""),
    ("ansible_host: 'fe80::1%$(x)'", "zone", ""),
    ("ansible_host: 10.0.0.300", "is not an IPv4 address", ""),
    ("ansible_host: größe.lab", "xn--", ""),
    (f"ansible_host: {'a' * 64}.lab", "longer than 63 characters", ""),
    (f"ansible_host: {'a.' * 130}lab", "longer than 253 characters", ""),
    ("ansible_ssh_private_key_file: $HOME/.ssh/x", "shell variables are not expanded", "`~` is your home"),
    ("ansible_ssh_private_key_file: ''", "ansible_ssh_private_key_file is empty", ""),
    ("ansible_private_key_file: ~no-such-user/x", "the home of a user who is not known", ""),
    ("ansible_ssh_common_args: -o 'x", "ansible_ssh_common_args cannot be split into arguments", "close every quote"),
    ("ansible_ssh_extra_args: [-4]", "ansible_ssh_extra_args must be one text, not a list", ""),
]


@pytest.mark.parametrize(("variable", "words", "advice"), VARIABLES, ids=[v[0][:40] for v in VARIABLES])
def test_a_wrong_variable(tmp_path: Path, variable: str, words: str, advice: str) -> None:
    line, message, hint = refusal(tmp_path, HOST.replace("{}", variable))
    assert line == 4
    assert message.startswith("host gpu03: ")
    assert words in message and advice in hint


STRUCTURE = [
    ("- gpu01\n", 1, "the top level must be a mapping of groups", ""),
    ("", None, "is empty", "all:"),
    ("# nothing\n", None, "is empty", ""),
    ("all:\n  hosts:\n    - gpu01\n", 2, "group all: hosts must be a mapping, not a list", "`gpu01:`"),
    ("all:\n  hosts: 7\n", 2, "group all: hosts must be a mapping, not `7`", ""),
    ("all:\n  hosts: a b\n", 2, "host 'a b': is not a name", ""),
    ("all:\n  children: [gpu]\n", 2, "group all: children must be a mapping, not a list", ""),
    ("all:\n  vars: fleet_image\n", 2, "group all: vars must be a mapping", ""),
    ("all:\n  vars: [a]\n", 2, "group all: vars must be a mapping, not a list", ""),
    ("all: gpu01\n", 1, "group all: must be a mapping with hosts, children or vars, not `gpu01`", ""),
    ("all:\n  hosts:\n    gpu01: fast\n", 3, "host gpu01: must be a mapping of variables or nothing", ""),
    ("all:\n  host:\n    gpu01:\n", 2, "group all: host is not one of hosts, children, vars", "did you mean hosts?"),
    ("all:\n  gpu:\n    hosts: {a: }\n", 2, "group all: gpu is not one of", "under `children:`"),
    ("hosts:\n  gpu01:\n", 2, "group hosts: gpu01 is not one of", "write `all:` above"),
    ("all:\n  hosts:\n    gpu01:\n    gpu01:\n", 4, "gpu01 is here twice, first on line 3", "keep one"),
    ("a: {hosts: {x: }}\nb:\na:\n", 3, "a is here twice, first on line 1", ""),
    ("a:\n  vars:\n    k: 1\n    k: 2\n", 4, "group a: k is here twice", ""),
    ("a:\n  hosts:\n    n[1:4]:\n    n[3:6]:\n", 4, "host n3: is in n[1:4] and again in n[3:6]", ""),
    ("a:\n  hosts:\n    n[1:1]:\n    n[1:2]:\n", 4, "host n1: is in n[1:1] and again", ""),
    ("a:\n  hosts:\n    gpu[01:100]:\n", 3, "group a: host 'gpu[01:100]': begin and end", ""),
    ("a:\n  hosts:\n    10:\n", 3, "must be a text; YAML does not read `10` as text", "quotes"),
    ("a:\n  hosts:\n    on:\n", 3, "must be a text; YAML does not read `on` as text", "quotes"),
    ("a:\n  hosts:\n    ? [x]\n    :\n", 3, "must be a text", ""),
    ("a:\n  hosts:\n    -oProxy:\n", 3, "begins with `-`", ""),
    ("a:\n  hosts:\n    ../../x:\n", 3, "has `..` in it", ""),
    ("a:\n  hosts:\n    a..b:\n", 3, "has `..` in it", ""),
    ("a:\n  hosts:\n    $(touch x):\n", 3, "is not a name", ""),
    ('a:\n  hosts:\n    "a\\nb":\n', 3, "is not a name", ""),
    ("a:\n  hosts:\n    '::1':\n", 3, "is not a name", ""),
    (
        "a:\n  hosts:\n    bob@gpu01:\n",
        3,
        "host bob@gpu01: its name is what it would be reached by",
        "set ansible_host",
    ),
    ("a:\n  hosts:\n    gpu01:70000:\n", 3, "ansible_port must be a number from 1 to 65535", ""),
    ("1:\n  hosts:\n", 1, "the name of a group must be a text", "quotes"),
    ("../x:\n  hosts:\n", 1, "is not a name", ""),
    ("-a:\n  hosts:\n", 1, "is not a name", ""),
    ("a:\n  children:\n    a:\n", 3, "group a: contains itself", ""),
    (
        "a:\n  children: {b: }\nb:\n  children: {c: }\nc:\n  children:\n    a:\n",
        7,
        "group c: a cannot be its child",
        "",
    ),
    ("a:\n  children:\n    all:\n", None, "`all` cannot be its child", ""),
    ("a:\n  vars:\n    ansible_group_priority: high\n", 3, "ansible_group_priority must be a whole number", ""),
    ("a:\n  vars:\n    fleet_devises: 3\n", 3, "group a: fleet_devises is not a setting", "fleet_devices"),
    ("a:\n  vars:\n    fleet_devices: 0\n", 3, "group a: fleet_devices must be", ""),
    ("a:\n  <<: 7\n", 2, "`<<` needs a mapping", ""),
    ("plugin: aws_ec2\n", 1, "is the configuration of an inventory plugin", "ansible-inventory"),
    ('{"_meta": {"hostvars": {}}}\n', 1, "is what an inventory script prints", "--yaml"),
    ("[gpu]\ngpu01\n", None, "is an INI inventory", "ansible-inventory -i"),
    ("gpu01 ansible_host=192.0.2.1\n", None, "is an INI inventory", "ansible-inventory -i"),
    ("#!/usr/bin/env python3\n", 1, "is a script", "ansible-inventory -i"),
    ("all:\n  hosts:\n\tgpu01:\n", 3, "is not valid YAML", "not with tabs"),
    ("all:\n  hosts: {gpu01\n", 3, "is not valid YAML", ""),
    ("all:\n  hosts:\n    a:\n   b:\n", 4, "is not valid YAML", "check the indentation of this line"),
    ("all:\n  hosts:\n    a:\n      k: 1\n        m: 2\n", 5, "is not valid YAML", "check the indentation"),
    ("all: *nobody\n", 1, "is not valid YAML: found undefined alias", ""),
    ("a:\n---\nb:\n", 2, "is not valid YAML: expected a single document", ""),
    ("all:\n  hosts:\n    \x07:\n", 3, "holds the control character U+0007", ""),
    (b"all:\n  hosts:\n    gr\xfc:\n", 3, "is not UTF-8 text", ""),
    ("all:\n  vars: &a\n    x: *a\n", 2, "stands inside its own anchor", ""),
    ("all: " + "[" * 5000 + "]" * 5000, None, "nested too deeply", ""),
]


@pytest.mark.parametrize(("text", "where", "words", "advice"), STRUCTURE, ids=[repr(s[0][:40]) for s in STRUCTURE])
def test_a_wrong_structure(tmp_path: Path, text: str | bytes, where: int | None, words: str, advice: str) -> None:
    line, message, hint = refusal(tmp_path, text)
    assert words in message and advice in hint
    assert line == where


def test_a_variable_that_would_not_be_read_is_a_warning_once(tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "gpu.yml").write_text("ansible_ssh_pass: '{{ secret }}'\n")
    (tmp_path / "lab.yaml").write_text(
        "gpu:\n"
        "  vars:\n"
        "    ansible_usr: bench\n"
        "    ansible_become_user: root\n"
        "    ansible_become: true\n"
        "    ansible_sftp_extra_args: -4\n"
        "  hosts:\n"
        "    gpu[01:03]:\n"
        "      ansible_password: !vault x\n"
        "      ansible_become: false\n"
        "      ansible_become_password: x\n"
        "      ansible_prot: 22\n"
    )
    path = tmp_path / "lab.yaml"
    asks = "is not used: fleet asks for a password, with"
    assert load_inventory(path).warnings == (
        f"{path}:3: group gpu: ansible_usr is left alone; did you mean ansible_user?",
        f"{path}:5: group gpu: ansible_become is not used:"
        " what makes fleet work as root on a host is fleet_become: true",
        f"{tmp_path}/group_vars/gpu.yml:1: group gpu: ansible_ssh_pass {asks} --ask-pass",
        f"{path}:9: host gpu01: ansible_password {asks} --ask-pass",
        f"{path}:11: host gpu01: ansible_become_password {asks} --ask-become-pass",
        f"{path}:12: host gpu01: ansible_prot is left alone; did you mean ansible_port?",
    )
    path.write_text(path.read_text() + "      fleet_become: true\n")
    assert not [warning for warning in load_inventory(path).warnings if "ansible_become is" in warning]


def test_a_digest_pins_an_image(tmp_path: Path) -> None:
    image = f"lab.example.org:5000/tensorflow@sha256:{'0a' * 32}"
    (tmp_path / "lab.yaml").write_text(HOST.replace("{}", f"fleet_image: {image}"))
    assert load_inventory(tmp_path / "lab.yaml").hosts[0].settings.image == image


@pytest.mark.parametrize(
    ("missing", "hint"),
    [("lab.yml", "did you mean {}/lab.yaml?"), ("lba.yaml", "did you mean {}/lab.yaml?"), ("other.yaml", "")],
)
def test_a_missing_file_with_a_neighbour(tmp_path: Path, missing: str, hint: str) -> None:
    (tmp_path / "lab.yaml").write_text(HOST)
    with pytest.raises(ConfigError, match="no such file") as error:
        load_inventory(tmp_path / missing)
    assert error.value.hint == hint.format(tmp_path)


def test_an_alias_bomb(tmp_path: Path) -> None:
    levels = "\n".join(f"  v{n}: &v{n} [{', '.join([f'*v{n - 1}'] * 10)}]" for n in range(1, 30))
    _, message, _ = refusal(tmp_path, f"x:\n  v0: &v0 [lol]\n{levels}\n")
    assert "once its aliases are followed" in message


def test_a_long_chain_of_aliases(tmp_path: Path) -> None:
    chain = "\n".join(f"    v{n}: &v{n} {{a: *v{n - 1}}}" for n in range(1, 900))
    text = f"x:\n  vars:\n    v0: &v0 {{}}\n{chain}\n    fleet_ulimits: *v899\n"
    assert "nested too deeply" in refusal(tmp_path, text)[1]


def test_a_long_chain_of_groups(tmp_path: Path) -> None:
    chain = "\n".join(f"g{n}: {{children: {{g{n - 1}: }}}}" for n in range(1, 1200))
    assert "nested too deeply" in refusal(tmp_path, f"{chain}\n")[1]


def test_too_many_hosts_in_all(tmp_path: Path) -> None:
    hosts = "".join(f"    n{n}-[1:60000]:\n" for n in range(3))
    assert refusal(tmp_path, f"a:\n  hosts:\n{hosts}")[:2] == (4, "the inventory has more than 100000 hosts")


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    assert "larger than 10 MB" in refusal(tmp_path, b"#" * 10_000_001)[1]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing.yaml", "no such file"),
        (".", "is a directory"),
        ("x" * 300, "cannot be read"),
        ("a\0b", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, path: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_inventory(tmp_path / path)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("group_vars/gpu.yml", "a: 1\nfleet_devises: 2\n", ":2: group gpu: fleet_devises is not a setting"),
        ("group_vars/nobody.yml", "\nfleet_image: no\n", ":2: group nobody: fleet_image is a truth value"),
        ("group_vars/all/x", "- a\n", ":1: group all: must be a mapping of variables, not a list"),
        ("host_vars/gpu01.json", '{"ansible_port": 0}', ":1: host gpu01: ansible_port must be"),
        ("host_vars/gpu01", "a: [\n", ":2: is not valid YAML"),
    ],
)
def test_a_mistake_in_a_vars_file_names_that_file(tmp_path: Path, file: str, text: str, words: str) -> None:
    inventory = tmp_path / "lab.yaml"
    inventory.write_text("gpu: {hosts: {gpu01: }}\nnobody:\n", encoding="utf-8")
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_inventory(inventory)
    assert str(error.value).startswith(str(tmp_path / file) + words)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("fleet_workdir: ~root", "must be an absolute path or one that begins with ~/"),
        ("fleet_workdir: ~root/x", "must be an absolute path or one that begins with ~/"),
        ("fleet_workdir: /data/../etc", "it may not go up with .."),
        ("fleet_workdir: ~/..", "it may not go up with .."),
        ('fleet_ulimits: {"--x": 1}', "'--x' is not the name of a limit"),
        ("fleet_ulimits: {Memlock: 1}", "'Memlock' is not the name of a limit"),
        ("fleet_ulimits: {memlock: unlimited}", "memlock is 'unlimited'; it takes a whole number"),
        ("fleet_ulimits: {nofile: '1:2:3'}", "nofile is '1:2:3'; it takes a whole number"),
    ],
)
def test_a_setting_that_the_host_would_take_otherwise(tmp_path: Path, setting: str, words: str) -> None:
    inventory = tmp_path / "lab.yaml"
    inventory.write_text(f"all:\n  vars:\n    {setting}\n  hosts: {{gpu01: }}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_inventory(inventory)
    assert str(error.value).startswith(f"{inventory}:3: group all: fleet_")
    assert words in str(error.value)


def test_settings_at_their_edges_are_taken(tmp_path: Path) -> None:
    inventory = tmp_path / "lab.yaml"
    settings = "fleet_workdir: /data/a..b/~x, fleet_ulimits: {memlock: -1, nofile: '1024:-1'}"
    inventory.write_text(f"all: {{hosts: {{gpu01: {{{settings}}}}}}}\n", encoding="utf-8")
    (host,) = load_inventory(inventory).hosts
    assert host.settings.workdir == "/data/a..b/~x"
    assert host.settings.ulimits == {"memlock": "-1", "nofile": "1024:-1"}


@pytest.mark.timeout(20)
def test_a_pipe_is_no_vars_file(tmp_path: Path) -> None:
    inventory = tmp_path / "lab.yaml"
    inventory.write_text("all: {hosts: {gpu01: }}\n", encoding="utf-8")
    (tmp_path / "group_vars").mkdir()
    os.mkfifo(tmp_path / "group_vars/all.yml")
    with pytest.raises(ConfigError, match=r"group_vars/all\.yml: is neither a file nor a directory"):
        load_inventory(inventory)
