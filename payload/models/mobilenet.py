"""MobileNet version 2, width 1.0.

As in tf_cnn_benchmarks, its own 1001 logits are followed by one more dense layer of 1001, and batch normalisation takes
part in the L2 loss.
"""

from typing import Any

import tensorflow as tf

from payload.models.layers import Layers, plain_normal
from payload.models.network import IMAGENET_CLASSES, PIXELS, Network, hold_rate

_START = plain_normal(0.09)

# (filters, expansion, blocks, stride of the first block)
_STAGES = (
    (16, 1, 1, 1),
    (24, 6, 2, 2),
    (32, 6, 3, 2),
    (64, 6, 4, 2),
    (96, 6, 3, 1),
    (160, 6, 3, 2),
    (320, 6, 1, 1),
)


def _normalise(layers: Layers, x: Any) -> Any:
    return layers.normalise(x, 0.997, 1e-3, decayed=True)


def _convolve(layers: Layers, x: Any, filters: int, kernel: int, stride: int = 1) -> Any:
    return tf.nn.relu6(_normalise(layers, layers.convolve(x, filters, kernel, stride, initial=_START)))


def _add_block(layers: Layers, x: Any, filters: int, expansion: int, stride: int) -> Any:
    """Expand, convolve every channel, project; the shortcut joins where nothing changes its shape."""
    channels = layers.channels(x)
    y = x if expansion == 1 else _convolve(layers, x, expansion * channels, 1)
    y = tf.nn.relu6(_normalise(layers, layers.convolve_depthwise(y, 3, stride, _START)))
    y = _normalise(layers, layers.convolve(y, filters, 1, initial=_START))
    return y + x if stride == 1 and channels == filters else y


def _describe(layers: Layers, x: Any) -> Any:
    x = _convolve(layers, x, 32, 3, 2)
    for filters, expansion, blocks, stride in _STAGES:
        for block in range(blocks):
            x = _add_block(layers, x, filters, expansion, stride if block == 0 else 1)
    x = _convolve(layers, x, 1280, 1)
    x = layers.drop(layers.average_pool(x, layers.height(x), 1), 0.2)
    x = layers.add_bias(layers.convolve(x, IMAGENET_CLASSES, 1, initial=_START))
    return layers.connect(layers.flatten(x), IMAGENET_CLASSES)


MOBILENET = Network((224, 224, 3), _describe, PIXELS, hold_rate(0.005))
