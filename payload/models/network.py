"""What a model is to the code that measures it."""

from typing import Any, Callable, Optional, Tuple

from payload.models.layers import Layers

Rate = Callable[[int], Tuple[float, int]]
"""Batch size -> (learning rate, steps over which it rises to that from 0; 0: from the first step on)."""


class Network:
    """One model of the catalogue, ready to be built.

    Args:
        input_shape: height, width, channels of one image; of a text: tokens, 1, 1.
        describe: adds the layers to images [batch, …] and returns logits [batch, classes], or the last activations
            where the model has no classes.
        images: mean and standard deviation of the synthetic images (truncated normal).
        learning_rate: see `Rate`.
        classes: None: the model has no labels, and its loss is the L2 loss of what it returns.
        loss_scale: what the loss is multiplied by on the way back in fp16; gradients are divided by it in float32.
    """

    def __init__(
        self,
        input_shape: Tuple[int, int, int],
        describe: Callable[[Layers, Any], Any],
        images: Tuple[float, float],
        learning_rate: Rate,
        classes: Optional[int] = 1001,
        loss_scale: float = 128.0,
    ) -> None:
        self.input_shape = input_shape
        self.describe = describe
        self.images = images
        self.learning_rate = learning_rate
        self.classes = classes
        self.loss_scale = loss_scale


PIXELS = (127.0, 60.0)
"""Mean and deviation of images that are not normalised, as tf_cnn_benchmarks makes them."""

IMAGENET_CLASSES = 1001
CIFAR_CLASSES = 11
CIFAR_SHAPE = (32, 32, 3)


def hold_rate(rate: float) -> Rate:
    """The same rate for every batch size, from the first step on.

    Where images are not normalised and nothing in the network normalises them, the reference's 0.005 makes the loss NaN
    within a few steps. A rate that only just avoids that kills the ReLUs instead, until the network multiplies zeros.
    A GPU that multiplies NaN or zeros draws less power and clocks higher, so either would measure something else. The
    rates of such networks are so small that over a thousand steps the activations stay what they were.
    """
    return lambda batch_size: (rate, 0)
