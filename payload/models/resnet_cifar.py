"""Residual networks of two 3x3 convolutions a block for CIFAR-10, versions 1 and 2. No shortcut has a convolution."""

from typing import Any

from payload.models.layers import Layers
from payload.models.network import CIFAR_CLASSES, CIFAR_SHAPE, PIXELS, Network, hold_rate


def _convolve(layers: Layers, x: Any, filters: int, stride: int = 1) -> Any:
    return layers.normalise(layers.convolve(x, filters, 3, stride), 0.9, 1e-5)


def _activate_first(layers: Layers, x: Any) -> Any:
    # Not the constants of the other normalisations: the reference leaves its builder's defaults here.
    return layers.relu(layers.normalise(x, 0.999, 1e-3, scaled=False))


def _shorten(layers: Layers, x: Any, filters: int, stride: int) -> Any:
    """The shortcut: where the block widens, every other pixel, with channels of zeros around."""
    channels = layers.channels(x)
    if channels == filters:
        return x
    return layers.pad_channels(layers.average_pool(x, 1, stride), (filters - channels) // 2)


def _add_block(layers: Layers, x: Any, filters: int, stride: int, version: int) -> Any:
    shortcut = _shorten(layers, x, filters, stride)
    if version == 2:
        x = layers.relu(_convolve(layers, _activate_first(layers, x), filters, stride))
        return shortcut + layers.convolve(x, filters, 3)
    x = layers.relu(_convolve(layers, x, filters, stride))
    return layers.relu(shortcut + _convolve(layers, x, filters))


def _describe(layers: Layers, x: Any, blocks: int, version: int) -> Any:
    x = _convolve(layers, x, 16)
    if version == 2:
        x = layers.relu(x)
    for stage in range(3):
        for block in range(blocks):
            x = _add_block(layers, x, 16 << stage, 2 if stage > 0 and block == 0 else 1, version)
    if version == 2:
        x = _activate_first(layers, x)
    return layers.connect(layers.average_spatially(x), CIFAR_CLASSES)


def make_network(depth: int, version: int) -> Network:
    """The network of 6 n + 2 layers: three stages of n blocks."""
    blocks = (depth - 2) // 6
    return Network(
        CIFAR_SHAPE, lambda layers, x: _describe(layers, x, blocks, version), PIXELS, hold_rate(0.1), CIFAR_CLASSES
    )


DEPTHS = (20, 32, 44, 56, 110)
