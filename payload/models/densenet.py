"""Dense networks for CIFAR-10: every layer's channels are added to all before them.

Between the blocks the reference goes down to twice the growth, not to half the channels as the paper does. So does
this.
"""

from typing import Any

from payload.models.layers import Layers, plain_normal
from payload.models.network import CIFAR_CLASSES, CIFAR_SHAPE, PIXELS, Network, hold_rate


def _normalise_relu(layers: Layers, x: Any) -> Any:
    return layers.relu(layers.normalise(x, 0.9, 1e-5))


def _convolve(layers: Layers, x: Any, filters: int, kernel: int) -> Any:
    start = plain_normal((2.0 / 9.0 / filters) ** 0.5)
    return layers.add_bias(layers.convolve(x, filters, kernel, initial=start))


def _describe(layers: Layers, x: Any, count: int, growth: int) -> Any:
    x = layers.add_bias(layers.convolve(x, 16, 3))
    for block in range(3):
        if block > 0:
            x = _convolve(layers, _normalise_relu(layers, x), 2 * growth, 1)
            x = layers.average_pool(layers.relu(x), 2, 2)
        for _ in range(count):
            x = layers.join([x, _convolve(layers, _normalise_relu(layers, x), growth, 3)])
    return layers.connect(layers.average_spatially(_normalise_relu(layers, x)), CIFAR_CLASSES)


def _make_network(count: int, growth: int) -> Network:
    """A network of three blocks of `count` layers that add `growth` channels each."""
    return Network(
        CIFAR_SHAPE, lambda layers, x: _describe(layers, x, count, growth), PIXELS, hold_rate(0.1), CIFAR_CLASSES
    )


DENSENET40_K12 = _make_network(12, 12)
DENSENET100_K12 = _make_network(32, 12)
DENSENET100_K24 = _make_network(32, 24)
