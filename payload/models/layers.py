"""The layer builder: what every network is made of, on raw TensorFlow operations that exist from 2.3 on.

There is no Keras here: the batch normalisation of Keras 3 is not fused and costs a fifth of resnet50's speed, so that
the number would move with the container and not with the hardware.
"""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import tensorflow as tf

Initial = Callable[[Tuple[int, ...]], Any]
Kernel = Union[int, Tuple[int, int]]
"""Height and width of a convolution's kernel; one number for a square."""


def scaled_normal(gain: float, fan_in: int) -> Initial:
    """Initial values: truncated normal of variance gain / fan_in, corrected for what the truncation cuts off."""
    deviation = (gain / fan_in) ** 0.5 / 0.87962566103423978
    return lambda shape: tf.random.truncated_normal(shape, stddev=deviation)


def plain_normal(deviation: float) -> Initial:
    """Initial values: truncated normal of this standard deviation before truncation."""
    return lambda shape: tf.random.truncated_normal(shape, stddev=deviation)


def constant(value: float) -> Initial:
    """Initial values: this one everywhere."""
    return lambda shape: tf.fill(shape, value)


class Weight:
    """One variable a network asked for: what it is and, once made, the variable itself (float32 always)."""

    def __init__(self, name: str, shape: Tuple[int, ...], initial: Initial, trainable: bool, decayed: bool) -> None:
        self.name = name
        self.shape = shape
        self.initial = initial
        self.trainable = trainable
        self.decayed = decayed
        """Takes part in the L2 loss."""
        self.variable: Any = None

    @property
    def size(self) -> int:
        product = 1
        for n in self.shape:
            product *= n
        return product


class Weights:
    """All weights of one network, in the order they are asked for.

    A network is described twice by the same function: first in a scratch graph, where placeholders stand for the
    variables and the shapes become known; then, after `create`, in the step, where the variables are used.
    """

    def __init__(self) -> None:
        self.items: List[Weight] = []
        self._created = False
        self._next = 0

    def take(
        self, name: str, shape: Tuple[int, ...], initial: Initial, trainable: bool = True, decayed: bool = True
    ) -> Any:
        """The next weight: a placeholder in the first description, the variable in the later ones."""
        if not self._created:
            self.items.append(Weight(name, shape, initial, trainable, decayed))
            return tf.compat.v1.placeholder(tf.float32, shape)
        weight = self.items[self._next]
        self._next += 1
        if (weight.name, weight.shape) != (name, shape):
            raise RuntimeError("the network asked for %s after it had described %s" % (name, weight.name))
        return weight.variable

    def create(self) -> None:
        """Make the variables on the device in scope."""
        for weight in self.items:
            weight.variable = tf.Variable(weight.initial(weight.shape), trainable=weight.trainable, name=weight.name)
        self._created = True

    def rewind(self) -> None:
        """Start again from the first weight: the network is about to be described once more."""
        self._next = 0

    @property
    def trainable(self) -> List[Weight]:
        return [w for w in self.items if w.trainable]


