"""What a precision means: the type that is computed in, the layers that TensorFlow lacks in it, and proof of it."""

from typing import Any, Sequence

import tensorflow as tf

_TYPES = {"fp32": tf.float32, "tf32": tf.float32, "fp16": tf.float16, "bf16": tf.bfloat16}

FLOAT32_BITS = 23
"""Bits after the point that a float32 keeps; TF32 keeps 10 of them, bfloat16 7."""


def choose_type(precision: str) -> Any:
    """TensorFlow's type of images, activations and cast weights. TF32 is float32 that is multiplied differently."""
    return _TYPES[precision]


PROBES = [1.0 + 2.0**-n for n in range(1, FLOAT32_BITS + 1)]
"""Each needs one bit more than the one before; rounded to less, it is 1."""


def count_multiply_bits(device: str) -> int:
    """How many bits after the point of a float32 survive a matrix product on this device: 23, or 10 with TF32.

    The probes are multiplied by the identity: nothing is added up, so that only the rounding of the factors shows. The
    matrices are 512 × 512, which tensor cores take when they may.
    """
    size = 512
    with tf.device(device):
        rows = [[PROBES[i % FLOAT32_BITS]] for i in range(size)]
        product = tf.matmul(tf.tile(tf.constant(rows), [1, size]), tf.eye(size)).numpy()
    return count_kept_bits(product[:FLOAT32_BITS, 0])


def count_kept_bits(products: Sequence[float]) -> int:
    """The bits that every probe up to here kept, given what became of the probes."""
    kept = 0
    while kept < FLOAT32_BITS and products[kept] == PROBES[kept]:
        kept += 1
    return kept
