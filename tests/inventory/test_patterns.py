"""Patterns as people write them, right and wrong. What Ansible selects is compared in test_ansible_agreement."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import ConfigError, SelectionError
from fleet.inventory.patterns import select_hosts
from fleet.model.inventory import Host, Inventory

ALIASES = ("gpu01", "gpu02", "gpu03", "gpu10", "cpu1", "fd00::1", "fd00::2")
INVENTORY = Inventory(
    path="lab.yaml",
    hosts=tuple(Host(alias=alias) for alias in ALIASES),
    groups={
        "all": ALIASES,
        "gpu": ("gpu10", "gpu01", "gpu02", "gpu03"),
        "cpu": ("cpu1",),
        "ungrouped": (),
        "spare": (),
    },
)


def select(pattern: str | None) -> list[str]:
    return [host.alias for host in select_hosts(INVENTORY, pattern)]


@pytest.mark.parametrize(
    ("pattern", "aliases"),
    [
        (None, list(ALIASES)),
        ("cpu,gpu", ["gpu01", "gpu02", "gpu03", "gpu10", "cpu1"]),  # the order of the file, not of the pattern
        ("!gpu03:gpu", ["gpu01", "gpu02", "gpu10"]),
        ("gpu[0]", ["gpu10"]),  # the order of the group
        ("gpu[-1]", ["gpu03"]),
        ("gpu[1:]:!gpu02", ["gpu01", "gpu03"]),
        ("gpu0[1-2]", ["gpu01", "gpu02"]),
        ("fd00::1", ["fd00::1"]),
        ("!fd00::1,!gpu,!cpu1", ["fd00::2"]),
        ("!fd00::1", [a for a in ALIASES if a != "fd00::1"]),
        ("fd00::*,", ["fd00::1", "fd00::2"]),
        ("spare:cpu", ["cpu1"]),
        ("cpu:!spare", ["cpu1"]),
        (r"~.pu\d$", ["cpu1"]),
    ],
)
def test_a_pattern_selects(pattern: str | None, aliases: list[str]) -> None:
    assert select(pattern) == aliases


@pytest.mark.parametrize(
    ("pattern", "words", "advice"),
    [
        ("gpu04", "`gpu04` matches no host or group of lab.yaml", "did you mean gpu"),
        ("gpu:!gpo03", "`gpo03` matches no host or group", "did you mean gpu03?"),
        ("gpu:&zzz", "`zzz` matches no host or group", "ungrouped; the hosts are gpu01, gpu02,"),
        ("x*", "`x*` matches no host", ""),
        ("~x", "`~x` matches no host", ""),
        ("gpu[4]", "`gpu[4]` selects nothing: `gpu` has 4 hosts", ""),
        ("gpu[-5]", "`gpu[-5]` selects nothing", ""),
        ("gpu[3:1]", "`gpu[3:1]` selects nothing", ""),
        ("gpu[1-3]", "`gpu[1-3]` matches no host or group", "write gpu[1:3]"),
        ("gqu[0]", "`gqu[0]` matches no host or group", "did you mean gpu?"),
        ("gpu0[1:2]", "`gpu0[1:2]` matches no host or group", "and gpu0 is none; by name it is gpu01,gpu02"),
        ("node[1:2]", "`node[1:2]` matches no host or group", "[1:2] counts the hosts of a group, and node is none"),
        ("gpu:!gpu", "selects no host", "takes every host away"),
        ("spare", "selects no host", "the group has no hosts"),
        ("", "the pattern is empty", "leave it out"),
        (" , ", "the pattern is empty", ""),
    ],
)
def test_a_pattern_that_selects_nothing_says_why(pattern: str, words: str, advice: str) -> None:
    with pytest.raises(SelectionError) as error:
        select(pattern)
    assert words in error.value.message and advice in error.value.hint


def test_a_wrong_regular_expression() -> None:
    with pytest.raises(ConfigError, match=r"`~gpu\(` is not a regular expression"):
        select("~gpu(")


def test_an_inventory_without_hosts() -> None:
    with pytest.raises(SelectionError, match="names no host"):
        select_hosts(Inventory(path="lab.yaml", hosts=(), groups={"all": ()}), None)


def test_patterns_from_a_file(tmp_path: Path) -> None:
    retry = tmp_path / "failed.retry"
    retry.write_text("gpu01\r\n\n fd00::2\n", encoding="utf-8")
    assert select(f"@{retry}") == ["gpu01", "fd00::2"]
    assert select(f"@{retry}:!gpu01") == ["fd00::2"]
    retry.write_text("", encoding="utf-8")
    with pytest.raises(SelectionError, match="the pattern is empty"):
        select(f"@{retry}")


@pytest.mark.parametrize("name", ["missing", ".", "binary"])
def test_a_file_of_patterns_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="the patterns cannot be read"):
        select(f"@{tmp_path / name}")
