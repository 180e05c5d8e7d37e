"""A cell made into something to time: variables on the device and one step as a TensorFlow function."""

from typing import Any, Callable, Dict, List, Optional, Tuple

import tensorflow as tf

from payload.cell import Cell
from payload.measure import NotFinite, Step
from payload.models.counts import count_macs
from payload.models.layers import Layers, Weights
from payload.models.network import Network

_WEIGHT_DECAY = 4e-5
_SEED = 1234


class Workload:
    """One cell, built on one device.

    Attributes:
        step: takes one step; see `payload.measure.Step`.
        facts: `workload` of the result document, counted in the graph.
        device: TensorFlow's full name of the device that holds the variables.
    """

    def __init__(self, cell: Cell, network: Network, device: str) -> None:
        self._cell = cell
        self._network = network
        self._dtype = tf.float16 if cell.precision == "fp16" else tf.float32
        self._weights = Weights()
        self._fetched: List[Any] = []
        self._device = device
        self.facts = self._describe()
        tf.random.set_seed(_SEED)
        with tf.device(device):
            self._weights.create()
            self._images = self._draw_images()
            self._taken = tf.Variable(0.0, trainable=False, name="steps_taken")
        self.device = str(self._images.device)
        self.step = self._choose_step()

    def check_output(self) -> None:
        """What the last step fetched must be finite. Raises NotFinite."""
        import numpy

        what = "logits" if self._cell.phase == "forward" else "gradients"
        if not all(numpy.isfinite(array).all() for array in self._fetched):
            raise NotFinite(
                what + "_not_finite",
                "There are NaN or infinite %s: the machine computes wrongly, or this precision is too narrow for the "
                "model. Measure it again in fp32 to tell them apart." % what,
            )

    def _describe(self) -> Dict[str, Any]:
        """Describe the network once in a scratch graph: makes the weights known, and counts."""
        shape = [1] + list(self._network.input_shape)
        with tf.Graph().as_default() as graph:
            layers = Layers(self._weights, self._cell.data_format, self._dtype, training=False)
            self._network.describe(layers, self._arrange(tf.zeros(shape, self._dtype)))
            macs = count_macs(graph)
        return {
            "input_shape": list(self._network.input_shape),
            "parameters": sum(weight.size for weight in self._weights.trainable),
            "forward_flops": 2 * macs,
        }

    def _draw_images(self) -> Any:
        mean, deviation = self._network.images
        shape = [self._cell.batch_size] + list(self._network.input_shape)
        images = tf.random.truncated_normal(shape, mean, deviation, self._dtype)
        return tf.Variable(images, trainable=False, name="images")

    def _arrange(self, images: Any) -> Any:
        """Images as the layers want them. The transpose is part of the step, as in the reference."""
        return tf.transpose(images, [0, 3, 1, 2]) if self._cell.data_format == "NCHW" else images

    def _apply(self, training: bool) -> Tuple[Layers, Any]:
        """(layers, float32 output of the network for the resident images)."""
        self._weights.rewind()
        layers = Layers(self._weights, self._cell.data_format, self._dtype, training)
        output = self._network.describe(layers, self._arrange(tf.identity(self._images)))
        return layers, tf.cast(output, tf.float32)

    def _choose_step(self) -> Step:
        body = {"train": self._train, "forward": self._forward, "forward_backward": self._forward_backward}
        call = tf.function(self._on_device(body[self._cell.phase]), autograph=False)
        if self._cell.phase == "train":
            return lambda: float(call())

        def fetch() -> Optional[float]:
            self._fetched = [tensor.numpy() for tensor in call()]
            return None

        return fetch

    def _on_device(self, body: Callable[[], Any]) -> Callable[[], Any]:
        def step() -> Any:
            with tf.device(self._device):
                return body()

        return step

    def _forward(self) -> Any:
        return [self._apply(training=False)[1]]

    def _forward_backward(self) -> Any:
        loss = tf.nn.l2_loss(self._apply(training=True)[1])
        return self._differentiate(loss)

    def _train(self) -> Any:
        batch_size = self._cell.batch_size
        layers, logits = self._apply(training=True)
        classes = self._network.classes or 0
        labels = tf.random.uniform([batch_size], 0, classes - 1, tf.int32)
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        squares = [tf.nn.l2_loss(w.variable) for w in self._weights.trainable if w.decayed]
        loss = tf.reduce_mean(entropy) + _WEIGHT_DECAY * tf.add_n(squares)
        gradients = self._differentiate(loss)
        rate, rise = self._network.learning_rate(batch_size)
        alpha = tf.constant(rate) if rise == 0 else rate * tf.minimum(self._taken / float(rise), 1.0)
        # Every update waits for every gradient: a variable still being read would be copied, not updated in place. They
        # wait for one operation, which waits for all: a thousand times a thousand edges take a minute to trace.
        with tf.control_dependencies([tf.group(alpha, *gradients)]):
            for i, weight in enumerate(self._weights.trainable):
                tf.raw_ops.ResourceApplyGradientDescent(var=weight.variable.handle, alpha=alpha, delta=gradients[i])
            for variable, change in layers.moving_updates:
                tf.raw_ops.AssignSubVariableOp(resource=variable.handle, value=change)
            tf.raw_ops.AssignAddVariableOp(resource=self._taken.handle, value=tf.constant(1.0))
        return loss

    def _differentiate(self, loss: Any) -> List[Any]:
        """Gradients by all trainable variables. In fp16 they carry a scale on the way back, to stay in its range."""
        variables = [weight.variable for weight in self._weights.trainable]
        if self._dtype == tf.float32:
            return list(tf.gradients(loss, variables))
        scale = self._network.loss_scale
        return [gradient * (1.0 / scale) for gradient in tf.gradients(loss * scale, variables)]
