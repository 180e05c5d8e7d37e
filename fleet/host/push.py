"""One host's part in pushing images: look, send what it lacks, load, and see that it is there."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from fleet.errors import ContactLost, HostError, PreflightFailed
from fleet.host.framing import Shell
from fleet.host.image_archive import Image
from fleet.host.image_source import Source
from fleet.host.image_stream import Stream
from fleet.host.pause import Pause
from fleet.host.preflight import check_runtime, check_tools, check_workdir
from fleet.host.probe import choose_python, probe_host
from fleet.host.push_steps import (
    LOCK_WAIT_S,
    UNKNOWN,
    Found,
    Look,
    Staging,
    check_room,
    find_disk_limit,
    find_gathered,
    has_images,
    load_images,
    look_at_images,
    send_part,
)
from fleet.host.trouble import ATTEMPTS, may_pass, wait_before
from fleet.model.inventory import Host
from fleet.model.push import PushEvent, PushFinished, PushNotice, PushOutcome, PushStage, PushStep
from fleet.model.result import HostStatus, Stage
from fleet.transport.base import Transport

PART_BYTES = 256 << 20
"""Sent by one command. Its end is a round trip, and the first moment at which a host that hangs can be noticed."""

MOST_TRIES = 8
"""To send, without a byte gained: about two minutes."""

Answer = TypeVar("Answer")
Steps = Generator[PushEvent | Pause, None, Answer]


@dataclass
class Push:
    """The work on one host, as steps that somebody else paces.

    Args:
        source: what the host is to have.
        count: told of every byte that is sent, with the alias; from any thread.
        who: `user@control-node (fleet push-image)`, for whoever finds the machine locked.
    """

    host: Host
    source: Source
    transport: Transport
    count: Callable[[str, int], None]
    who: str
    keep: ClassVar[bool] = False
    """Leave on the host what it has been sent, once it is loaded."""

    _sent: int = 0
    _fetched: int = 0
    _kept: int = 0
    _total: int = 0
    _send_s: float | None = None
    _load_s: float | None = None
    _word: str = field(default_factory=lambda: f"push-{secrets.token_hex(6)}")

    def __post_init__(self) -> None:
        self._alias = self.host.alias
        self._shell = Shell(self._alias, self.transport)
        self._images: Sequence[Image] = self.source.images

    def run(self) -> Steps[None]:
        """Events as they happen; ends with exactly one `PushFinished`.

        Raises:
            FleetError: there is nothing to send, for this host or any.
        """
        try:
            outcome = yield from self._work()
        except HostError as error:
            outcome = self._end(HostStatus(error.status), error.reason, error.message, error.hint)
        finally:
            self.transport.close()
        yield PushFinished(alias=self._alias, outcome=outcome)

    def _work(self) -> Steps[PushOutcome]:
        yield self._enter("connecting")
        workdir = yield from self._insist(self._prepare)
        look = yield from self._insist(lambda: look_at_images(self._shell, workdir, self._images))
        if has_images(look.found, self._images):
            return self._end(HostStatus.SKIPPED, "present", "the image was there already")
        yield self._enter("reading")
        archive = self.source.open()
        # The archive knows more: an engine that keeps images in containerd calls them otherwise.
        self._images = archive.images
        if has_images(look.found, self._images):
            return self._end(HostStatus.SKIPPED, "present", "the image was there already")
        counts = [look.count_layers(image) for image in archive.images]
        try:
            return (yield from self._transfer(archive.cut(counts), workdir, look))
        except PreflightFailed as error:
            if error.reason == "disk_full" or not any(counts):
                raise
            yield PushNotice(alias=self._alias, message=f"sending every layer: {error.message}")
        return (yield from self._transfer(archive.cut([0] * len(counts)), workdir, look))

    def _prepare(self) -> str:
        """The absolute path of the work directory, which is made later; what forbids the work is raised."""
        settings = self.host.settings
        python = choose_python(settings, self.host.connection, sys.executable)
        probe = probe_host(self._shell, settings.model_copy(update={"python": python}), change=False)
        check_tools(self._alias, probe)
        check_runtime(self._alias, settings, probe)
        check_workdir(self._alias, settings, probe)
        return probe.facts.workdir or ""

    def _transfer(self, stream: Stream, workdir: str, look: Look) -> Steps[PushOutcome]:
        staging = self._stage(stream, workdir)
        self._total = stream.size
        self._kept = yield from self._find_kept(stream, staging)
        check_room(self._alias, look, stream, staging, self._kept)
        if self._kept < stream.size:
            # Nothing is sent yet: a machine that is in use says so before some megabytes are on their way.
            yield from self._insist(lambda: self._send_part(stream, staging, UNKNOWN))
        begin = time.monotonic()
        yield from self._send(stream, staging, self._kept)
        self._send_s = round(time.monotonic() - begin, 3)
        yield self._enter("loading")
        begin = time.monotonic()
        found = yield from self._load(stream, staging)
        self._load_s = round(time.monotonic() - begin, 3)
        if not has_images(found, self._images, by_layers=look.in_containerd):
            there = ", ".join(have.id if have else "missing" for have in found)
            wanted = ", ".join(min(image.ids) for image in self._images)
            message = f"docker load ended well, but the image there is {there} and not {wanted}"
            raise PreflightFailed(self._alias, Stage.LAUNCH, "wrong_image", message, "Look at it with docker image ls.")
        return self._end(HostStatus.OK)

    def _find_kept(self, stream: Stream, staging: Staging) -> Steps[int]:
        """How much of the stream an earlier push has left there. What is not as it should be counts for nothing."""
        size, digest = yield from self._insist(lambda: find_gathered(self._shell, staging, stream.size))
        if not 0 < size <= stream.size:
            return 0
        yield self._enter("checking", stream.size, size)
        return size if stream.digest(size) == digest else 0

    def _stage(self, stream: Stream, workdir: str) -> Staging:
        return Staging(workdir, f"image-{stream.key}.tar", self._word, self.who)

    def _send(self, stream: Stream, staging: Staging, offset: int) -> Steps[None]:
        reached, tries = offset, 0
        while offset < stream.size:
            if offset != UNKNOWN:
                yield self._enter("sending", stream.size, offset)
            try:
                now = self._send_part(stream, staging, offset)
            except HostError as error:
                # How much has arrived is asked first: another part of it may be on its way.
                offset, tries = UNKNOWN, tries + 1
                if tries == MOST_TRIES or not may_pass(error):
                    raise
                yield PushNotice(alias=self._alias, message=f"trying again: {error.message}")
                yield wait_before(tries, connecting=True)
                continue
            if now > reached:
                reached, tries = now, 0
            elif offset != UNKNOWN:
                tries += 1
            if tries == MOST_TRIES:
                message = f"no more than {reached:,} of {stream.size:,} bytes arrive there"
                raise PreflightFailed(self._alias, Stage.PUSH, "not_received", message, "See the host's disk.")
            offset = now if now <= stream.size else 0

    def _send_part(self, stream: Stream, staging: Staging, offset: int) -> int:
        length = 0 if offset == UNKNOWN else min(PART_BYTES, stream.size - offset)
        return send_part(self._shell, staging, offset, length, stream.open(offset, length, self._note_sent))

    def _load(self, stream: Stream, staging: Staging) -> Steps[Sequence[Found | None]]:
        for attempt in range(1, ATTEMPTS):
            # An earlier try that lost contact may be loading still.
            wait_s = LOCK_WAIT_S if attempt == 1 else find_disk_limit(stream.unpacked_bytes)
            try:
                return load_images(self._shell, staging, stream, self._images, wait_s, keep=self.keep)
            except HostError as error:
                yield from self._recover(error, attempt)
        return load_images(
            self._shell, staging, stream, self._images, find_disk_limit(stream.unpacked_bytes), keep=self.keep
        )

    def _insist(self, step: Callable[[], Answer]) -> Steps[Answer]:
        """Take a step that changes nothing, again where that may help."""
        for attempt in range(1, ATTEMPTS):
            try:
                return step()
            except HostError as error:
                yield from self._recover(error, attempt)
        return step()

    def _recover(self, error: HostError, attempt: int) -> Steps[None]:
        hung = isinstance(error, ContactLost) and error.reason == "timeout"
        if hung or not may_pass(error):
            # A host that hung does so again, and holds a worker all the while.
            raise error
        if attempt == 1:
            yield PushNotice(alias=self._alias, message=f"trying again: {error.message}")
        yield wait_before(attempt, connecting=True)

    def _note_sent(self, count: int) -> None:
        self._sent += count
        self.count(self._alias, count)

    def _enter(self, step: PushStep, total_bytes: int | None = None, kept_bytes: int = 0) -> PushStage:
        return PushStage(alias=self._alias, step=step, total_bytes=total_bytes, kept_bytes=kept_bytes)

    def _end(self, status: HostStatus, reason: str | None = None, message: str = "", hint: str = "") -> PushOutcome:
        return PushOutcome(
            alias=self._alias,
            status=status,
            reason=reason,
            message=message,
            hint=hint,
            images=tuple(name for image in self._images for name in image.names),
            total_bytes=self._total,
            kept_bytes=self._kept,
            sent_bytes=self._sent,
            fetched_bytes=self._fetched,
            send_s=self._send_s,
            load_s=self._load_s,
        )
