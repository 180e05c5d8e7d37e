"""LeNet as in the MNIST tutorial, on three channels and with the classes of ImageNet."""

from typing import Any

from payload.models.layers import Layers
from payload.models.network import IMAGENET_CLASSES, PIXELS, Network, hold_rate


def _describe(layers: Layers, x: Any) -> Any:
    for filters in (32, 64):
        x = layers.max_pool(layers.convolve_bias_relu(x, filters, 5), 2, 2)
    x = layers.relu(layers.connect(layers.flatten(x), 512, gain=2.0))
    return layers.connect(x, IMAGENET_CLASSES)


LENET = Network((28, 28, 3), _describe, PIXELS, hold_rate(1e-8))
