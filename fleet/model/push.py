"""What happens while an image is pushed to hosts, and how that ended for each."""

from __future__ import annotations

from typing import Literal

from fleet.model.base import Record
from fleet.model.result import HostStatus

PushStep = Literal["connecting", "reading", "checking", "waiting", "sending", "fetching", "loading"]
"""What goes on for a host. `reading`: the control node's engine writes the image; `checking`: what is there is compared
with what it should be; `waiting`: for somebody who is free to send; `fetching`: another host sends."""


class PushStage(Record):
    """A host entered a step."""

    alias: str
    step: PushStep
    total_bytes: int | None = None
    """What the host needs, once it is known."""
    kept_bytes: int = 0
    """What of it is there already."""


class PushNotice(Record):
    """Something worth telling that is not an end."""

    alias: str
    message: str


class PushOutcome(Record):
    """How it ended for one host."""

    alias: str
    status: HostStatus
    """`ok`: it has the image now. `skipped`: it had it, or needs none."""
    reason: str | None = None
    message: str = ""
    """A sentence for people."""
    hint: str = ""
    """What to do next."""
    images: tuple[str, ...] = ()
    """What it was to have, `name:tag`."""
    total_bytes: int = 0
    """What it lacked: the archive less the layers that its engine had."""
    kept_bytes: int = 0
    """Of those, what an earlier push had left there."""
    sent_bytes: int = 0
    """What the control node has sent, all of it."""
    fetched_bytes: int = 0
    """What other hosts have sent."""
    send_s: float | None = None
    load_s: float | None = None


class PushFinished(Record):
    """A host's one outcome."""

    alias: str
    outcome: PushOutcome


PushEvent = PushStage | PushNotice | PushFinished


def format_bytes(count: float) -> str:
    """As docker writes sizes, in powers of 1,000: `312 B`, `1.25 kB`, `12.5 MB`, `11.2 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            break
        count /= 1000
    if unit == "B" or count >= 99.95:
        return f"{count:,.0f} {unit}"
    return f"{count:.1f} {unit}" if count >= 9.995 else f"{count:.2f} {unit}"
