"""Thousands of jobs that ended long ago are taken away in portions that a command line holds."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.host.framing import Shell
from fleet.host.leftovers import LeftJob, remove_leftovers
from fleet.model.inventory import Settings
from fleet.transport.base import Completed, quote_command
from tests.host.doubles import SilentHost

LONGEST_ARGUMENT = 128 << 10
"""Linux' MAX_ARG_STRLEN: 32 pages."""


def test_no_command_is_too_long_and_every_job_is_named_once() -> None:
    jobs = [LeftJob(f"20261201t143200z-{n:04x}-{n:03d}", "ended") for n in range(7000)]
    asked: list[Sequence[str]] = []

    def answer(argv: Sequence[str], **_: object) -> Completed:
        asked.append(argv)
        return Completed(0, f"\n@@{argv[4]} workdir\n/work\n@@{argv[4]} end\n".encode(), b"")

    left = remove_leftovers(Shell("gpu01", SilentHost(answer)), Settings(), jobs)

    assert not left.anything
    assert max(len(quote_command(argv, "mark")) for argv in asked) < LONGEST_ARGUMENT
    named = [word for argv in asked for word in argv if word.startswith("20261201t")]
    assert named == [job.job_id for job in jobs]
