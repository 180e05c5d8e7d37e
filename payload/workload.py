"""A cell made into something to time: variables on the devices and one step as a TensorFlow function."""

import copy
from typing import Any, Callable, Dict, List, Optional, Tuple

import tensorflow as tf

from payload.cell import Cell
from payload.compat import find_reference_rate
from payload.measure import NotFinite, Step
from payload.models.counts import count_macs
from payload.models.layers import Layers, Weights
from payload.models.network import Network
from payload.optimizers import Optimizer
from payload.precision import choose_type
from payload.reduction import choose_reduction, reduce_gradients

_WEIGHT_DECAY = 4e-5
_SEED = 1234
_SHOWN = ("Conv2D", "MaxPool")


class Tower:
    """What one device holds: variables of its own, and its own images."""

    def __init__(self, device: str, weights: Weights, images: Any) -> None:
        self.device = device
        self.weights = weights
        self.images = images
        self.variables = [weight.variable for weight in weights.trainable]
        self.moving: List[Any] = []
        """The moving averages, in the order of the changes that a pass returns; known once it is traced."""


class Workload:
    """One cell, built on one device or on several.

    Several devices each train on images of their own. What they do is what one device would do with all their images,
    but for batch normalisation, whose statistics are each device's own: the gradients of the mean loss over all images
    are summed up, and every device updates its own variables with the sum. `independent` leaves the summing out. As in
    the reference, the last device computes the L2 loss for all, and the moving averages kept are those of the first.

    Args:
        devices: TensorFlow's names of them, e.g. `/GPU:0`.
        compat: the reference's learning rate to the letter, and gradients that are added up and not averaged.

    Attributes:
        step: takes one step (or `steps_per_call` of them at once); see `payload.measure.Step`.
        facts: `workload` of the result document, counted in the graph.
        reduction: how gradients are summed up over the devices; None: they are not.
        activations: (name, shape) of what every convolution and pooling puts out, after its ReLU.
        placed: TensorFlow's full names of the devices that hold the variables.
    """

    def __init__(self, cell: Cell, network: Network, *devices: str, compat: bool = False) -> None:
        self._cell = cell
        self._network = network
        self._compat = compat
        self._dtype = choose_type(cell.precision)
        self._weights = Weights()
        self._fetched: List[Any] = []
        self._devices = list(devices)
        self._exchanging = cell.phase == "train" and len(devices) > 1 and cell.variable_update == "replicated"
        self.reduction = choose_reduction(self._devices) if self._exchanging else None
        self.facts = self._describe()
        tf.random.set_seed(_SEED)
        self._towers = [self._build_tower(device) for device in devices]
        with tf.device(devices[0]):
            self._taken = tf.Variable(0.0, trainable=False, name="steps_taken")
        self._optimizers = self._create_optimizers() if cell.phase == "train" else []
        self.placed = [str(tower.images.device) for tower in self._towers]
        self.step = self._choose_step()

    def check_output(self) -> None:
        """What the last step fetched must be finite. Raises NotFinite."""
        import numpy

        what = "logits" if self._cell.phase == "forward" else "gradients"
        if not all(numpy.isfinite(array).all() for array in self._fetched):
            raise NotFinite(what + "_not_finite", "There are NaN or infinite %s." % what)

    def _describe(self) -> Dict[str, Any]:
        """Describe the network once in a scratch graph: makes the weights known, and counts."""
        shape = [1] + list(self._network.input_shape)
        with tf.Graph().as_default() as graph:
            layers = Layers(self._weights, self._cell.data_format, self._dtype, training=False)
            self._network.describe(layers, self._arrange(tf.zeros(shape, self._dtype)))
            macs = count_macs(graph)
            self.activations = _list_activations(graph, self._cell.batch_size)
        return {
            "input_shape": list(self._network.input_shape),
            "parameters": sum(weight.size for weight in self._weights.trainable),
            "forward_flops": 2 * macs,
        }

    def _build_tower(self, device: str) -> Tower:
        """Variables and images on a device. All devices begin with the same values of the variables."""
        with tf.device(device):
            weights = copy_weights(self._weights) if device != self._devices[0] else self._weights
            weights.create()
            return Tower(device, weights, self._draw_images())

    def _create_optimizers(self) -> List[Optimizer]:
        optimizers = []
        for tower in self._towers:
            with tf.device(tower.device):
                optimizers.append(Optimizer(self._cell.optimizer, tower.variables))
        return optimizers

    def _draw_images(self) -> Any:
        mean, deviation = self._network.images
        shape = [self._cell.batch_size] + list(self._network.input_shape)
        images = tf.random.truncated_normal(shape, mean, deviation, self._dtype)
        return tf.Variable(images, trainable=False, name="images")

    def _arrange(self, images: Any) -> Any:
        """Images as the layers want them. The transpose is part of the step, as in the reference."""
        return tf.transpose(images, [0, 3, 1, 2]) if self._cell.data_format == "NCHW" else images

    def _apply(self, tower: Tower, training: bool) -> Tuple[Layers, Any]:
        """(layers, float32 output of the network for the tower's resident images)."""
        tower.weights.rewind()
        layers = Layers(tower.weights, self._cell.data_format, self._dtype, training)
        output = self._network.describe(layers, self._arrange(tf.identity(tower.images)))
        return layers, tf.cast(output, tf.float32)

    def _choose_step(self) -> Step:
        body = {"train": self._train, "forward": self._forward, "forward_backward": self._forward_backward}
        call = tf.function(self._repeat(body[self._cell.phase]), autograph=False)
        if self._cell.phase == "train":
            return lambda: float(call())

        def fetch() -> Optional[float]:
            self._fetched = [tensor.numpy() for tensor in call()]
            return None

        return fetch

    def _repeat(self, body: Callable[[], Any]) -> Callable[[], Any]:
        count = self._cell.steps_per_call
        if count == 1:
            return body

        def call() -> Any:
            """The loss of the last of so many steps."""
            with tf.device(self._devices[0]):
                start = [tf.constant(0), tf.constant(0.0)]
            return tf.while_loop(lambda i, _: i < count, lambda i, _: [i + 1, body()], start, parallel_iterations=1)[1]

        return call

    def _on_towers(self, body: Callable[[Tower], Any]) -> List[Any]:
        """What the body returns on every device. With XLA it is compiled, one program a device, as by the reference."""
        results = []
        for tower in self._towers:
            with tf.device(tower.device):
                results.append(_compile(body, tower)() if self._cell.xla else body(tower))
        return results

    def _forward(self) -> Any:
        return self._on_towers(lambda tower: self._apply(tower, training=False)[1])

    def _forward_backward(self) -> Any:
        def differentiate(tower: Tower) -> Any:
            return self._differentiate(tf.nn.l2_loss(self._apply(tower, training=True)[1]), tower)

        return [gradient for gradients in self._on_towers(differentiate) for gradient in gradients]

    def _train(self) -> Any:
        """One update of every tower; the mean of their losses."""
        results = self._on_towers(self._pass)
        losses = [loss for loss, _, _ in results]
        gradients = [gradients for _, gradients, _ in results]
        if self.reduction is not None:
            gradients = reduce_gradients(gradients, self._devices, self.reduction)
        first = self._devices[0]
        with tf.device(first):
            taken = tf.identity(self._taken)
            rate = self._choose_rate(taken)
            loss = losses[0] if len(losses) == 1 else tf.add_n(losses) / float(len(losses))
        # Every update waits for every gradient: a variable still being read would be copied, not updated in place. They
        # wait for one operation, which waits for all: a thousand times a thousand edges take a minute to trace.
        for tower, optimizer, mine in zip(self._towers, self._optimizers, gradients):
            with tf.device(tower.device), tf.control_dependencies([tf.group(rate, *mine)]):
                optimizer.apply(mine, rate, taken)
        with tf.device(first), tf.control_dependencies([tf.group(rate, *gradients[0])]):
            for variable, change in zip(self._towers[0].moving, results[0][2]):
                tf.raw_ops.AssignSubVariableOp(resource=variable.handle, value=change)
            tf.raw_ops.AssignAddVariableOp(resource=self._taken.handle, value=tf.constant(1.0))
        return loss

    def _pass(self, tower: Tower) -> Tuple[Any, List[Any], List[Any]]:
        """Forward and back on one device: (its loss, its gradients, what to subtract from its moving averages)."""
        layers, logits = self._apply(tower, training=True)
        classes = self._network.classes or 0
        labels = tf.random.uniform([self._cell.batch_size], 0, classes - 1, tf.int32)
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(entropy)
        if tower is self._towers[-1]:
            squares = [tf.nn.l2_loss(w.variable) for w in tower.weights.trainable if w.decayed]
            loss += len(self._towers) * _WEIGHT_DECAY * tf.add_n(squares)
        gradients = self._differentiate(loss, tower)
        kept = layers.moving_updates if tower is self._towers[0] else []
        tower.moving = [variable for variable, _ in kept]
        return loss, gradients, [change for _, change in kept]

    def _choose_rate(self, taken: Any) -> Any:
        """The learning rate of this step, a float32 scalar."""
        devices = len(self._devices) if self._exchanging else 1
        images = self._cell.batch_size * devices
        found = find_reference_rate(self._cell.model, images, devices) if self._compat else None
        rate, rise = found or self._network.learning_rate(images)
        return tf.constant(rate) if rise == 0 else rate * tf.minimum(taken / float(rise), 1.0)

    def _differentiate(self, loss: Any, tower: Tower) -> List[Any]:
        """Gradients by all trainable variables of a tower: of its part of the mean loss, where they will be summed up.

        In fp16 they carry a scale on the way back, to stay in its range.
        """
        if self._exchanging and not self._compat:
            loss = loss / float(len(self._devices))
        if self._dtype != tf.float16:
            return list(tf.gradients(loss, tower.variables))
        scale = self._network.loss_scale
        return [gradient * (1.0 / scale) for gradient in tf.gradients(loss * scale, tower.variables)]


