"""BERT base, uncased: 12 layers, width 768, 12 heads, fine-tuned to tell three classes of sentences.

There is no text: tokens are drawn as numbers, as pixels are, and cut to whole ones. The whole of every sequence is
filled, all of it in the first segment.
"""

from typing import Any

import tensorflow as tf

from payload.models.layers import Layers
from payload.models.network import Network, hold_rate
from payload.models.transformer import START, attend, feed_forward, normalise_tokens

_WIDTH = 768
_VOCABULARY = 30522
_LONGEST = 512
_EPSILON = 1e-12
_RATE = 0.1
_CLASSES = 3

# Truncated at two deviations: from 1000 to 29000, within the vocabulary. float16 and bfloat16 reach fewer of them.
_TOKENS = (15000.0, 7000.0)


def _embed(table: Any, tokens: Any) -> Any:
    """Rows of a table [n, width] for int32 tokens [batch, sequence].

    The gradient is summed up into a whole table at once: TensorFlow's own is a list of rows, which has to be made whole
    again because the table takes part in the L2 loss.
    """

    def gather(rows: Any) -> Any:
        def differentiate(upstream: Any) -> Any:
            flat = tf.reshape(upstream, [-1, _WIDTH])
            return tf.math.unsorted_segment_sum(flat, tf.reshape(tokens, [-1]), _VOCABULARY)

        return tf.gather(rows, tokens), differentiate

    return tf.custom_gradient(gather)(table)


def _describe(layers: Layers, x: Any) -> Any:
    size = 1
    for n in x.shape[1:]:
        size *= int(n)
    tokens = tf.cast(tf.reshape(x, [-1, size]), tf.int32)
    words, positions, segments = [
        tf.cast(layers.take(kind, (rows, _WIDTH), START), layers.dtype)
        for kind, rows in (("words", _VOCABULARY), ("positions", _LONGEST), ("segments", 2))
    ]
    x = _embed(words, tokens) + positions[:size] + segments[0]
    x = layers.drop(normalise_tokens(layers, x, _EPSILON), _RATE)
    for _ in range(12):
        x = normalise_tokens(layers, x + layers.drop(attend(layers, x, 12, _RATE), _RATE), _EPSILON)
        x = normalise_tokens(layers, x + layers.drop(feed_forward(layers, x), _RATE), _EPSILON)
    pooled = tf.math.tanh(layers.connect(x[:, 0], _WIDTH, initial=START))
    return layers.connect(layers.drop(pooled, _RATE), _CLASSES, initial=START)


def make_network(sequence: int) -> Network:
    """The network for sequences of so many tokens."""
    return Network((sequence, 1, 1), _describe, _TOKENS, hold_rate(1e-3), _CLASSES)
