"""Every model of the zoo, counted in its graph: parameters, work and layers equal those of the reference."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("tensorflow")
tf = pytest.importorskip("tensorflow")

from payload.catalog import read_catalog  # noqa: E402
from payload.flags import read_flags  # noqa: E402
from payload.models.counts import count_macs  # noqa: E402
from payload.models.layers import Layers, Weights  # noqa: E402
from payload.models.zoo import NETWORKS  # noqa: E402

REFERENCE: dict[str, dict[str, Any]] = {
    entry["model"]: entry
    for entry in json.loads((Path(__file__).parent / "reference_models.json").read_text())["models"]
}

OPERATIONS = {
    "convolutions": "Conv2D",
    "depthwise_convolutions": "DepthwiseConv2dNative",
    "dense": "MatMul",
    "batch_norms": "FusedBatchNormV3",
    "max_pools": "MaxPool",
    "avg_pools": "AvgPool",
}

_CLASS = 1001 - 1000
_BERT_LAYERS = 12 * (4 * (768 * 768 + 768) + 2 * 4 * 768 * 768 + 5 * 768 + 4 * 768)

PUBLISHED = {
    # model: (trainable parameters, multiply-adds)
    # torchvision counts 133,047,848 in vgg13 and 86,567,656 in vit_b_16 for 1,000 classes.
    "vgg13": (133047848 + _CLASS * 4097, 11308470272),
    "vit_b16": (86567656 + _CLASS * 769, 17563828992),
    # Table 2 of arXiv:1409.1556: A-LRN has the 133 million of A, C has 134 million.
    "vgg11_lrn": (REFERENCE["vgg11"]["trainable_parameters"], REFERENCE["vgg11"]["forward_macs"]),
    "vgg16c": (
        REFERENCE["vgg16"]["trainable_parameters"] - 8 * (256 * 256 + 2 * 512 * 512),
        REFERENCE["vgg16"]["forward_macs"] - 8 * (256 * 256 * 56 * 56 + 512 * 512 * (28 * 28 + 14 * 14)),
    ),
    # As many parameters as version 1; the stride moved from the 1x1 to the 3x3 of three blocks: two of its inputs stay
    # four times as large. What official_resnet101 and 152 have, which are of this version: 7.8014 and 11.5136 GMAC.
    "resnet101_v1.5": (REFERENCE["resnet101"]["trainable_parameters"], 7801407488),
    "resnet152_v1.5": (REFERENCE["resnet152"]["trainable_parameters"], 11513628672),
    # Hugging Face's BertForSequenceClassification counts the same for three labels.
    **{
        f"bert_base_{n}": (
            (30522 + 512 + 2 + 2) * 768 + _BERT_LAYERS + 768 * 769 + 3 * 769,
            12 * (12 * n * 768 * 768 + 2 * n * n * 768) + 768 * 768 + 3 * 768,
        )
        for n in (128, 512)
    },
}


def sketch(model: str, data_format: str = "NHWC") -> tuple[Weights, Any]:
    """A model described once for one image: what weights it asks for, and its graph."""
    weights, network = Weights(), NETWORKS[model]
    height, width, channels = network.input_shape
    shape = (1, height, width, channels) if data_format == "NHWC" else (1, channels, height, width)
    with tf.Graph().as_default() as graph:
        network.describe(Layers(weights, data_format, tf.float32, training=False), tf.zeros(shape))
    return weights, graph


@pytest.mark.parametrize("model", sorted(REFERENCE))
def test_the_reference_counts_the_same(model: str) -> None:
    entry = REFERENCE[model]
    weights, graph = sketch(model)
    types = Counter(o.type for o in graph.get_operations())
    counted = {name: types[operation] for name, operation in OPERATIONS.items()}
    counted["trainable_parameters"] = sum(w.size for w in weights.trainable)
    counted["l2_parameters"] = sum(w.size for w in weights.trainable if w.decayed)
    counted["batch_norm_statistics"] = sum(w.size for w in weights.items if not w.trainable)
    counted["forward_macs"] = count_macs(graph)
    assert {name: n for name, n in counted.items() if name in entry} == {n: v for n, v in entry.items() if n in counted}
    if "forward_macs_about" in entry:
        assert counted["forward_macs"] == pytest.approx(entry["forward_macs_about"], rel=3e-4)
    assert list(NETWORKS[model].input_shape) == entry["input_shape"]


@pytest.mark.parametrize("model", sorted(PUBLISHED))
def test_what_the_reference_lacks_counts_as_published(model: str) -> None:
    weights, graph = sketch(model)
    assert (sum(w.size for w in weights.trainable), count_macs(graph)) == PUBLISHED[model]


def test_every_model_is_held_to_something() -> None:
    assert set(read_catalog()) == set(NETWORKS) == set(REFERENCE) | set(PUBLISHED)


@pytest.mark.parametrize("model", sorted(NETWORKS))
def test_channels_first_is_the_same_work(model: str) -> None:
    weights, graph = sketch(model, "NCHW")
    entry = read_catalog()[model]
    assert (sum(w.size for w in weights.trainable), count_macs(graph)) == (entry["parameters"], entry["forward_macs"])
    assert tuple(entry["input_shape"]) == NETWORKS[model].input_shape
    formats = {o.get_attr("data_format") for o in graph.get_operations() if o.type in ("Conv2D", "MaxPool", "AvgPool")}
    assert formats <= {b"NCHW"}


@pytest.mark.parametrize("model", sorted(REFERENCE))
def test_by_hand_the_batch_is_the_reference_s(model: str) -> None:
    import argparse

    from payload.flags import add_flags

    parser = argparse.ArgumentParser()
    add_flags(parser)
    cells, _ = read_flags(parser.parse_args(["--model", model, "--device=cpu"]))
    assert cells[0].batch_size == REFERENCE[model]["default_batch_size"]
