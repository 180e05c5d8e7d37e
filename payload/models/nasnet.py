"""NASNet-A: cells of five pairs of operations, each on the outputs of the two cells before or on earlier pairs.

As tf_cnn_benchmarks builds it, which leaves the settings of the paper's authors out: every convolution has a bias and a
ReLU, and batch normalisation, which comes after that, has no scale. The number of parameters is the same.
"""

from typing import Any, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from payload.models.layers import Layers, scaled_normal
from payload.models.network import CIFAR_CLASSES, CIFAR_SHAPE, IMAGENET_CLASSES, PIXELS, Network, hold_rate

# (operation, what it works on): 0 is this cell's input, 1 the cell's before, 2 to 6 the sums of the pairs so far.
_Pair = Tuple[Tuple[str, int], Tuple[str, int]]

_Cell = NamedTuple("_Cell", [("pairs", Sequence[_Pair]), ("outputs", Sequence[int])])

_NORMAL = _Cell(
    (
        (("separable5", 0), ("separable3", 1)),
        (("separable5", 1), ("separable3", 1)),
        (("average", 0), ("none", 1)),
        (("average", 1), ("average", 1)),
        (("separable3", 0), ("none", 0)),
    ),
    outputs=(1, 2, 3, 4, 5, 6),
)
_REDUCTION = _Cell(
    (
        (("separable5", 0), ("separable7", 1)),
        (("max", 0), ("separable7", 1)),
        (("average", 0), ("separable5", 1)),
        (("none", 3), ("average", 2)),
        (("separable3", 2), ("max", 0)),
    ),
    outputs=(3, 4, 5, 6),
)

_Plan = NamedTuple(
    "_Plan",
    [
        ("cells", int),
        ("filters", int),
        ("stem_filters", int),
        ("stem_cells", int),
        ("skip_reduction", bool),
        ("kept", float),
        ("kept_after", int),
    ],
)
"""One network. `skip_reduction`: the cell after a reduction gets the output of the cell before it, not the reduction's
input. `kept`: the share of the paths that survive in the last cell once training is over, after `kept_after` steps."""

# The reference drops ever more paths over the whole training; a measurement stays at its beginning, as if at this step.
_STEP = 1000


