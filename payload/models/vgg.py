"""The VGG networks of 11 to 19 layers, and the variants with local normalisation and with 1x1 convolutions."""

from typing import Any, Sequence

from payload.models.layers import Layers
from payload.models.network import IMAGENET_CLASSES, PIXELS, Network, hold_rate

_FILTERS = (64, 128, 256, 512, 512)


def _describe(layers: Layers, x: Any, stages: Sequence[Sequence[int]], local: bool) -> Any:
    for stage, kernels in enumerate(stages):
        for kernel in kernels:
            x = layers.convolve_bias_relu(x, _FILTERS[stage], kernel)
        if local and stage == 0:
            # As in AlexNet's paper, to which that of VGG refers: five channels, k = 2, alpha = 1e-4, beta = 0.75.
            x = layers.normalise_locally(x, 2, 2.0, 1e-4, 0.75)
        x = layers.max_pool(x, 2, 2)
    x = layers.flatten(x)
    for _ in range(2):
        x = layers.drop(layers.relu(layers.connect(x, 4096, gain=2.0)), 0.5)
    return layers.connect(x, IMAGENET_CLASSES)


def _make_network(*stages: Sequence[int], local: bool = False) -> Network:
    """A network of five stages, each given by the kernels of its convolutions."""
    return Network((224, 224, 3), lambda layers, x: _describe(layers, x, stages, local), PIXELS, hold_rate(1e-8))


VGG11 = _make_network([3], [3], [3, 3], [3, 3], [3, 3])
VGG11_LRN = _make_network([3], [3], [3, 3], [3, 3], [3, 3], local=True)
VGG13 = _make_network([3, 3], [3, 3], [3, 3], [3, 3], [3, 3])
VGG16 = _make_network([3, 3], [3, 3], [3, 3, 3], [3, 3, 3], [3, 3, 3])
VGG16C = _make_network([3, 3], [3, 3], [3, 3, 1], [3, 3, 1], [3, 3, 1])
VGG19 = _make_network([3, 3], [3, 3], [3, 3, 3, 3], [3, 3, 3, 3], [3, 3, 3, 3])
