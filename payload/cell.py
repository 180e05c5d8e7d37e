"""One cell, and what the payload cannot measure (yet): said before anything is started."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

PHASES = ("train", "forward", "forward_backward")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
DEVICES = ("cpu", "gpu")
DATA_FORMATS = ("NHWC", "NCHW")
OPTIMIZERS = ("sgd", "momentum", "rmsprop", "adam")
VARIABLE_UPDATES = ("replicated", "independent")

ALL = 0
"""A cell's `devices` that means: every GPU that the process may use."""


class Cell(NamedTuple):
    """One workload with every parameter fixed."""

    model: str
    phase: str
    precision: str
    batch_size: int
    """Images per step and device."""
    device: str
    devices: int
    """How many take part, 0: all there are. Several of a CPU are logical: the same cores, the same code as for several
    GPUs."""
    data_format: str
    xla: bool
    optimizer: str = "sgd"
    variable_update: str = "replicated"
    """What several devices do with their gradients: `replicated` reduces them, `independent` exchanges nothing."""
    steps_per_call: int = 1
    """Training steps in one call of the TensorFlow function; what is timed is the call."""


def name_cell(cell: Cell) -> str:
    """The canonical id, e.g. `resnet50/train/fp32/b32/gpu1/nchw`. Equal to the controller's."""
    parts = [cell.model, cell.phase, cell.precision, "b%s" % (cell.batch_size or "auto")]
    parts += ["%s%s" % (cell.device, cell.devices or "all"), cell.data_format.lower()]
    return "/".join(parts + list_variants(cell))


def list_variants(cell: Cell) -> List[str]:
    """What the cell does otherwise than most, one word each; empty for most."""
    return (
        (["xla"] if cell.xla else [])
        + ([cell.optimizer] if cell.optimizer != "sgd" else [])
        + ([cell.variable_update] if cell.variable_update != "replicated" else [])
        + (["steps%d" % cell.steps_per_call] if cell.steps_per_call != 1 else [])
    )


def find_unsupported(cell: Cell, models: Dict[str, Dict[str, Any]]) -> Optional[Tuple[str, str]]:
    """Why this payload cannot measure the cell, whatever the machine: (reason, sentence). None: it can.

    Args:
        models: the catalogue by name.
    """
    model = models.get(cell.model)
    if model is None:
        return "unknown_model", "There is no model %s; there are %s." % (cell.model, ", ".join(sorted(models)))
    if cell.phase not in model["phases"]:
        phases = ", ".join(model["phases"])
        return "phase_not_available", "%s has no phase %s; it has %s." % (cell.model, cell.phase, phases)
    if cell.precision == "tf32" and cell.device == "cpu":
        return "precision_not_available", "TF32 is a format of NVIDIA's GPUs; a CPU has none: use fp32 or bf16."
    if cell.data_format == "NCHW" and cell.device == "cpu":
        return "nchw_on_cpu", "TensorFlow trains with NHWC only on a CPU; use data_format: NHWC."
    if cell.data_format == "NCHW" and cell.model == "alexnet_conv":
        return (
            "data_format_not_available",
            "TensorFlow's local response normalisation is NHWC only; use data_format: NHWC for alexnet_conv.",
        )
    return _find_empty_variant(cell)


def _find_empty_variant(cell: Cell) -> Optional[Tuple[str, str]]:
    """A variant of something the cell does not do would be the same work under another name."""
    training = cell.phase == "train"
    if cell.optimizer != "sgd" and not training:
        return "optimizer_not_available", "Only training updates variables; use optimizer: sgd for %s." % cell.phase
    if cell.variable_update != "replicated" and not (training and cell.devices > 1):
        return (
            "variable_update_not_available",
            "Only training on several devices exchanges anything; use variable_update: replicated.",
        )
    if cell.steps_per_call > 1 and not (training and cell.devices == 1):
        return "steps_per_call_not_available", "Only training on one device takes several steps a call; use 1."
    return None
