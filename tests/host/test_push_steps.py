"""What a host says of its images, and whether there is room: read strictly, whatever it says."""

from __future__ import annotations

import io

import pytest

from fleet.errors import Busy, ContactLost, HostError, PreflightFailed
from fleet.host.framing import Shell
from fleet.host.image_archive import Image
from fleet.host.image_stream import Span, Stream
from fleet.host.push_steps import (
    Found,
    Look,
    Room,
    Staging,
    check_room,
    find_gathered,
    has_images,
    load_images,
    look_at_images,
    send_part,
)
from tests.host.doubles import HostileHost

ID, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
LAYERS = tuple(f"sha256:{digit * 64}" for digit in "123")
IMAGE = Image(("lab/x:1", "lab/y:1"), frozenset({ID}), LAYERS)
STAGING = Staging("/home/you/.fleet", "image-1.tar", "push-1", "me@here (fleet push-image)")


def stream(size: int, unpacked: int) -> Stream:
    return Stream(io.BytesIO(), (ID,), (Span(0, size),), unpacked)


def answer(*sections: str) -> bytes:
    return "".join(f"\n@@{{nonce}} {section}" for section in sections).encode()


def quote(layers: tuple[str, ...]) -> str:
    return "[" + ",".join(f'"{layer}"' for layer in layers) + "]"


SEEN = answer(
    f"image 0\nWARNING: something\n{ID} {quote(LAYERS)}\n",
    "image 1\nError: No such image: lab/y:1\n",
    'store\n[["driver-type","io.containerd.snapshotter.v1"]]\n',
    f"layers\n{quote(LAYERS[:1])}\n{quote((*LAYERS[:2], OTHER))}\n[broken\n",
    "workdir\n/dev/sda1 100 50 50 50% /home/a b\n",
    "root\n/dev/sdb1 100 50 7 50% /\n",
    "end\n",
)


def test_a_host_is_seen_as_it_says() -> None:
    look = look_at_images(Shell("gpu01", HostileHost(SEEN)), "/home/you/.fleet", [IMAGE])

    assert look.found == (Found(ID, LAYERS), None)
    assert look.stacks == (LAYERS[:1], (*LAYERS[:2], OTHER), ())
    assert (look.workdir_room, look.engine_room) == (Room(50 << 10, "/home/a b"), Room(7 << 10, "/"))
    assert look.in_containerd
    assert look.count_layers(IMAGE) == 0  # they are packed there
    elsewhere = Look(look.found, look.stacks, False, None, None)
    assert elsewhere.count_layers(IMAGE) == 2
    assert elsewhere.count_layers(Image(("z:1",), frozenset(), (OTHER,))) == 0


@pytest.mark.parametrize(
    "said",
    [
        answer("end\n"),
        answer("image 0\n\n", "image 0\nsha256:zz []\n", "layers\nnull\n5\n", "workdir\n\n", "root\na b c d e f\n"),
        answer(
            f"image 0\n{ID} [1,2]\n", "image\n", "layers\n" + "[" * 5000, "workdir\n/ x x ² 1% /\n", "store\n\x1b[2J"
        ),
    ],
)
def test_nonsense_means_that_nothing_is_there(said: bytes) -> None:
    look = look_at_images(Shell("gpu01", HostileHost(said)), "/home/you/.fleet", [IMAGE])

    assert not has_images(look.found, [IMAGE])
    assert look.count_layers(IMAGE) == 0
    assert (look.workdir_room, look.engine_room) == (None, None)


def test_an_image_is_there_when_every_name_stands_for_it() -> None:
    have, packed = Found(ID, LAYERS), Found(OTHER, LAYERS)

    assert has_images([have, have], [IMAGE])
    assert not has_images([have, None], [IMAGE])
    assert not has_images([have], [IMAGE])
    assert not has_images([have, packed], [IMAGE])
    assert has_images([have, packed], [IMAGE], by_layers=True)
    assert not has_images([have, Found(OTHER, LAYERS[:2])], [IMAGE], by_layers=True)


