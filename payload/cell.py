"""One cell, and what the payload cannot measure (yet): said before anything is started."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

Cell = NamedTuple(
    "Cell",
    [
        ("model", str),
        ("phase", str),
        ("precision", str),
        ("batch_size", int),
        ("device", str),
        ("devices", int),
        ("data_format", str),
        ("xla", bool),
    ],
)
"""One workload with every parameter fixed. `batch_size` counts images per step and device."""

PHASES = ("train", "forward", "forward_backward")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
DEVICES = ("cpu", "gpu")
DATA_FORMATS = ("NHWC", "NCHW")


def name_cell(cell: Cell) -> str:
    """The canonical id, e.g. `resnet50/train/fp32/b32/gpu1/nchw`. Equal to the controller's."""
    parts = [cell.model, cell.phase, cell.precision, "b%d" % cell.batch_size]
    parts += ["%s%d" % (cell.device, cell.devices), cell.data_format.lower()]
    return "/".join(parts + (["xla"] if cell.xla else []))


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
    if cell.precision not in ("fp32", "fp16"):
        return "precision_not_available", "%s is not measured by this payload; use fp32 or fp16." % cell.precision
    if cell.xla:
        return "xla_not_available", "XLA is not measured by this payload; leave it off."
    if cell.device == "cpu" and cell.devices > 1:
        return "devices_not_available", "A CPU is one device; use devices: 1."
    if cell.data_format == "NCHW" and cell.device == "cpu":
        return "nchw_on_cpu", "TensorFlow trains with NHWC only on a CPU; use data_format: NHWC."
    if cell.data_format == "NCHW" and cell.model == "alexnet_conv":
        return (
            "data_format_not_available",
            "TensorFlow's local response normalisation is NHWC only; use data_format: NHWC for alexnet_conv.",
        )
    return None
