"""Every model of the zoo computes what the reference computed, with variables and images that are the same everywhere.

Counts cannot tell padding, strides and the constants of batch normalisation apart; these can.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.needs("tensorflow"), pytest.mark.long]
numpy = pytest.importorskip("numpy")
tf = pytest.importorskip("tensorflow")

from payload.models.zoo import NETWORKS  # noqa: E402
from tests.bench.filling import Filling, digest, digest_changes, fill_images  # noqa: E402
from tests.bench.ours import Loaded  # noqa: E402
from tests.payload.zoo import choose  # noqa: E402

RECORDED: dict[str, dict[str, list[float]]] = json.loads((Path(__file__).parent / "reference_logits.json").read_text())[
    "models"
]

WITHOUT_REFERENCE = {
    "alexnet_conv": "another program's",
    "resnet18": "its code is in another repository",
    "resnet18_v2": "its code is in another repository",
    "resnet34": "its code is in another repository",
    "resnet34_v2": "its code is in another repository",
    "vgg11_lrn": "not among its models",
    "vgg13": "not among its models",
    "vgg16c": "not among its models",
    "vit_b16": "not among its models",
    "bert_base_128": "not among its models",
    "bert_base_512": "not among its models",
}

DROPPING_PATHS = ("nasnetlarge", "nasnet_cifar10")
"""In training they multiply by what is random, and by other numbers than the reference at its very first step."""


def is_close(got: list[float], recorded: list[float], tolerance: float) -> bool:
    """Whether two digests differ by less than this share of the norm, which is their first number."""
    return float(numpy.abs(numpy.subtract(got, recorded)).max()) <= tolerance * recorded[0]


def test_every_model_is_recorded_or_excused() -> None:
    assert set(NETWORKS) == set(RECORDED) | set(WITHOUT_REFERENCE)
    assert not set(RECORDED) & set(WITHOUT_REFERENCE)


@pytest.mark.parametrize("model", choose(RECORDED))
def test_logits_are_the_reference_s(model: str) -> None:
    loaded = Loaded(model, Filling().fill)
    images = fill_images((2, *NETWORKS[model].input_shape))
    recorded = RECORDED[model]
    assert is_close(digest(loaded.apply(images, training=False)), recorded["logits"], 1e-4)
    before = loaded.moving
    assert bool(before) == ("moving" in recorded)
    if before and model not in DROPPING_PATHS:
        loaded.apply(images, training=True)
        # Wide, because the logarithm of a change says little about a channel that hardly moves. Another decay, or a
        # normalisation that sees other numbers, is off by tens of percent.
        assert is_close(digest_changes(before, loaded.moving), recorded["moving"], 0.01)


def _swap_padding(layers: Any) -> None:
    layers.pad = lambda x, before, after: tf.pad(x, [[0, 0], [before + 1, after - 1], [before + 1, after - 1], [0, 0]])


def _change_norm(**changes: Any) -> Callable[[Any], None]:
    def mutate(layers: Any) -> None:
        normalise = layers.normalise

        def changed(x: Any, decay: float, epsilon: float, **more: Any) -> Any:
            values = {"decay": decay, "epsilon": epsilon, **changes}
            return normalise(x, values["decay"], values["epsilon"], **more)

        layers.normalise = changed

    return mutate


@pytest.mark.parametrize(
    "mutate", [_swap_padding, _change_norm(epsilon=1e-3), _change_norm(decay=0.99)], ids=["padding", "epsilon", "decay"]
)
def test_a_mistake_that_counts_alike_is_seen(mutate: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    describe = NETWORKS["resnet50_v1.5"].describe

    def mistaken(layers: Any, x: Any) -> Any:
        mutate(layers)
        return describe(layers, x)

    monkeypatch.setattr(NETWORKS["resnet50_v1.5"], "describe", mistaken)
    with pytest.raises(AssertionError):
        test_logits_are_the_reference_s("resnet50_v1.5")
