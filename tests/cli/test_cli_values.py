"""Times and shares as people type them."""

from __future__ import annotations

import pytest

from fleet.cli.values import read_duration, read_share
from fleet.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("6h", 21600), ("1d", 86400), ("0.5h", 1800), (" 5s ", 5)]
)
def test_a_time_is_a_number_with_its_unit(text: str, seconds: float) -> None:
    assert read_duration("--deadline", text) == seconds


@pytest.mark.parametrize(
    "text", ["", "6", "h", "0s", "-1h", "6 h", "6hours", "1e3s", "inf", "nan", "400d", "٣s", "9" * 99]
)
def test_what_is_no_time_is_told_with_its_option(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_duration("--deadline", text)
    assert str(caught.value).startswith("--deadline: ")


@pytest.mark.parametrize(
    ("text", "says"), [("0s", "'0s' is no time at all"), ("400d", "more than a year"), ("6", "such as 90s")]
)
def test_it_says_what_is_wrong_with_a_time(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_duration("--poll", text)


@pytest.mark.parametrize(
    ("text", "whole", "most"), [("3", 10, 3), ("0", 10, 0), ("10%", 256, 25), ("100%", 7, 7), ("10%", 5, 0)]
)
def test_a_share_is_a_number_or_a_part_of_the_whole(text: str, whole: int, most: int) -> None:
    assert read_share("--max-fail", text, whole) == most


@pytest.mark.parametrize("text", ["", "%", "-1", "101%", "1.5", "three", "9999999"])
def test_what_is_no_share_is_told_with_its_option(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_share("--max-fail", text, 10)
    assert str(caught.value).startswith("--max-fail: ")
