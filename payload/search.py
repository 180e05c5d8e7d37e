"""The largest batch that fits: doubling until one does not, then halving the gap; a fresh child for every attempt."""

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

AUTO = 0
"""A cell's `batch_size` that means: the largest that fits."""

FIRST = 32
LARGEST = 65536
MOST_ATTEMPTS = 16
MOST_MEASUREMENTS = 4

Result = Dict[str, Any]

Found = NamedTuple(
    "Found",
    [
        ("fits", int),
        ("fails", Optional[int]),
        ("where", Optional[str]),
        ("attempts", int),
        ("failure", Optional[Result]),
    ],
)
"""`fits`: the largest batch size that was measured, 0: none. `fails`: the smallest that was not, None: all did.
`where`: `device` or `host`, what ran out of memory. `failure`: the result of the last attempt that did not fit."""


def find_largest(attempt: Callable[[int], Result]) -> Found:
    """Search the largest batch size that fits, to within a sixteenth.

    It ends early at the first attempt that fails for another reason than memory; what fitted until then counts.

    Args:
        attempt: measures one batch size in a child of its own and returns `status` and `reason`, at least.
    """
    found = Found(0, None, None, 0, None)
    while found.attempts < MOST_ATTEMPTS:
        size = _choose_next(found.fits, found.fails)
        if size is None:
            break
        result = attempt(size)
        found = found._replace(attempts=found.attempts + 1)
        if result["status"] == "ok":
            found = found._replace(fits=size)
            continue
        where = {"device_memory": "device", "host_memory": "host"}.get(str(result["reason"]))
        found = found._replace(fails=size, where=where, failure=result)
        if result["status"] != "oom":
            break
    return found


def confirm(found: Found, measure: Callable[[int], Result]) -> Tuple[Found, Result]:
    """Measure what fitted. What fits for two steps need not fit for hundreds: then a seventeenth less, a few times.

    Returns:
        What then is known, and the result: where nothing fits, that of the last attempt.
    """
    result = found.failure or {}
    for _ in range(MOST_MEASUREMENTS):
        if not found.fits:
            break
        result = measure(found.fits)
        if result["status"] != "oom":
            break
        where = "device" if result["reason"] == "device_memory" else "host"
        less = found.fits - max(1, found.fits // 17)
        found = found._replace(fits=less, fails=found.fits, where=where, failure=result)
    return found, result


def _choose_next(fits: int, fails: Optional[int]) -> Optional[int]:
    """The next batch size to try; None: found. In steps of a power of two, at most a sixteenth of what fits."""
    if fails is None:
        if fits == LARGEST:
            return None
        return min(2 * fits, LARGEST) if fits else FIRST
    if fits == 0:
        return fails // 2 or None
    step = 1
    while 2 * step <= fits // 16:
        step *= 2
    middle = (fits + fails) // 2 // step * step
    return middle if fails - fits > step and fits < middle < fails else None
