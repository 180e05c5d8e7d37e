"""Residual networks of bottleneck blocks, version 1: the stride is on the block's first 1x1 convolution."""

from typing import Any, Sequence, Tuple

from payload.models.layers import Layers
from payload.models.network import PIXELS, Network

_DECAY = 0.9
_EPSILON = 1e-5
_IMAGES_PER_EPOCH = 1281167


def _convolve(layers: Layers, x: Any, filters: int, kernel: int, stride: int = 1) -> Any:
    if kernel > 1 and stride > 1:
        # Symmetric padding written out: SAME would pad a strided convolution more on one side.
        x = layers.convolve(layers.pad(x, kernel // 2), filters, kernel, stride, "VALID")
    else:
        x = layers.convolve(x, filters, kernel, stride)
    return layers.normalise(x, _DECAY, _EPSILON)


def _add_bottleneck(layers: Layers, x: Any, filters: int, stride: int) -> Any:
    shortcut = x
    if layers.channels(x) != 4 * filters:
        shortcut = _convolve(layers, x, 4 * filters, 1, stride)
    x = layers.relu(_convolve(layers, x, filters, 1, stride))
    x = layers.relu(_convolve(layers, x, filters, 3))
    return layers.relu(shortcut + _convolve(layers, x, 4 * filters, 1))


def _describe(layers: Layers, x: Any, blocks: Sequence[int]) -> Any:
    x = layers.relu(_convolve(layers, x, 64, 7, 2))
    x = layers.max_pool(x, 3, 2, "SAME")
    for stage, count in enumerate(blocks):
        for block in range(count):
            x = _add_bottleneck(layers, x, 64 << stage, 2 if stage > 0 and block == 0 else 1)
    return layers.connect(layers.average_spatially(x), 1001, gain=1.0)


def _choose_rate(batch_size: int) -> Tuple[float, int]:
    # As the reference: rises from 0 over five epochs, so that it stays near 0 for as long as anybody measures.
    return 0.128 * batch_size / 256.0, 5 * _IMAGES_PER_EPOCH // batch_size


def _make_network(blocks: Sequence[int]) -> Network:
    return Network((224, 224, 3), lambda layers, x: _describe(layers, x, blocks), PIXELS, _choose_rate)


RESNET50 = _make_network((3, 4, 6, 3))