@pytest.mark.parametrize(
    ("workdir", "engine", "gathered", "says"),
    [
        (Room(100, "/home"), Room(200, "/"), 0, None),
        (Room(99, "/home"), Room(200, "/"), 0, "only 99 B are free in /home/you/.fleet; .* needs 100 B"),
        (Room(99, "/home"), Room(200, "/"), 1, None),
        (Room(100, "/home"), Room(199, "/"), 0, "only 199 B are free in docker's data directory; .* 200 B"),
        (Room(300, "/"), Room(300, "/"), 0, None),
        (Room(299, "/"), Room(300, "/"), 0, "only 299 B .* in /home/you/.fleet and docker's data directory; .* 300 B"),
        (Room(100, "/"), None, 0, None),
        (None, None, 0, None),
    ],
)
def test_room_is_needed_for_the_file_and_twice_for_the_image(
    workdir: Room | None, engine: Room | None, gathered: int, says: str | None
) -> None:
    look = Look((), (), False, workdir, engine)
    if says is None:
        check_room("gpu01", look, stream(100, 100), STAGING, gathered)
        return
    with pytest.raises(PreflightFailed, match=says) as error:
        check_room("gpu01", look, stream(100, 100), STAGING, gathered)
    assert (error.value.reason, error.value.host) == ("disk_full", "gpu01")


ANSWERS: dict[str, tuple[type[HostError], str, str]] = {
    "busy you@there (fleet run 1)": (Busy, "locked", "in use by you@there (fleet run 1)"),
    "busy": (Busy, "locked", "in use by another fleet"),
    "busy \x1b[2J": (Busy, "locked", "in use by \ufffd[2J"),
    "not_written 12": (PreflightFailed, "disk_full", "disk of the work directory /home/you/.fleet is full"),
    "not_written 5000": (PreflightFailed, "not_written", "could not be written to /home/you/.fleet"),
    "not_written": (PreflightFailed, "not_written", "could not be written to /home/you/.fleet"),
    "not_writable": (PreflightFailed, "not_writable", "cannot write to the work directory /home/you/.fleet"),
    "lock_unreadable /tmp/fleet.lock": (PreflightFailed, "lock_unreadable", "/tmp/fleet.lock is not a file"),
    "nonsense": (PreflightFailed, "push_failed", "could not be sent: nonsense"),
}


@pytest.mark.parametrize("said", ANSWERS)
def test_why_a_host_took_nothing_is_a_sentence(said: str) -> None:
    kind, reason, message = ANSWERS[said]
    for take in (
        lambda shell: send_part(shell, STAGING, 0, 1, io.BytesIO(b"x")),
        lambda shell: load_images(shell, STAGING, stream(1, 1), [IMAGE]),
    ):
        with pytest.raises(kind) as error:
            take(Shell("gpu01", HostileHost(answer(said))))
        assert (error.value.reason, error.value.host) == (reason, "gpu01")
        assert message in error.value.message
        assert error.value.hint


def test_what_has_arrived_is_a_number_or_nothing() -> None:
    digest = "c" * 64
    for said, found in {
        f"gathered 12 {digest}": (12, digest),
        "gathered 0": (0, ""),
        "gathered -1 x": (0, "x"),
        "gathered": (0, ""),
    }.items():
        assert find_gathered(Shell("gpu01", HostileHost(answer(said))), STAGING, 100) == found
    for word, size in {"received 5": 5, "moved 7": 7, "moved": 0, "moved 1 2": 0}.items():
        assert send_part(Shell("gpu01", HostileHost(answer(word))), STAGING, 0, 1, io.BytesIO()) == size
    with pytest.raises(ContactLost):
        find_gathered(Shell("gpu01", HostileHost(b"Welcome!")), STAGING, 100)


def test_a_load_ends_with_what_the_names_stand_for() -> None:
    images = f"image 0\n{ID} {quote(LAYERS)}\n"
    good = HostileHost(answer("load 0\n\n", images, "image 1\nno\n", "end\n"))
    bad = HostileHost(answer("load 1\nError: no space left on device\n", "end\n"))

    assert load_images(Shell("gpu01", good), STAGING, stream(1, 1), [IMAGE]) == (Found(ID, LAYERS), None)
    with pytest.raises(PreflightFailed, match="no space for the image lab/x:1 and lab/y:1") as error:
        load_images(Shell("gpu01", bad), STAGING, stream(1, 1), [IMAGE])
    assert error.value.reason == "disk_full"
