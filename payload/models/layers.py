"""The layer builder: what every network is made of, on raw TensorFlow operations that exist from 2.3 on.

There is no Keras here: the batch normalisation of Keras 3 is not fused and costs a fifth of resnet50's speed, so that
the number would move with the container and not with the hardware.
"""

from typing import Any, Callable, Dict, List, Optional, Tuple

import tensorflow as tf

Initial = Callable[[Tuple[int, ...]], Any]


def scaled_normal(gain: float, fan_in: int) -> Initial:
    """Initial values: truncated normal of variance gain / fan_in, corrected for what the truncation cuts off."""
    deviation = (gain / fan_in) ** 0.5 / 0.87962566103423978
    return lambda shape: tf.random.truncated_normal(shape, stddev=deviation)


def plain_normal(deviation: float) -> Initial:
    """Initial values: truncated normal of this standard deviation before truncation."""
    return lambda shape: tf.random.truncated_normal(shape, stddev=deviation)


class Weight:
    """One variable a network asked for: what it is and, once made, the variable itself (float32 always)."""

    def __init__(self, name: str, shape: Tuple[int, ...], initial: Initial, trainable: bool, decayed: bool) -> None:
        self.name = name
        self.shape = shape
        self.initial = initial
        self.trainable = trainable
        self.decayed = decayed
        """Takes part in the L2 loss: every trainable variable but those of batch normalisation."""
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
        kernel: int,
        stride: int = 1,
        padding: str = "SAME",
        initial: Optional[Initial] = None,
    ) -> Any:
        """A square convolution without bias. Kernel: [kernel, kernel, channels in, filters]."""
        channels = self.channels(x)
        shape = (kernel, kernel, channels, filters)
        start = initial or scaled_normal(1.0, kernel * kernel * channels)
        weight = self._weights.take(self._name("conv") + "/kernel", shape, start)
        strides = self._spatial(stride)
        return tf.nn.conv2d(x, self._cast(weight), strides, padding, data_format=self.data_format)

    def convolve_bias_relu(
        self,
        x: Any,
        filters: int,
        kernel: int,
        stride: int = 1,
        padding: str = "SAME",
        initial: Optional[Initial] = None,
    ) -> Any:
        """A convolution, a bias per filter, ReLU."""
        return tf.nn.relu(self.add_bias(self.convolve(x, filters, kernel, stride, padding, initial)))

    def add_bias(self, x: Any) -> Any:
        """One bias per channel, 0 at first."""
        bias = self._weights.take(self._name("bias"), (self.channels(x),), tf.zeros)
        return tf.nn.bias_add(x, self._cast(bias), data_format=self.data_format if len(x.shape) == 4 else None)

    def normalise(self, x: Any, decay: float, epsilon: float) -> Any:
        """Fused batch normalisation with scale and offset; parameters and statistics are float32 in any precision."""
        name = self._name("norm")
        shape = (self.channels(x),)
        scale = self._weights.take(name + "/scale", shape, tf.ones, decayed=False)
        offset = self._weights.take(name + "/offset", shape, tf.zeros, decayed=False)
        mean = self._weights.take(name + "/mean", shape, tf.zeros, trainable=False)
        variance = self._weights.take(name + "/variance", shape, tf.ones, trainable=False)
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

    def normalise_locally(self, x: Any, radius: int, bias: float, alpha: float, beta: float) -> Any:
        """Local response normalisation. TensorFlow has it for NHWC only."""
        return tf.nn.local_response_normalization(x, radius, bias, alpha, beta)

    def pad(self, x: Any, width: int) -> Any:
        """Zeros on all four sides."""
        inner = [[width, width], [width, width]]
        return tf.pad(x, [[0, 0]] + inner + [[0, 0]] if self.data_format == "NHWC" else [[0, 0], [0, 0]] + inner)

    def average_spatially(self, x: Any) -> Any:
        """[batch, channels]: the mean over height and width."""
        return tf.reduce_mean(x, [1, 2] if self.data_format == "NHWC" else [2, 3])

    def flatten(self, x: Any) -> Any:
        """[batch, everything else]."""
        size = 1
        for n in x.shape[1:]:
            size *= int(n)
        return tf.reshape(x, [-1, size])

    def connect(self, x: Any, units: int, gain: float) -> Any:
        """A dense layer with bias: [batch, n] to [batch, units]. Initial variance gain / n."""
        size = int(x.shape[1])
        weight = self._weights.take(self._name("dense") + "/kernel", (size, units), plain_normal((gain / size) ** 0.5))
        return self.add_bias(tf.matmul(x, self._cast(weight)))

    def relu(self, x: Any) -> Any:
        return tf.nn.relu(x)

    def drop(self, x: Any, rate: float) -> Any:
        """Dropout, in training only."""
        return tf.nn.dropout(x, rate=rate) if self.training else x

    def channels(self, x: Any) -> int:
        return int(x.shape[1 if self.data_format == "NCHW" else -1])

    def _spatial(self, n: int) -> List[int]:
        return [1, n, n, 1] if self.data_format == "NHWC" else [1, 1, n, n]

    def _cast(self, weight: Any) -> Any:
        return tf.cast(weight, self.dtype)

    def _name(self, kind: str) -> str:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return "%s%d" % (kind, self._counts[kind])
