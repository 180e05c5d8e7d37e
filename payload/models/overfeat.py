"""OverFeat, the fast variant."""

from typing import Any

from payload.models.layers import Layers
from payload.models.network import IMAGENET_CLASSES, PIXELS, Network, hold_rate


def _describe(layers: Layers, x: Any) -> Any:
    x = layers.convolve_bias_relu(x, 96, 11, 4, "VALID")
    x = layers.max_pool(x, 2, 2)
    x = layers.convolve_bias_relu(x, 256, 5, 1, "VALID")
    x = layers.max_pool(x, 2, 2)
    for filters in (512, 1024, 1024):
        x = layers.convolve_bias_relu(x, filters, 3)
    x = layers.flatten(layers.max_pool(x, 2, 2))
    for units in (3072, 4096):
        x = layers.drop(layers.relu(layers.connect(x, units, gain=2.0)), 0.5)
    return layers.connect(x, IMAGENET_CLASSES)


OVERFEAT = Network((231, 231, 3), _describe, PIXELS, hold_rate(1e-8))
