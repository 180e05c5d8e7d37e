"""Residual networks of bottleneck blocks for ImageNet, in the three versions of tf_cnn_benchmarks.

Version 1 has its stride on the block's first 1x1 convolution, version 1.5 on the 3x3 convolution, which is 6 % more
work with the same parameters. Version 2 normalises before the convolutions.
"""

from typing import Any, Callable, Sequence, Tuple

from payload.models.layers import Layers
from payload.models.network import IMAGENET_CLASSES, PIXELS, Network

_IMAGES_PER_EPOCH = 1281167


def pad_convolve(layers: Layers, x: Any, filters: int, kernel: int, stride: int = 1) -> Any:
    """A convolution, padded by the same on all sides: SAME would pad a strided one more below and to the right."""
    if kernel > 1 and stride > 1:
        return layers.convolve(layers.pad(x, kernel // 2, kernel // 2), filters, kernel, stride, "VALID")
    return layers.convolve(x, filters, kernel, stride)


def _convolve(layers: Layers, x: Any, filters: int, kernel: int, stride: int = 1) -> Any:
    return layers.normalise(pad_convolve(layers, x, filters, kernel, stride), 0.9, 1e-5)


def _activate_first(layers: Layers, x: Any) -> Any:
    # Not the constants of the other normalisations: the reference leaves its builder's defaults here.
    return layers.relu(layers.normalise(x, 0.999, 1e-3, scaled=False))


def _add_block(layers: Layers, x: Any, filters: int, strides: Tuple[int, int]) -> Any:
    """Version 1 and 1.5. strides: of the first and of the second convolution."""
    shortcut = x
    if layers.channels(x) != 4 * filters:
        shortcut = _convolve(layers, x, 4 * filters, 1, strides[0] * strides[1])
    x = layers.relu(_convolve(layers, x, filters, 1, strides[0]))
    x = layers.relu(_convolve(layers, x, filters, 3, strides[1]))
    return layers.relu(shortcut + _convolve(layers, x, 4 * filters, 1))


def _add_block_1(layers: Layers, x: Any, filters: int, stride: int) -> Any:
    return _add_block(layers, x, filters, (stride, 1))


def _add_block_1_5(layers: Layers, x: Any, filters: int, stride: int) -> Any:
    return _add_block(layers, x, filters, (1, stride))


def _add_block_2(layers: Layers, x: Any, filters: int, stride: int) -> Any:
    shortcut = x
    projected = layers.channels(x) != 4 * filters
    x = _activate_first(layers, x)
    if projected:
        shortcut = layers.convolve(x, 4 * filters, 1, stride)
    x = layers.relu(_convolve(layers, x, filters, 1, stride))
    x = layers.relu(_convolve(layers, x, filters, 3))
    return shortcut + layers.convolve(x, 4 * filters, 1)


def _describe(layers: Layers, x: Any, blocks: Sequence[int], add: Callable[[Layers, Any, int, int], Any]) -> Any:
    x = layers.relu(_convolve(layers, x, 64, 7, 2))
    x = layers.max_pool(x, 3, 2, "SAME")
    for stage, count in enumerate(blocks):
        for block in range(count):
            x = add(layers, x, 64 << stage, 2 if stage > 0 and block == 0 else 1)
    if add is _add_block_2:
        x = _activate_first(layers, x)
    return layers.connect(layers.average_spatially(x), IMAGENET_CLASSES)


def _choose_rate(batch_size: int) -> Tuple[float, int]:
    # As the reference: rises from 0 over five epochs, so that it stays near 0 for as long as anybody measures.
    return 0.128 * batch_size / 256.0, 5 * _IMAGES_PER_EPOCH // batch_size


def _make_network(blocks: Sequence[int], add: Callable[[Layers, Any, int, int], Any] = _add_block_1) -> Network:
    return Network((224, 224, 3), lambda layers, x: _describe(layers, x, blocks, add), PIXELS, _choose_rate)


_BLOCKS_50, _BLOCKS_101, _BLOCKS_152 = (3, 4, 6, 3), (3, 4, 23, 3), (3, 8, 36, 3)

RESNET50 = _make_network(_BLOCKS_50)
RESNET101 = _make_network(_BLOCKS_101)
RESNET152 = _make_network(_BLOCKS_152)
RESNET50_V1_5 = _make_network(_BLOCKS_50, _add_block_1_5)
RESNET101_V1_5 = _make_network(_BLOCKS_101, _add_block_1_5)
RESNET152_V1_5 = _make_network(_BLOCKS_152, _add_block_1_5)
RESNET50_V2 = _make_network(_BLOCKS_50, _add_block_2)
RESNET101_V2 = _make_network(_BLOCKS_101, _add_block_2)
RESNET152_V2 = _make_network(_BLOCKS_152, _add_block_2)
