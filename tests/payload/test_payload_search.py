"""The search for the largest batch, over memory of any size; with real children in test_payload_limits.py."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.plan import SEARCH_CHILDREN
from payload.search import LARGEST, MOST_ATTEMPTS, MOST_MEASUREMENTS, Found, confirm, find_largest


class Memory:
    """Fits batches up to this size; notes what was tried."""

    def __init__(self, holds: int, otherwise: str = "oom", reason: str = "device_memory") -> None:
        self.holds = holds
        self.otherwise = {"status": otherwise, "reason": reason}
        self.tried: list[int] = []

    def attempt(self, size: int) -> dict[str, Any]:
        self.tried.append(size)
        return {"status": "ok", "reason": None} if size <= self.holds else self.otherwise


def search(memory: Memory) -> Found:
    found = find_largest(memory.attempt)
    assert found.attempts == len(memory.tried) <= MOST_ATTEMPTS
    assert len(set(memory.tried)) == len(memory.tried)
    return found


@pytest.mark.parametrize("holds", [*range(1, 200), 255, 256, 257, 999, 1000, 4097, 30_000, 65_535])
def test_it_is_found_to_within_a_sixteenth(holds: int) -> None:
    found = search(Memory(holds))
    assert found.fits <= holds and found.fails
    assert holds < found.fails <= found.fits + max(1, found.fits // 16)
    assert found.where == "device"


def test_sizes_are_those_that_processors_like() -> None:
    memory = Memory(700)
    assert (search(memory).fits, memory.tried) == (672, [32, 64, 128, 256, 512, 1024, 768, 640, 704, 672])


def test_nothing_fits() -> None:
    memory = Memory(0, reason="host_memory")
    found = search(memory)
    assert (found.fits, found.fails, found.where, memory.tried) == (0, 1, "host", [32, 16, 8, 4, 2, 1])
    assert found.failure == {"status": "oom", "reason": "host_memory"}


def test_everything_fits() -> None:
    found = search(Memory(1 << 40))
    assert (found.fits, found.fails, found.where, found.failure) == (LARGEST, None, None, None)


def test_another_failure_ends_it_with_what_fitted_until_then() -> None:
    found = search(Memory(100, "timeout", "first_step_hang"))
    assert (found.fits, found.fails, found.where) == (64, 128, None)
    assert found.failure and found.failure["status"] == "timeout"
    found = search(Memory(0, "unsupported", "no_gpu"))
    assert (found.fits, found.attempts) == (0, 1)


def test_the_plan_allows_for_as_many_children_as_there_may_be() -> None:
    assert SEARCH_CHILDREN == MOST_ATTEMPTS + MOST_MEASUREMENTS


@pytest.mark.parametrize("holds", [31, 33, 64, 100, 1000])
def test_what_fits_for_two_steps_and_not_for_hundreds_is_measured_smaller(holds: int) -> None:
    memory = Memory(holds)
    found, result = confirm(
        Found(holds + 1, holds + 2, "host", 9, {"status": "oom", "reason": "host_memory"}), memory.attempt
    )

    assert result["status"] == "ok"
    assert len(memory.tried) == 2 and found.fails
    assert found.fits == memory.tried[-1] <= holds < found.fails == holds + 1 <= found.fits + max(1, found.fits // 16)
    assert found.where == "device"


def test_it_is_given_up_when_hundreds_of_steps_never_fit() -> None:
    memory = Memory(0)
    found, result = confirm(Found(1000, 1010, "host", 9, {"status": "oom", "reason": "host_memory"}), memory.attempt)

    assert (result["status"], len(memory.tried)) == ("oom", MOST_MEASUREMENTS)
    assert found.fits < min(memory.tried)
    assert confirm(Found(0, 1, "host", 6, {"status": "oom"}), memory.attempt)[1] == {"status": "oom"}
    assert len(memory.tried) == MOST_MEASUREMENTS