def copy_weights(weights: Weights) -> Weights:
    """The same weights once more, not created yet: they will begin with what the others hold at that time."""

    def start_from(variable: Any) -> Callable[[Tuple[int, ...]], Any]:
        return lambda shape: tf.identity(variable)

    twin = Weights()
    for weight in weights.items:
        mine = copy.copy(weight)
        mine.initial = start_from(weight.variable)
        twin.items.append(mine)
    return twin


def _compile(body: Callable[[Tower], Any], tower: Tower) -> Callable[[], Any]:
    """The body for one tower as a function that XLA compiles; the option's name changed with TensorFlow 2.5."""
    try:
        compiled: Callable[[], Any] = tf.function(lambda: body(tower), autograph=False, jit_compile=True)
    except TypeError:
        compiled = tf.function(lambda: body(tower), autograph=False, experimental_compile=True)
    return compiled


def _list_activations(graph: Any, batch_size: int) -> List[Tuple[str, List[int]]]:
    """What convolutions (after their ReLU) and max poolings put out, both named by the number of the convolution."""
    found: List[Tuple[str, List[int]]] = []
    count = 0
    for operation in graph.get_operations():
        shape = [batch_size] + operation.outputs[0].shape.as_list()[1:] if operation.type in _SHOWN else []
        if operation.type == "Conv2D":
            count += 1
            found.append(("conv%d" % count, shape))
        elif operation.type == "MaxPool":
            found.append(("pool%d" % count, shape))
    return found
