"""Next to no work: what a step costs apart from the model."""

from typing import Any, Tuple

from payload.models.layers import Layers
from payload.models.network import CIFAR_CLASSES, CIFAR_SHAPE, IMAGENET_CLASSES, PIXELS, Network, hold_rate


def _make_network(shape: Tuple[int, int, int], classes: int) -> Network:
    def describe(layers: Layers, x: Any) -> Any:
        x = layers.flatten(x)
        for units in (1, 4096):
            x = layers.relu(layers.connect(x, units, gain=2.0))
        return layers.connect(x, classes)

    return Network(shape, describe, PIXELS, hold_rate(1e-6), classes)


TRIVIAL = _make_network((227, 227, 3), IMAGENET_CLASSES)
TRIVIAL_CIFAR10 = _make_network(CIFAR_SHAPE, CIFAR_CLASSES)
