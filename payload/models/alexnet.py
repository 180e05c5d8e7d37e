"""AlexNet: the network of tf_cnn_benchmarks, and the convolutional part that the classic timing script measures."""

from typing import Any, Tuple

from payload.models.layers import Layers, plain_normal
from payload.models.network import PIXELS, Network


def _describe_alexnet(layers: Layers, x: Any) -> Any:
    x = layers.convolve_bias_relu(x, 64, 11, 4, "VALID")
    x = layers.max_pool(x, 3, 2)
    x = layers.convolve_bias_relu(x, 192, 5)
    x = layers.max_pool(x, 3, 2)
    for filters in (384, 384, 256):
        x = layers.convolve_bias_relu(x, filters, 3)
    x = layers.flatten(layers.max_pool(x, 3, 2))
    for _ in range(2):
        x = layers.drop(layers.relu(layers.connect(x, 4096, gain=2.0)), 0.5)
    return layers.connect(x, 1001, gain=1.0)


def _describe_convolutions(layers: Layers, x: Any) -> Any:
    start = plain_normal(0.1)
    x = layers.convolve_bias_relu(x, 64, 11, 4, initial=start)
    x = layers.max_pool(layers.normalise_locally(x, 4, 1.0, 0.001 / 9.0, 0.75), 3, 2)
    x = layers.convolve_bias_relu(x, 192, 5, initial=start)
    x = layers.max_pool(layers.normalise_locally(x, 4, 1.0, 0.001 / 9.0, 0.75), 3, 2)
    for filters in (384, 256, 256):
        x = layers.convolve_bias_relu(x, filters, 3, initial=start)
    return layers.max_pool(x, 3, 2)


def _choose_rate(batch_size: int) -> Tuple[float, int]:
    # The reference's 0.005 makes the loss NaN within a few steps, because the images are not normalised. A GPU that
    # multiplies NaN draws less power and clocks higher, so that rate would measure something else.
    return 1e-6, 0


ALEXNET = Network((227, 227, 3), _describe_alexnet, PIXELS, _choose_rate)

# The activations grow from layer to layer, and so do the gradients: in fp16 they have to be scaled down, not up.
ALEXNET_CONV = Network(
    (224, 224, 3), _describe_convolutions, (0.0, 0.1), lambda batch_size: (0.0, 0), classes=None, loss_scale=2.0**-16
)
