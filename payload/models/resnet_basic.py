"""Residual networks of two 3x3 convolutions a block for ImageNet: 18 and 34 layers, versions 1 and 2.

The network behind tf_cnn_benchmarks' `official_resnet18` and `official_resnet34`: every stage begins with a projection,
and batch normalisation takes part in the L2 loss.
"""

from typing import Any, Sequence, Tuple

from payload.models.layers import Layers
from payload.models.network import IMAGENET_CLASSES, PIXELS, Network
from payload.models.resnet import pad_convolve


def _normalise(layers: Layers, x: Any) -> Any:
    return layers.normalise(x, 0.997, 1e-5, decayed=True)


def _add_block_1(layers: Layers, x: Any, filters: int, stride: int, first: bool) -> Any:
    shortcut = _normalise(layers, layers.convolve(x, filters, 1, stride)) if first else x
    x = layers.relu(_normalise(layers, pad_convolve(layers, x, filters, 3, stride)))
    return layers.relu(_normalise(layers, pad_convolve(layers, x, filters, 3)) + shortcut)


def _add_block_2(layers: Layers, x: Any, filters: int, stride: int, first: bool) -> Any:
    shortcut = x
    x = layers.relu(_normalise(layers, x))
    if first:
        shortcut = layers.convolve(x, filters, 1, stride)
    x = pad_convolve(layers, x, filters, 3, stride)
    return pad_convolve(layers, layers.relu(_normalise(layers, x)), filters, 3) + shortcut


def _describe(layers: Layers, x: Any, blocks: Sequence[int], version: int) -> Any:
    add = _add_block_1 if version == 1 else _add_block_2
    x = pad_convolve(layers, x, 64, 7, 2)
    if version == 1:
        x = layers.relu(_normalise(layers, x))
    x = layers.max_pool(x, 3, 2, "SAME")
    for stage, count in enumerate(blocks):
        for block in range(count):
            x = add(layers, x, 64 << stage, 2 if stage > 0 and block == 0 else 1, block == 0)
    if version == 2:
        x = layers.relu(_normalise(layers, x))
    return layers.connect(layers.average_spatially(x), IMAGENET_CLASSES)


def _choose_rate(batch_size: int) -> Tuple[float, int]:
    return 0.0125 * batch_size / 32.0, 0


def _make_network(blocks: Sequence[int], version: int) -> Network:
    return Network((224, 224, 3), lambda layers, x: _describe(layers, x, blocks, version), PIXELS, _choose_rate)


RESNET18 = _make_network((2, 2, 2, 2), 1)
RESNET18_V2 = _make_network((2, 2, 2, 2), 2)
RESNET34 = _make_network((3, 4, 6, 3), 1)
RESNET34_V2 = _make_network((3, 4, 6, 3), 2)
