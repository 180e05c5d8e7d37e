"""One step of every phase of models, at batch 2, as JSON: a line for each.

    python tests/payload/steps.py MODEL…

Runs on Python 3.6. The payload is found by PYTHONPATH.
"""

import gc
import json
import sys
import time
from typing import Any

from payload.catalog import read_catalog
from payload.cell import Cell
from payload.models.zoo import NETWORKS
from payload.workload import Workload

BATCH_SIZE = 2


def take_step(model: str, phase: str) -> Any:
    """Build a model and take one step of a phase.

    Returns:
        loss: of a training step; shapes: of what another step brought to the host; updated: how many variables a
        training step changed, moving averages included.

    Raises:
        NotFinite: what the step brought to the host is not finite.
    """
    cell = Cell(
        model=model,
        phase=phase,
        precision="fp32",
        batch_size=BATCH_SIZE,
        device="cpu",
        devices=1,
        data_format="NHWC",
        xla=False,
    )
    workload = Workload(cell, NETWORKS[model], "/CPU:0")
    variables = [weight.variable for weight in workload._weights.items] if phase == "train" else []
    before = [variable.numpy() for variable in variables]
    loss = workload.step()
    workload.check_output()
    return {
        "loss": loss,
        "shapes": [list(array.shape) for array in workload._fetched],
        "updated": sum(bool((variables[i].numpy() != old).any()) for i, old in enumerate(before)),
    }


def main(models: Any) -> None:
    for model in models:
        for phase in read_catalog()[model]["phases"]:
            start = time.monotonic()
            try:
                answer = take_step(model, phase)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            answer.update(model=model, phase=phase, seconds=round(time.monotonic() - start, 1))
            print(json.dumps(answer), flush=True)
            gc.collect()


if __name__ == "__main__":
    main(sys.argv[1:])
