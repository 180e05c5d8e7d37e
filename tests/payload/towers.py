"""Trains one network on two logical CPU devices and on one, side by side, and prints what came of both as JSON.

A process of its own, because logical devices must be set up before TensorFlow touches any; in the language of Python
3.6, because the oldest TensorFlow runs it too. Labels are all the same and dropout is off, so that nothing is left to
chance but the images and the first weights.

Arguments: a JSON object with
    model: its name.
    cell: what the cell with two devices has otherwise than the defaults.
    images: `same`: both devices get the images of the one; `halves`: each gets half of them.
    steps: how many are taken.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy
import tensorflow as tf

from payload.cell import Cell
from payload.models.network import Network
from payload.models.zoo import NETWORKS
from payload.placement import place
from payload.spec import Rules
from payload.workload import Workload

RULES = Rules(1, 0.0, 2, 0.0, 60.0, 60.0)
RATE = {"alexnet": 1e-6, "resnet50": 0.01}


def make_network(model: str) -> Network:
    """The network with labels that are all 0 (of two classes the last is never drawn), and without dropout."""
    network = NETWORKS[model]

    def describe(layers: Any, x: Any) -> Any:
        layers.drop = lambda x, rate: x
        return network.describe(layers, x)

    return Network(network.input_shape, describe, network.images, lambda images: (RATE[model], 0), classes=2)


def main(request: Any) -> None:
    model, batch_size = request["model"], 2
    cell = Cell(model, "train", "fp32", batch_size, "cpu", 2, "NHWC", False)._replace(**request["cell"])
    placement = place(tf, cell, RULES)
    network = make_network(model)
    towers = Workload(cell, network, *placement.devices)
    size = batch_size if request["images"] == "same" else 2 * batch_size
    alone = Workload(cell._replace(devices=1, batch_size=size, variable_update="replicated"), network, "/CPU:0")
    first, second = towers._towers
    if request["images"] == "same":
        for images in (first.images, second.images):
            images.assign(alone._towers[0].images)
    else:
        alone._towers[0].images.assign(tf.concat([first.images, second.images], 0))
    started_apart = find_difference(towers._towers[0], alone._towers[0])
    losses = {"towers": [towers.step() for _ in range(request["steps"])]}
    losses["alone"] = [alone.step() for _ in range(request["steps"])]
    answer = {
        "tensorflow": tf.__version__,
        "name": placement.name,
        "placed": towers.placed,
        "reduction": towers.reduction,
        "losses": losses,
        "started_apart": started_apart,
        "apart_from_alone": find_difference(first, alone._towers[0]),
        "apart_from_each_other": find_difference(first, second),
        "moved": max(float(abs(w.variable.numpy()).max()) for w in first.weights.items if w.name.startswith("bias")),
        "devices": sorted({w.variable.device for w in second.weights.items}),
    }
    print(json.dumps(answer))


def find_difference(one: Any, other: Any) -> float:
    """The largest difference of a trained variable, in parts of its largest value (of 1 where that is smaller)."""
    differences = []
    for i, variable in enumerate(one.variables):
        a, b = variable.numpy(), other.variables[i].numpy()
        differences.append(float(numpy.abs(a - b).max() / max(1.0, numpy.abs(b).max())))
    return max(differences)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
