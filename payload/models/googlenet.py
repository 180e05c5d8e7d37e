"""GoogLeNet: bias and ReLU after every convolution; no normalisation, no auxiliary classifiers, no dropout."""

from typing import Any, List

from payload.models.branches import join_branches
from payload.models.layers import Layers
from payload.models.network import IMAGENET_CLASSES, PIXELS, Network, hold_rate

# Filters of the branches 1x1; 1x1 and 3x3; 1x1 and 5x5; pool and 1x1. None: a max pool between the stages.
_MODULES = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    None,
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    None,
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)


def _describe(layers: Layers, x: Any) -> Any:
    x = layers.convolve_bias_relu(x, 64, 7, 2)
    x = layers.max_pool(x, 3, 2, "SAME")
    x = layers.convolve_bias_relu(x, 64, 1)
    x = layers.convolve_bias_relu(x, 192, 3)
    x = layers.max_pool(x, 3, 2, "SAME")
    for module in _MODULES:
        if module is None:
            x = layers.max_pool(x, 3, 2, "SAME")
            continue
        a, b, c, d, e, f = module
        branches: List[List[Any]] = [[(a, 1)], [(b, 1), (c, 3)], [(d, 1), (e, 5)], [("max", 3, 1, "SAME"), (f, 1)]]
        x = join_branches(layers, x, branches, Layers.convolve_bias_relu)
    return layers.connect(layers.flatten(layers.average_pool(x, 7, 1)), IMAGENET_CLASSES)


GOOGLENET = Network((224, 224, 3), _describe, PIXELS, hold_rate(1e-6))
