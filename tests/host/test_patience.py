"""How long one waits, and how often one looks."""

from __future__ import annotations

import pytest

from fleet.host.follow import Patience

CASES = [
    (1, None, 0.5, 10.0),
    (200, None, 2.0, 10.0),
    (1000, None, 10.0, 50.0),
    (1000, 5.0, 5.0, 5.0),
    (3, 60.0, 0.5, 60.0),
]


@pytest.mark.parametrize(("count", "asked", "first", "longest"), CASES)
def test_many_hosts_are_looked_at_no_more_often_in_sum(
    count: int, asked: float | None, first: float, longest: float
) -> None:
    patience = Patience.for_hosts(count, asked)

    assert (patience.poll_min_s, patience.poll_max_s) == (first, longest)