class _Cells:
    """Adds cells to a network. The cell's own position decides how many of its paths are dropped."""

    def __init__(self, layers: Layers, plan: _Plan) -> None:
        self._layers = layers
        self._plan = plan
        self._total = plan.cells + 2 + plan.stem_cells
        self._done = 0

    def add(self, cell: _Cell, x: Any, before: Optional[Any], scale: float) -> Any:
        """One cell. before: the output of the cell before the last; scale: of the number of filters."""
        layers = self._layers
        filters = int(self._plan.filters * scale)
        stride = 2 if cell is _REDUCTION else 1
        other = x if before is None else self._fit(before, x, filters)
        states = [self.project(layers.relu(x), filters), other]
        for pair in cell.pairs:
            left, right = [self._operate(states[i], name, filters, stride if i < 2 else 1) for name, i in pair]
            states.append(left + right)
        self._done += 1
        outputs = [states[i] for i in cell.outputs]
        return layers.join([y if layers.channels(y) == filters else self.project(y, filters) for y in outputs])

    def _operate(self, x: Any, name: str, filters: int, stride: int) -> Any:
        layers = self._layers
        if name == "none":
            if stride > 1 or layers.channels(x) != filters:
                x = self.project(layers.relu(x), filters, stride=stride)
            return x
        if name.startswith("separable"):
            return self._drop_path(self._separate(x, int(name[-1]), filters, stride))
        pool = layers.average_pool if name == "average" else layers.max_pool
        x = pool(x, 3, stride, "SAME")
        return self._drop_path(x if layers.channels(x) == filters else self.project(x, filters))

    def _separate(self, x: Any, kernel: int, filters: int, stride: int) -> Any:
        """Twice ReLU, a convolution of every channel, one across them. In float32 always, as the reference does."""
        layers = self._layers
        dtype = x.dtype
        x = tf.cast(x, tf.float32)
        for s in (stride, 1):
            x = layers.convolve_depthwise(layers.relu(x), kernel, s, scaled_normal(1.0, kernel * kernel))
            x = self.project(x, filters)
        return tf.cast(x, dtype)

    def _fit(self, before: Any, x: Any, filters: int) -> Any:
        """An earlier cell's output in the size and the number of channels of this cell."""
        layers = self._layers
        if layers.height(before) != layers.height(x):
            return self._halve(layers.relu(before), filters)
        if layers.channels(before) != filters:
            return self.project(layers.relu(before), filters)
        return before

    def _halve(self, x: Any, filters: int) -> Any:
        """Every other pixel, and the ones beside them one further down and right, in half the channels each."""
        layers = self._layers
        first = layers.convolve_bias_relu(layers.average_pool(x, 1, 2), filters // 2, 1)
        shifted = layers.pad(x, 0, 1)
        shifted = shifted[:, 1:, 1:, :] if layers.data_format == "NHWC" else shifted[:, :, 1:, 1:]
        second = layers.convolve_bias_relu(layers.average_pool(shifted, 1, 2), filters // 2, 1)
        return _normalise(layers, layers.join([first, second]))

    def project(self, x: Any, filters: int, kernel: int = 1, stride: int = 1, padding: str = "SAME") -> Any:
        """A convolution and its normalisation."""
        return _normalise(self._layers, self._layers.convolve_bias_relu(x, filters, kernel, stride, padding))

    def _drop_path(self, x: Any) -> Any:
        """Now and then, in training, an image does without this path."""
        if not self._layers.training or self._plan.kept == 1.0:
            return x
        dropped = (1.0 - self._plan.kept) * (self._done + 1.0) / self._total * _STEP / self._plan.kept_after
        kept = tf.constant(1.0 - dropped, x.dtype)
        draw = tf.random.uniform([int(x.shape[0]), 1, 1, 1], dtype=x.dtype)
        return x / kept * tf.floor(kept + draw)


def _normalise(layers: Layers, x: Any) -> Any:
    return layers.normalise(x, 0.999, 1e-3, scaled=False, decayed=True)


def _describe(layers: Layers, x: Any, plan: _Plan, classes: int) -> Any:
    cells = _Cells(layers, plan)
    strided = (2, "VALID") if plan.stem_cells else (1, "SAME")
    x = cells.project(x, plan.stem_filters, 3, *strided)
    outputs = [None, x]
    for i in range(plan.stem_cells):
        x = cells.add(_REDUCTION, x, outputs[-2], 2.0 ** (i - plan.stem_cells))
        outputs.append(x)
    scale = 1.0
    reductions = (plan.cells // 3, plan.cells * 2 // 3)
    for i in range(plan.cells):
        before = outputs[-2]
        if i in reductions:
            scale *= 2.0
            x = cells.add(_REDUCTION, x, before, scale)
            outputs.append(x)
            before = before if plan.skip_reduction else outputs[-2]
        x = cells.add(_NORMAL, x, before, scale)
        outputs.append(x)
    return layers.connect(layers.average_spatially(layers.relu(x)), classes)


def _make_network(plan: _Plan, shape: Tuple[int, int, int], classes: int, rate: float) -> Network:
    return Network(shape, lambda layers, x: _describe(layers, x, plan, classes), PIXELS, hold_rate(rate), classes)


_MOBILE = _Plan(12, 44, 32, 2, False, 1.0, 250000)
_LARGE = _Plan(18, 168, 96, 2, True, 0.7, 250000)
_CIFAR10 = _Plan(18, 32, 96, 0, False, 0.6, 937500)

NASNET = _make_network(_MOBILE, (224, 224, 3), IMAGENET_CLASSES, 0.005)
NASNETLARGE = _make_network(_LARGE, (331, 331, 3), IMAGENET_CLASSES, 0.005)
# At the reference's 0.025 the loss doubles within twenty steps, and the logits grow on.
NASNET_CIFAR10 = _make_network(_CIFAR10, CIFAR_SHAPE, CIFAR_CLASSES, 0.001)
