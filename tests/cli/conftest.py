"""What the tests of `fleet push-image` share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image_builder import BuiltImage, build_image, make_layer, write_archive
from tests.lab.spare_engine import SpareEngine


@pytest.fixture(scope="session")
def _spare_engine() -> Iterator[SpareEngine]:
    with SpareEngine() as engine:
        yield engine


@pytest.fixture
def empty_engine(_spare_engine: SpareEngine) -> SpareEngine:
    """An engine without images, for `lab_hosts(1, engine_socket=…)`."""
    _spare_engine.remove_images()
    return _spare_engine


@pytest.fixture(scope="session")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[BuiltImage, Path]:
    """An image that takes long enough to be hurt on its way, and its file."""
    image = build_image("fleet-test/big:1", [make_layer(os.urandom(100_000_000)) for _ in range(2)])
    return image, write_archive(tmp_path_factory.mktemp("image") / "big.tar", image)
