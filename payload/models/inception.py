"""Inception 3 and 4: batch normalisation without a scale and ReLU after every convolution; no auxiliary classifier."""

from typing import Any, List, Sequence

from payload.models.branches import join_branches
from payload.models.layers import Kernel, Layers
from payload.models.network import IMAGENET_CLASSES, PIXELS, Network, hold_rate

_WIDE, _TALL = (1, 7), (7, 1)
_AVERAGE, _MAX = ("avg", 3, 1, "SAME"), ("max", 3, 1, "SAME")
_HALVE = ("max", 3, 2, "VALID")


def _convolve(layers: Layers, x: Any, filters: int, kernel: Kernel, stride: int = 1, padding: str = "SAME") -> Any:
    x = layers.convolve(x, filters, kernel, stride, padding)
    return layers.relu(layers.normalise(x, 0.999, 1e-3, scaled=False))


def _join(layers: Layers, x: Any, *branches: Sequence[Any]) -> Any:
    return join_branches(layers, x, branches, _convolve)


def _describe_3(layers: Layers, x: Any) -> Any:
    x = _convolve(layers, x, 32, 3, 2, "VALID")
    x = _convolve(layers, x, 32, 3, 1, "VALID")
    x = _convolve(layers, x, 64, 3)
    x = layers.max_pool(x, 3, 2)
    x = _convolve(layers, x, 80, 1, 1, "VALID")
    x = _convolve(layers, x, 192, 3, 1, "VALID")
    x = layers.max_pool(x, 3, 2)
    for n in (32, 64, 64):
        x = _join(layers, x, [(64, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)], [_AVERAGE, (n, 1)])
    x = _join(layers, x, [(384, 3, 2, "VALID")], [(64, 1), (96, 3), (96, 3, 2, "VALID")], [_HALVE])
    for n in (128, 160, 160, 192):
        twice = [(n, 1), (n, _WIDE), (192, _TALL)]
        four_times = [(n, 1), (n, _TALL), (n, _WIDE), (n, _TALL), (192, _WIDE)]
        x = _join(layers, x, [(192, 1)], twice, four_times, [_AVERAGE, (192, 1)])
    last = (192, 3, 2, "VALID")
    x = _join(layers, x, [(192, 1), (320, 3, 2, "VALID")], [(192, 1), (192, _WIDE), (192, _TALL), last], [_HALVE])
    for pool in (_AVERAGE, _MAX):
        split = [[(384, (1, 3))], [(384, (3, 1))]]
        x = _join(layers, x, [(320, 1)], [(384, 1), split], [(448, 1), (384, 3), split], [pool, (192, 1)])
    return layers.connect(layers.flatten(layers.average_pool(x, 8, 1)), IMAGENET_CLASSES)


def _describe_4(layers: Layers, x: Any) -> Any:
    x = _convolve(layers, x, 32, 3, 2, "VALID")
    x = _convolve(layers, x, 32, 3, 1, "VALID")
    x = _convolve(layers, x, 64, 3)
    x = _join(layers, x, [_HALVE], [(96, 3, 2, "VALID")])
    last = (96, 3, 1, "VALID")
    x = _join(layers, x, [(64, 1), last], [(64, 1), (64, _TALL), (64, _WIDE), last])
    x = _join(layers, x, [(192, 3, 2, "VALID")], [_HALVE])
    for _ in range(4):
        x = _join(layers, x, [_AVERAGE, (96, 1)], [(96, 1)], [(64, 1), (96, 3)], [(64, 1), (96, 3), (96, 3)])
    x = _join(layers, x, [_HALVE], [(384, 3, 2, "VALID")], [(192, 1), (224, 3), (256, 3, 2, "VALID")])
    for _ in range(7):
        twice = [(192, 1), (224, _WIDE), (256, _TALL)]
        four_times = [(192, 1), (192, _WIDE), (224, _TALL), (224, _WIDE), (256, _TALL)]
        x = _join(layers, x, [_AVERAGE, (128, 1)], [(384, 1)], twice, four_times)
    longer = [(256, 1), (256, _WIDE), (320, _TALL), (320, 3, 2, "VALID")]
    x = _join(layers, x, [_HALVE], [(192, 1), (192, 3, 2, "VALID")], longer)
    for _ in range(3):
        short: List[Any] = [(384, 1), [[(256, (1, 3))], [(256, (3, 1))]]]
        long: List[Any] = [(384, 1), (448, (1, 3)), (512, (3, 1)), [[(256, (3, 1))], [(256, (1, 3))]]]
        x = _join(layers, x, [_AVERAGE, (256, 1)], [(256, 1)], short, long)
    return layers.connect(layers.drop(layers.average_spatially(x), 0.2), IMAGENET_CLASSES)


INCEPTION3 = Network((299, 299, 3), _describe_3, PIXELS, hold_rate(0.005))
INCEPTION4 = Network((299, 299, 3), _describe_4, PIXELS, hold_rate(0.005))
