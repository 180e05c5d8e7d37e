"""The payload's models, driven like the reference's: started by `payload.py` under the same interpreter.

    python -m tests.bench.ours logits MODEL FILE.npz
    python -m tests.bench.ours step MODEL PHASE BATCH_SIZE DESCRIPTOR

Runs on Python 3.6.
"""

import json
import sys
from typing import Any

import numpy
import tensorflow as tf

from payload.cell import Cell
from payload.models.layers import Layers, Weights
from payload.models.zoo import NETWORKS
from payload.workload import Workload
from tests.bench.filling import find_role
from tests.bench.pipe import Pipe


class Loaded:
    """A model outside of any workload, whose variables have given values."""

    def __init__(self, model: str, choose: Any) -> None:
        """choose: called with name and shape of every weight in turn, returns its value."""
        self.network = NETWORKS[model]
        self.weights = Weights()
        with tf.Graph().as_default():
            shape = (1, *self.network.input_shape)
            self.network.describe(Layers(self.weights, "NHWC", tf.float32, training=False), tf.zeros(shape))
        self.weights.create()
        for weight in self.weights.items:
            weight.variable.assign(choose(weight.name, weight.shape))

    @property
    def moving(self) -> Any:
        """The values of the moving averages."""
        return [weight.variable.numpy() for weight in self.weights.items if not weight.trainable]

    def apply(self, images: Any, training: bool) -> Any:
        """Logits for images. In training mode the moving averages take their step."""

        def run() -> Any:
            self.weights.rewind()
            layers = Layers(self.weights, "NHWC", tf.float32, training)
            logits = self.network.describe(layers, tf.constant(images))
            for variable, change in layers.moving_updates:
                tf.raw_ops.AssignSubVariableOp(resource=variable.handle, value=change)
            return logits

        return tf.function(run, autograph=False)().numpy()


def compare_logits(model: str, path: str) -> None:
    """Print how far our logits are from the reference's with its variables: largest difference over largest logit.

    Raises ValueError when the variables are not of the same kinds and shapes in the same order.
    """
    with numpy.load(path) as saved:
        names = [str(name) for name in saved["names"]]
        values = [saved[f"variable{i:04}"] for i in range(len(names))]
        place = iter(range(len(names)))

        def choose(name: str, shape: Any) -> Any:
            i = next(place)
            if find_role(name) != find_role(names[i]) or tuple(shape) != values[i].shape:
                raise ValueError(f"{name} {shape} is {names[i]} {values[i].shape} in the reference")
            return values[i]

        loaded = Loaded(model, choose)
        answer: Any = {"variables": len(names), "left": len(names) - len(loaded.weights.items)}
        for mode in ("inferred", "trained"):
            wanted = saved[mode]
            got = loaded.apply(saved["images"], training=mode == "trained")
            answer[mode] = float(numpy.abs(got - wanted).max() / numpy.abs(wanted).max())
    print(json.dumps(answer))


def serve_steps(model: str, phase: str, batch_size: int, pipe: Pipe) -> None:
    """One step of the payload's workload whenever one is asked for."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    cell = Cell(
        model=model,
        phase=phase,
        precision="fp32",
        batch_size=batch_size,
        device="cpu",
        devices=1,
        data_format="NHWC",
        xla=False,
    )
    workload = Workload(cell, NETWORKS[model], "/CPU:0")
    while True:
        pipe.take_step(workload.step)


def main(task: str, *words: str) -> None:
    if task == "logits":
        compare_logits(*words)
    else:
        model, phase, batch_size, descriptor = words
        serve_steps(model, phase, int(batch_size), Pipe(int(descriptor)))


if __name__ == "__main__":
    main(*sys.argv[1:])
