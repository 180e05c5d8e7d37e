"""The single steps of pushing an image to a host: each is one round trip."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from fleet.errors import Busy, PreflightFailed
from fleet.host.diagnosis import diagnose_load
from fleet.host.framing import Section, Shell, read_count
from fleet.host.image_archive import Image
from fleet.host.image_source import ENGINE
from fleet.host.image_stream import Stream
from fleet.model.push import format_bytes
from fleet.model.result import Stage
from fleet.model.text import make_inert
from fleet.transport.base import Reader

LOOK_TIMEOUT_S = 300.0
STEP_TIMEOUT_S = 60.0
SLOWEST_BYTES_PER_S = 250_000
"""A connection that is slower is given up; a mobile phone's is faster."""

DISK_TIMEOUT_S = 300.0
SLOWEST_DISK_BYTES_PER_S = 10_000_000

LOCK_WAIT_S = 5

_LAYERS: TypeAdapter[tuple[str, ...]] = TypeAdapter(tuple[str, ...])

UNKNOWN = -1
"""For a size that only the host knows."""


@dataclass(frozen=True)
class Staging:
    """The file on the host that an image is gathered in, and who does it."""

    workdir: str
    """Absolute, on the host."""
    name: str
    word: str
    """Of this push alone: what an earlier one of its connections left running is known by it."""
    who: str
    """`user@control-node (fleet push-image)`, for whoever finds the machine locked."""

    @property
    def path(self) -> str:
        return f"{self.workdir}/{self.name}"


@dataclass(frozen=True)
class Found:
    """An image as an engine has it."""

    id: str
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Room:
    """Free space of a file system."""

    bytes: int
    mount: str


@dataclass(frozen=True)
class Look:
    """What a host has."""

    found: tuple[Found | None, ...]
    """One for each name that was asked for."""
    stacks: tuple[tuple[str, ...], ...]
    """The layers of every image that begins as one that was asked for."""
    in_containerd: bool
    """The engine keeps images in containerd: packed, and not to be had in parts."""
    workdir_room: Room | None
    engine_room: Room | None
    """None: the engine's directory is another machine's."""

    def count_layers(self, image: Image) -> int:
        """How many of the image's layers, the lowest first, the engine has."""
        if self.in_containerd:
            return 0
        return max((_count_alike(image.layers, stack) for stack in self.stacks), default=0)


