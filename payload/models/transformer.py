"""What transformers are made of. Tokens are [batch, tokens, width]; every product is plain, no attention is fused."""

from typing import Any

import tensorflow as tf

from payload.models.layers import Layers, plain_normal

START = plain_normal(0.02)


def connect_tokens(layers: Layers, x: Any, units: int) -> Any:
    """The same dense layer for every token: [batch, tokens, n] to [batch, tokens, units]."""
    _, tokens, width = x.shape.as_list()
    y = layers.connect(tf.reshape(x, [-1, width]), units, initial=START)
    return tf.reshape(y, [-1, tokens, units])


def normalise_tokens(layers: Layers, x: Any, epsilon: float) -> Any:
    """Every token to mean 0 and variance 1 over its width, then scaled and shifted; in float32 in any precision."""
    shape = (int(x.shape[-1]),)
    scale = layers.take("layer_norm_scale", shape, tf.ones, decayed=False)
    offset = layers.take("layer_norm_bias", shape, tf.zeros, decayed=False)
    wide = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(wide, [-1], keepdims=True)
    return tf.cast(tf.nn.batch_normalization(wide, mean, variance, offset, scale, epsilon), x.dtype)


def attend(layers: Layers, x: Any, heads: int, rate: float) -> Any:
    """Self-attention of every token to all. rate: of the dropout of the attention's weights."""
    _, tokens, width = x.shape.as_list()
    size = width // heads
    query, key, value = [
        tf.transpose(tf.reshape(connect_tokens(layers, x, width), [-1, tokens, heads, size]), [0, 2, 1, 3])
        for _ in range(3)
    ]
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * (1.0 / size**0.5))
    if rate:
        weights = layers.drop(weights, rate)
    y = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
    return connect_tokens(layers, tf.reshape(y, [-1, tokens, width]), width)


def feed_forward(layers: Layers, x: Any) -> Any:
    """Two dense layers, four times as wide between them, with GELU by the error function."""
    width = int(x.shape[-1])
    y = connect_tokens(layers, x, 4 * width)
    y = 0.5 * y * (1.0 + tf.math.erf(y * 0.5**0.5))
    return connect_tokens(layers, y, width)