class Layers:
    """Adds layers to a network, one call each.

    Tensors are [batch, height, width, channels] for NHWC and [batch, channels, height, width] for NCHW, of type
    `dtype`; weights are float32 and cast where they are used. `training` switches dropout on and batch normalisation
    to the statistics of the batch.
    """

    def __init__(self, weights: Weights, data_format: str, dtype: Any, training: bool) -> None:
        self.data_format = data_format
        self.dtype = dtype
        self.training = training
        self.moving_updates: List[Tuple[Any, Any]] = []
        """(variable, what to subtract from it) for every moving average; the step applies them."""
        self._weights = weights
        self._counts: Dict[str, int] = {}

    def convolve(
        self,
        x: Any,
        filters: int,
        kernel: Kernel,
        stride: int = 1,
        padding: str = "SAME",
        initial: Optional[Initial] = None,
    ) -> Any:
        """A convolution without bias. Its variable: [height, width, channels in, filters]."""
        height, width = _split(kernel)
        channels = self.channels(x)
        start = initial or scaled_normal(1.0, height * width * channels)
        weight = self.take("conv", (height, width, channels, filters), start)
        return tf.nn.conv2d(x, tf.cast(weight, x.dtype), self._spatial(stride), padding, data_format=self.data_format)

    def convolve_depthwise(self, x: Any, kernel: int, stride: int, initial: Initial) -> Any:
        """Every channel with a filter of its own, padding SAME. Its variable: [kernel, kernel, channels, 1]."""
        weight = self.take("depthwise", (kernel, kernel, self.channels(x), 1), initial)
        cast = tf.cast(weight, x.dtype)
        return tf.nn.depthwise_conv2d(x, cast, self._spatial(stride), "SAME", data_format=self.data_format)

    def convolve_bias_relu(
        self,
        x: Any,
        filters: int,
        kernel: Kernel,
        stride: int = 1,
        padding: str = "SAME",
        initial: Optional[Initial] = None,
    ) -> Any:
        """A convolution, a bias per filter, ReLU."""
        return tf.nn.relu(self.add_bias(self.convolve(x, filters, kernel, stride, padding, initial)))

    def add_bias(self, x: Any, start: float = 0.0) -> Any:
        """One bias per channel."""
        bias = self.take("bias", (self.channels(x),), constant(start))
        data_format = self.data_format if len(x.shape) == 4 else None
        return tf.nn.bias_add(x, tf.cast(bias, x.dtype), data_format=data_format)

    def normalise(self, x: Any, decay: float, epsilon: float, scaled: bool = True, decayed: bool = False) -> Any:
        """Fused batch normalisation; parameters and statistics are float32 in any precision.

        Args:
            scaled: with a scale per channel; the offset is always there.
            decayed: scale and offset take part in the L2 loss.
        """
        name = self._name("norm")
        shape = (self.channels(x),)
        take = self._weights.take
        scale = take(name + "/scale", shape, tf.ones, decayed=decayed) if scaled else tf.ones(shape)
        offset = take(name + "/offset", shape, tf.zeros, decayed=decayed)
        mean = take(name + "/mean", shape, tf.zeros, trainable=False)
        variance = take(name + "/variance", shape, tf.ones, trainable=False)
        given = tf.zeros([0]) if self.training else None
        y = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=tf.identity(scale),
            offset=tf.identity(offset),
            mean=tf.identity(mean) if given is None else given,
            variance=tf.identity(variance) if given is None else given,
            epsilon=epsilon,
            data_format=self.data_format,
            is_training=self.training,
        )
        if self.training:
            for moving, batch in ((mean, y.batch_mean), (variance, y.batch_variance)):
                self.moving_updates.append((moving, (moving - batch) * (1.0 - decay)))
        return y.y

    def max_pool(self, x: Any, size: int, stride: int, padding: str = "VALID") -> Any:
        return tf.nn.max_pool2d(x, self._spatial(size), self._spatial(stride), padding, data_format=self.data_format)

    def average_pool(self, x: Any, size: int, stride: int, padding: str = "VALID") -> Any:
        return tf.nn.avg_pool2d(x, self._spatial(size), self._spatial(stride), padding, data_format=self.data_format)

    def normalise_locally(self, x: Any, radius: int, bias: float, alpha: float, beta: float) -> Any:
        """Local response normalisation over 2 * radius + 1 channels.

        TensorFlow has it for NHWC only, and float32 is the only type for which it has it on every device: other tensors
        are turned and cast there and back.
        """
        y = tf.cast(x, tf.float32)
        if self.data_format == "NHWC":
            y = tf.nn.local_response_normalization(y, radius, bias, alpha, beta)
        else:
            y = tf.nn.local_response_normalization(tf.transpose(y, [0, 2, 3, 1]), radius, bias, alpha, beta)
            y = tf.transpose(y, [0, 3, 1, 2])
        return tf.cast(y, x.dtype)

    def pad(self, x: Any, before: int, after: int) -> Any:
        """Zeros above and to the left, below and to the right."""
        inner = [[before, after], [before, after]]
        return tf.pad(x, [[0, 0]] + inner + [[0, 0]] if self.data_format == "NHWC" else [[0, 0], [0, 0]] + inner)

    def pad_channels(self, x: Any, width: int) -> Any:
        """Channels of zeros before the first and after the last."""
        outer = [[0, 0], [0, 0]]
        channels = [[width, width]]
        return tf.pad(x, [[0, 0]] + (channels + outer if self.data_format == "NCHW" else outer + channels))

    def join(self, tensors: Sequence[Any]) -> Any:
        """Their channels one after the other."""
        return tf.concat(list(tensors), 1 if self.data_format == "NCHW" else 3)

    def average_spatially(self, x: Any) -> Any:
        """[batch, channels]: the mean over height and width."""
        return tf.reduce_mean(x, [1, 2] if self.data_format == "NHWC" else [2, 3])

    def flatten(self, x: Any) -> Any:
        """[batch, everything else]."""
        size = 1
        for n in x.shape[1:]:
            size *= int(n)
        return tf.reshape(x, [-1, size])

    def connect(
        self, x: Any, units: int, gain: float = 1.0, initial: Optional[Initial] = None, bias: float = 0.0
    ) -> Any:
        """A dense layer with bias: [batch, n] to [batch, units]. Initial variance gain / n where none is given."""
        size = int(x.shape[1])
        start = initial or plain_normal((gain / size) ** 0.5)
        weight = self.take("dense", (size, units), start)
        return self.add_bias(tf.matmul(x, tf.cast(weight, x.dtype)), bias)

    def relu(self, x: Any) -> Any:
        return tf.nn.relu(x)

    def drop(self, x: Any, rate: float) -> Any:
        """Dropout, in training only."""
        return tf.nn.dropout(x, rate=rate) if self.training else x

    def channels(self, x: Any) -> int:
        return int(x.shape[1 if self.data_format == "NCHW" else -1])

    def height(self, x: Any) -> int:
        return int(x.shape[2 if self.data_format == "NCHW" else 1])

    def take(self, kind: str, shape: Tuple[int, ...], initial: Initial, decayed: bool = True) -> Any:
        """The next trainable variable of this kind, in float32."""
        return self._weights.take(self._name(kind), shape, initial, decayed=decayed)

    def _spatial(self, n: int) -> List[int]:
        return [1, n, n, 1] if self.data_format == "NHWC" else [1, 1, n, n]

    def _name(self, kind: str) -> str:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return "%s%d" % (kind, self._counts[kind])


def _split(kernel: Kernel) -> Tuple[int, int]:
    return (kernel, kernel) if isinstance(kernel, int) else kernel
