"""AlexNet: the networks of tf_cnn_benchmarks, and the convolutional part that the classic timing script measures."""

from typing import Any

from payload.models.layers import Layers, plain_normal
from payload.models.network import CIFAR_CLASSES, CIFAR_SHAPE, IMAGENET_CLASSES, PIXELS, Network, hold_rate


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
    return layers.connect(x, IMAGENET_CLASSES)


def _describe_convolutions(layers: Layers, x: Any) -> Any:
    start = plain_normal(0.1)
    x = layers.convolve_bias_relu(x, 64, 11, 4, initial=start)
    x = layers.max_pool(layers.normalise_locally(x, 4, 1.0, 0.001 / 9.0, 0.75), 3, 2)
    x = layers.convolve_bias_relu(x, 192, 5, initial=start)
    x = layers.max_pool(layers.normalise_locally(x, 4, 1.0, 0.001 / 9.0, 0.75), 3, 2)
    for filters in (384, 256, 256):
        x = layers.convolve_bias_relu(x, filters, 3, initial=start)
    return layers.max_pool(x, 3, 2)


def _describe_cifar10(layers: Layers, x: Any) -> Any:
    start = plain_normal(0.05)
    x = layers.relu(layers.add_bias(layers.convolve(x, 64, 5, initial=start)))
    x = layers.normalise_locally(layers.max_pool(x, 3, 2, "SAME"), 4, 1.0, 0.001 / 9.0, 0.75)
    x = layers.relu(layers.add_bias(layers.convolve(x, 64, 5, initial=start), 0.1))
    x = layers.max_pool(layers.normalise_locally(x, 4, 1.0, 0.001 / 9.0, 0.75), 3, 2, "SAME")
    x = layers.flatten(x)
    for units in (384, 192):
        x = layers.relu(layers.connect(x, units, initial=plain_normal(0.04), bias=0.1))
    return layers.connect(x, CIFAR_CLASSES)


ALEXNET = Network((227, 227, 3), _describe_alexnet, PIXELS, hold_rate(1e-8))
ALEXNET_CIFAR10 = Network(CIFAR_SHAPE, _describe_cifar10, PIXELS, hold_rate(1e-5), CIFAR_CLASSES)

# The activations grow from layer to layer, and so do the gradients: in fp16 they have to be scaled down, not up.
ALEXNET_CONV = Network(
    (224, 224, 3), _describe_convolutions, (0.0, 0.1), hold_rate(0.0), classes=None, loss_scale=2.0**-16
)
