from __future__ import annotations

import re

import pytest

from fleet.inventory.ranges import expand_ranges, split_port


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("gpu01", ["gpu01"]),
        ("gpu[01:03]", ["gpu01", "gpu02", "gpu03"]),
        ("gpu[8:11]", ["gpu8", "gpu9", "gpu10", "gpu11"]),
        ("gpu[099:101]", ["gpu099", "gpu100", "gpu101"]),
        ("n[:2]", ["n0", "n1", "n2"]),
        ("n[0:10:5]-x", ["n0-x", "n5-x", "n10-x"]),
        ("[a:c].lab", ["a.lab", "b.lab", "c.lab"]),
        ("[y:B]", ["y", "z", "A", "B"]),
        ("[a:e:2]", ["a", "c", "e"]),
        ("r[1:2]n[a:b]", ["r1na", "r1nb", "r2na", "r2nb"]),
        ("fd00::[1:2]", ["fd00::1", "fd00::2"]),
    ],
)
def test_a_range_stands_for_its_hosts(name: str, hosts: list[str]) -> None:
    assert expand_ranges(name) == hosts


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpu[1:3", "never closed"),
        ("gpu1:3]", "without a ["),
        ("gpu[3]", "not a range"),
        ("gpu[1:2:3:4]", "not a range"),
        ("gpu[1-3]", "not a range"),
        ("gpu[1:]", "no end"),
        ("gpu[9:1]", "empty"),
        ("gpu[z:a]", "empty"),
        ("gpu[01:100]", "same number of digits"),
        ("gpu[1:9:0]", "step"),
        ("gpu[1:9:-1]", "step"),
        ("gpu[a:9]", "number to a number"),
        ("gpu[ab:cd]", "number to a number"),
        ("gpu[²:³]", "number to a number"),
        ("gpu[1:999999999999]", "more than 100000"),
        ("gpu[1:1000][1:1000]", "more than 100000"),
    ],
)
def test_a_range_that_is_none_is_refused(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        expand_ranges(name)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gpu01", ("gpu01", None)),
        ("gpu01:2222", ("gpu01", "2222")),
        ("gpu[01:03]:22", ("gpu[01:03]", "22")),
        ("[fd00::1]:22", ("fd00::1", "22")),
        ("fd00::1", ("fd00::1", None)),
        ("::1", ("::1", None)),
        ("gpu[01:03]", ("gpu[01:03]", None)),
    ],
)
def test_a_port_is_split_off_as_by_ansible(name: str, parts: tuple[str, str | None]) -> None:
    assert split_port(name) == parts