def _count_alike(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def look_at_images(shell: Shell, workdir: str, images: Sequence[Image]) -> Look:
    """What the host has of images, and how much room there is.

    Raises:
        HostError: as the transport's.
    """
    lowest = "|".join(sorted({image.layers[0] for image in images if image.layers}))
    names = [name for image in images for name in image.names]
    _, sections = shell.read(
        "push_look", [ENGINE, workdir, lowest, *names], stage=Stage.PROBE, timeout_s=LOOK_TIMEOUT_S
    )
    named = {section.name: section for section in sections}
    return Look(
        found=_read_found(sections),
        stacks=tuple(_read_layers(line) for line in _text(named.get("layers")).splitlines()),
        in_containerd="io.containerd" in _text(named.get("store")),
        workdir_room=_read_room(named.get("workdir")),
        engine_room=_read_room(named.get("root")),
    )


def has_images(found: Sequence[Found | None], images: Sequence[Image], *, by_layers: bool = False) -> bool:
    """Whether every name stands for the image that it should.

    Args:
        found: in the order of the images' names.
        by_layers: the same layers are good enough. An engine that keeps images in containerd calls one by the digest of
            a manifest, which archives of engines before version 25 do not hold.
    """
    wanted = [image for image in images for _ in image.names]
    return len(found) == len(wanted) and all(
        have is not None and (have.id in image.ids or (by_layers and have.layers == image.layers))
        for have, image in zip(found, wanted, strict=True)
    )


def find_gathered(shell: Shell, staging: Staging, size: int) -> tuple[int, str]:
    """Bytes that are there of the file, and their sha256. `size`: how many there may be.

    Raises:
        HostError: as the transport's.
    """
    timeout_s = find_disk_limit(size)
    _, sections = shell.read("push_digest", [staging.path], stage=Stage.PUSH, timeout_s=timeout_s)
    words = [*sections[-1].words, "", ""]
    return read_count(words[0]) or 0, words[1]


def send_part(shell: Shell, staging: Staging, offset: int, length: int, part: Reader) -> int:
    """Append a part to the file if it has `offset` bytes, 0: to a new one; how many it has now.

    Raises:
        Busy: something is measured there, or somebody else pushes an image.
        PreflightFailed: the file cannot be written.
        HostError: as the transport's.
    """
    arguments = [staging.workdir, staging.name, str(offset), staging.word, staging.who]
    timeout_s = STEP_TIMEOUT_S + length / SLOWEST_BYTES_PER_S
    _, sections = shell.read("push_receive", arguments, stage=Stage.PUSH, timeout_s=timeout_s, stdin=part)
    answer = sections[-1]
    if answer.name not in {"received", "moved"}:
        raise refuse(shell.alias, answer, staging)
    return read_count(" ".join(answer.words)) or 0


def load_images(
    shell: Shell,
    staging: Staging,
    stream: Stream,
    images: Sequence[Image],
    wait_s: float = LOCK_WAIT_S,
    *,
    keep: bool = False,
) -> tuple[Found | None, ...]:
    """Load the file; what the images' names stand for now.

    Args:
        keep: leave the file there, which is gone otherwise.
        wait_s: for what goes on there; an earlier try whose connection broke may be loading still.

    Raises:
        Busy: something is measured there, or somebody else pushes an image.
        PreflightFailed: the engine did not load it. The file is still there if the fault is not in it.
        HostError: as the transport's.
    """
    names = [name for image in images for name in image.names]
    fixed = [staging.workdir, staging.name, staging.word, staging.who]
    arguments = [*fixed, f"{wait_s:.0f}", "keep" if keep else "remove", ENGINE, *names]
    timeout_s = find_disk_limit(stream.unpacked_bytes) + wait_s
    _, sections = shell.read("push_load", arguments, stage=Stage.LAUNCH, timeout_s=timeout_s)
    answer = next((section for section in sections if section.name == "load"), sections[-1])
    if answer.name != "load":
        raise refuse(shell.alias, answer, staging)
    if answer.words != ("0",):
        said = answer.body.decode(errors="replace")
        raise PreflightFailed(shell.alias, Stage.LAUNCH, *diagnose_load(said, " and ".join(names)))
    return _read_found(sections)


def find_disk_limit(size: int) -> float:
    """Seconds that reading or loading so many bytes may take on a host that has other work."""
    return DISK_TIMEOUT_S + size / SLOWEST_DISK_BYTES_PER_S


def check_room(alias: str, look: Look, stream: Stream, staging: Staging, gathered: int) -> None:
    """Raises PreflightFailed when the file, or the image, would not fit.

    The engine unpacks an archive into its own directory before it makes layers of it: for a while all is there twice.
    """
    needs = (
        (look.workdir_room, stream.size - gathered, staging.workdir),
        (look.engine_room, 2 * stream.unpacked_bytes, "docker's data directory"),
    )
    for mount in sorted({room.mount for room, _, _ in needs if room is not None}):
        here = [(room.bytes, count, place) for room, count, place in needs if room is not None and room.mount == mount]
        free, need = min(free for free, _, _ in here), sum(count for _, count, _ in here)
        if free < need:
            raise _no_room(alias, free, need, " and ".join(place for _, _, place in here))


def _no_room(alias: str, free: int, need: int, place: str) -> PreflightFailed:
    message = f"only {format_bytes(free)} are free in {place}; the image needs {format_bytes(need)} while it is loaded"
    hint = "Free some space there, or set fleet_workdir to a directory on another file system."
    return PreflightFailed(alias, Stage.PUSH, "disk_full", message, hint)


def refuse(alias: str, answer: Section, staging: Staging) -> Busy | PreflightFailed:
    """The error for a host's answer that it took nothing."""
    words = make_inert(" ".join(answer.words), 400)
    if answer.name == "busy":
        message = f"the machine is in use by {words or 'another fleet (it left no name)'}"
        return Busy(alias, Stage.PUSH, "locked", message, "Nothing is sent meanwhile; push again when it has ended.")
    free = read_count(words)
    if answer.name == "not_written" and free is not None and free < 1024:
        return PreflightFailed(
            alias,
            Stage.PUSH,
            "disk_full",
            f"the disk of the work directory {staging.workdir} is full",
            "Free some space there, or set fleet_workdir to a directory on another file system.",
        )
    sentences = {
        "not_writable": f"cannot write to the work directory {staging.workdir}",
        "not_written": f"the image could not be written to {staging.workdir}",
        "lock_unreadable": f"{words} is not a file that can be read",
    }
    message = sentences.get(answer.name, f"the image could not be sent: {make_inert(answer.name, 40)}")
    reason = answer.name if answer.name in sentences else "push_failed"
    return PreflightFailed(alias, Stage.PUSH, reason, message, "See the host's disk and kernel log.")


def _read_found(sections: Sequence[Section]) -> tuple[Found | None, ...]:
    return tuple(_read_image(section) for section in sections if section.name == "image")


def _read_image(section: Section) -> Found | None:
    """From `ID ["sha256:…", …]`; the client's warnings may stand before that line."""
    found = re.search(r"^(sha256:[0-9a-f]{64}) (.*)$", _text(section), re.MULTILINE)
    return Found(found[1], _read_layers(found[2])) if found and section.words == ("0",) else None


def _read_layers(line: str) -> tuple[str, ...]:
    try:
        return _LAYERS.validate_json(line)
    except ValidationError:
        return ()


def _read_room(section: Section | None) -> Room | None:
    """From a line of `df -Pk`; the last column is where the file system is mounted."""
    columns = _text(section).strip().split(maxsplit=5)
    free = read_count(columns[3]) if len(columns) == 6 else None
    return Room(free << 10, columns[5]) if free is not None else None


def _text(section: Section | None) -> str:
    return make_inert(section.body.decode(errors="replace"), 1 << 20) if section else ""
