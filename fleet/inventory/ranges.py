"""Names that stand for many hosts: `gpu[01:16]`, `rack[a:d]-node[0:10:2]`. Ansible's rules."""

from __future__ import annotations

import re
import string

MAX_HOSTS = 100_000
"""One name may stand for at most this many."""

_PORT = re.compile(r"(?P<host>(?:[^:\[\]]|\[[^\]]*\])*):(?P<port>[0-9]+)")
_BRACKETED_PORT = re.compile(r"\[(?P<host>.+)\]:(?P<port>[0-9]+)")


def split_port(name: str) -> tuple[str, str | None]:
    """`gpu01:2222` → (`gpu01`, `2222`), `[fd00::1]:22` → (`fd00::1`, `22`); without a port → (name, None)."""
    match = _BRACKETED_PORT.fullmatch(name) or _PORT.fullmatch(name)
    return (match["host"], match["port"]) if match else (name, None)


def expand_ranges(name: str) -> list[str]:
    """All names a name with ranges stands for, in order; a name without a range stands for itself.

    Raises:
        ValueError: with a sentence: a range is not `[begin:end]` or `[begin:end:step]`, or it is empty or too large.
    """
    head, bracket, rest = name.partition("[")
    if not bracket:
        if "]" in name:
            raise ValueError("there is a ] without a [ before it")
        return [name]
    inside, bracket, tail = rest.partition("]")
    if not bracket:
        raise ValueError("the [ is never closed")
    items, tails = _expand_range(inside), expand_ranges(tail)
    if len(items) * len(tails) > MAX_HOSTS:
        raise ValueError(f"it stands for more than {MAX_HOSTS} hosts")
    return [head + item + end for item in items for end in tails]


def _expand_range(inside: str) -> list[str]:
    parts = inside.split(":")
    if len(parts) not in (2, 3):
        raise ValueError(f"[{inside}] is not a range; write [begin:end] or [begin:end:step]")
    begin, end = parts[0] or "0", parts[1]
    step = parts[2] if len(parts) == 3 else "1"
    if not end:
        raise ValueError(f"the range [{inside}] has no end")
    if not re.fullmatch(r"[0-9]{1,9}", step) or int(step) == 0:
        raise ValueError(f"the step of the range [{inside}] is not a number from 1")
    if re.fullmatch(r"[A-Za-z]", begin) and re.fullmatch(r"[A-Za-z]", end):
        letters = string.ascii_letters
        items = list(letters[letters.index(begin) : letters.index(end) + 1 : int(step)])
    elif re.fullmatch(r"[0-9]{1,18}", begin) and re.fullmatch(r"[0-9]{1,18}", end):
        items = _count(begin, end, int(step), inside)
    else:
        raise ValueError(f"the range [{inside}] must go from a number to a number or from a letter to a letter")
    if not items:
        raise ValueError(f"the range [{inside}] is empty: its begin is after its end")
    return items


def _count(begin: str, end: str, step: int, inside: str) -> list[str]:
    width = len(begin) if begin.startswith("0") and len(begin) > 1 else 0
    if width and width != len(end):
        raise ValueError(f"begin and end of the range [{inside}] must have the same number of digits")
    numbers = range(int(begin), int(end) + 1, step)
    if len(numbers) > MAX_HOSTS:
        raise ValueError(f"it stands for more than {MAX_HOSTS} hosts")
    return [str(number).zfill(width) for number in numbers]
