"""The vision transformer ViT-B/16: 12 blocks, width 768, 12 heads, patches of 16x16 pixels, no dropout."""

from typing import Any

import tensorflow as tf

from payload.models.layers import Layers
from payload.models.network import IMAGENET_CLASSES, Network, hold_rate
from payload.models.transformer import START, attend, feed_forward, normalise_tokens

_WIDTH = 768
_EPSILON = 1e-6


def _describe(layers: Layers, x: Any) -> Any:
    x = layers.add_bias(layers.convolve(x, _WIDTH, 16, 16, "VALID"))
    if layers.data_format == "NCHW":
        x = tf.transpose(x, [0, 2, 3, 1])
    patches = int(x.shape[1]) * int(x.shape[2])
    x = tf.reshape(x, [-1, patches, _WIDTH])
    first = tf.cast(layers.take("class", (1, 1, _WIDTH), tf.zeros), x.dtype)
    x = tf.concat([tf.tile(first, [int(x.shape[0]), 1, 1]), x], 1)
    x += tf.cast(layers.take("position", (1, patches + 1, _WIDTH), START), x.dtype)
    for _ in range(12):
        x += attend(layers, normalise_tokens(layers, x, _EPSILON), 12, 0.0)
        x += feed_forward(layers, normalise_tokens(layers, x, _EPSILON))
    x = normalise_tokens(layers, x, _EPSILON)
    return layers.connect(x[:, 0], IMAGENET_CLASSES, initial=START)


# Images that are normalised, as the model's own training has them.
VIT_B16 = Network((224, 224, 3), _describe, (0.0, 1.0), hold_rate(1e-3))
