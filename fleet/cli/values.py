"""Values of options that have a unit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.cli.measure import Limits
from fleet.errors import ConfigError
from fleet.host.exclusion import Exclusion
from fleet.model.plan import Plan

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class LimitOptions:
    """What holds a controller's work in bounds, as it was typed."""

    wave: int
    deadline: str | None
    max_fail: str | None
    poll: str | None
    wait_idle: str | None
    ignore_busy: bool


def read_limits(options: LimitOptions, plan: Plan) -> Limits:
    """The limits for this plan.

    Raises:
        ConfigError: one cannot be read.
    """
    hosts = sum(bool(host.cells) for host in plan.hosts)
    return Limits(
        wave=options.wave,
        deadline_s=read_duration("--deadline", options.deadline) if options.deadline else 0.0,
        max_fail=read_share("--max-fail", options.max_fail, hosts) if options.max_fail else None,
        poll_s=read_duration("--poll", options.poll) if options.poll else None,
        exclusion=read_exclusion(options),
    )


def read_exclusion(options: LimitOptions) -> Exclusion:
    """What `--wait-idle` and `--ignore-busy` ask for.

    Raises:
        ConfigError: they do not go together, or the first is no time.
    """
    if options.wait_idle is None:
        return Exclusion(ignore=options.ignore_busy)
    if options.ignore_busy:
        raise ConfigError("--wait-idle and --ignore-busy do not go together", hint="Use one or the other.")
    return Exclusion(wait_s=read_duration("--wait-idle", options.wait_idle))


def read_duration(option: str, text: str) -> float:
    """Seconds, of `90s`, `15m`, `6h` or `1d`.

    Raises:
        ConfigError: it is none of these, or nothing, or more than a year.
    """
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])", text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if found and not 0 < seconds <= 366 * 86400:
        raise ConfigError(f"{text[:80]!r} is {'no time at all' if not seconds else 'more than a year'}", file=option)
    if not found:
        raise ConfigError(f"{text[:80]!r} is not a time such as 90s, 15m, 6h or 1d", file=option)
    return seconds


def read_share(option: str, text: str, whole: int) -> int:
    """A number of things, of `3` or of `10%`: then as many of `whole` as are not more than that.

    Raises:
        ConfigError: it is neither.
    """
    found = re.fullmatch(r"([0-9]{1,6})(%?)", text.strip())
    if not found or (found[2] and int(found[1]) > 100):
        raise ConfigError(f"{text[:80]!r} is neither a number nor a share such as 10%", file=option)
    return whole * int(found[1]) // 100 if found[2] else int(found[1])
