"""Where a cell is measured: the devices it gets, the threads, and what float32 means on them."""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from payload.cell import Cell
from payload.environment import choose_threads
from payload.errors import Unsupported
from payload.spec import Rules

_LEAST_CAPABILITY = {"tf32": (8, 0), "bf16": (8, 0), "fp16": (5, 3)}
"""The lowest compute capability of NVIDIA's GPUs that computes in the format: Ampere, Ampere, late Maxwell."""

_MISSING_KERNEL = re.compile(
    r"No registered '(\w+)'|registered to support Op '(\w+)'|Could not find device for node: \S+ \S+ = (\w+)\[|"
    r"Missing \d+-th output from (?:node |\{\{node )(?:[^\s}]*/)?([^\s}/]+?)(?:_\d+)?[\s}]"
)
"""The last one is what comes of a kernel that is registered and computes nothing, as that of Conv2D in bfloat16 up to
TensorFlow 2.10; it names a node, whose name begins as its operation's."""

Placement = NamedTuple(
    "Placement", [("devices", List[str]), ("name", str), ("threads", Dict[str, int]), ("tf32_allowed", Optional[bool])]
)
"""TensorFlow's names of the devices, their name for people, the threads, and what TensorFlow says of TF32 (None: it has
no word for it)."""


def place(tf: Any, cell: Cell, rules: Rules) -> Placement:
    """Set TensorFlow up for a cell, before it has touched any device.

    Raises:
        Unsupported: the devices are not there, or cannot compute in the precision. Never another device instead.
    """
    threads = choose_threads(cell, rules)
    tf.config.threading.set_intra_op_parallelism_threads(threads["intra"])
    tf.config.threading.set_inter_op_parallelism_threads(threads["inter"])
    # As the reference: what has no kernel on the device may go elsewhere. Where the model is, is checked.
    tf.config.set_soft_device_placement(True)
    allowed = _switch_tf32(tf, cell.precision == "tf32")
    if cell.device == "cpu":
        return Placement(_split_cpu(tf, cell.devices), _name_cpus(cell.devices), threads, allowed)
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise Unsupported("no_gpu", _explain_missing_gpu(tf))
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    count = choose_gpus([detail.get("device_name", "") for detail in details], cell.devices)
    for detail in details[:count]:
        check_precision(cell.precision, detail.get("compute_capability"), detail.get("device_name", "the GPU"))
    tf.config.set_visible_devices(gpus[:count], "GPU")
    names = ["GPU:%d %s" % (i, detail.get("device_name", "")) for i, detail in enumerate(details[:count])]
    return Placement(["/GPU:%d" % i for i in range(count)], ", ".join(n.strip() for n in names), threads, allowed)


def count_gpus(tf: Any) -> int:
    """How many GPUs this process may use; parts of one (MIG) count as one, and TensorFlow uses only one of them."""
    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "") for gpu in gpus]
    return 1 if any(_is_part(name) for name in names) else len(names)


def choose_gpus(names: List[str], wanted: int) -> int:
    """How many of the GPUs that TensorFlow lists are used: as many as wanted, the first ones.

    Args:
        names: what they are called. Parts of a GPU have MIG in theirs.

    Raises:
        Unsupported: there are fewer. Parts of one GPU never count as several.
    """
    if wanted > 1 and any(_is_part(name) for name in names):
        raise Unsupported(
            "gpus_missing",
            "The cell asks for %d GPUs, and TensorFlow sees parts of one (MIG), which do not count as several: switch "
            "MIG off, or use devices: 1." % wanted,
        )
    if len(names) < wanted:
        raise Unsupported(
            "gpus_missing",
            "TensorFlow sees %d GPUs, and the cell asks for %d: run nvidia-smi on the host, and check fleet_devices."
            % (len(names), wanted),
        )
    return wanted


def _is_part(name: str) -> bool:
    return "MIG" in name.split()


def check_precision(precision: str, capability: Optional[Tuple[int, int]], name: str) -> None:
    """Raises Unsupported: the GPU is older than the format. `capability`: (major, minor); None: not NVIDIA's."""
    least = _LEAST_CAPABILITY.get(precision)
    if least is None or (capability is None and precision != "tf32"):
        return
    if capability is None or tuple(capability) < least:
        raise Unsupported(
            "no_" + precision,
            "%s does not compute in %s, which begins with compute capability %d.%d: use fp32."
            % ((name, precision) + least),
        )


def judge_multiply_bits(cell: Cell, bits: int) -> None:
    """Hold a device to its precision, whatever its switches say.

    Args:
        bits: see `payload.precision.count_multiply_bits`.

    Raises:
        Unsupported: float32 products are rounded where the cell asks for whole ones, or the other way round.
    """
    if cell.precision == "fp32" and bits < 23:
        raise Unsupported(
            "fp32_rounded",
            "float32 products keep only %d of 23 bits here although that is switched off: look for what sets it in the "
            "container's environment." % bits,
        )
    if cell.precision == "tf32" and bits != 10:
        raise Unsupported(
            "no_tf32",
            "This TensorFlow multiplies float32 with %d bits and not in TF32: use an image that has it." % bits,
        )


def find_missing_kernel(text: str) -> Optional[str]:
    """The operation that TensorFlow has no kernel of, when that is what an error's text says."""
    found = _MISSING_KERNEL.search(text)
    return found.group(found.lastindex or 0) if found else None


def _switch_tf32(tf: Any, on: bool) -> Optional[bool]:
    switch = getattr(tf.config.experimental, "enable_tensor_float_32_execution", None)
    if switch is None:
        return None
    switch(on)
    return bool(tf.config.experimental.tensor_float_32_execution_enabled())


def _split_cpu(tf: Any, count: int) -> List[str]:
    """Logical devices of one CPU: they share its cores."""
    if count > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        config = tf.config.experimental
        # Under their first names, which all versions still know.
        config.set_virtual_device_configuration(cpu, [config.VirtualDeviceConfiguration() for _ in range(count)])
    return ["/CPU:%d" % i for i in range(count)]


def _name_cpus(count: int) -> str:
    return "CPU:0" if count == 1 else "CPU:0 as %d logical devices on the same cores" % count


def _explain_missing_gpu(tf: Any) -> str:
    if not tf.test.is_built_with_gpu_support():
        return (
            "The cell asks for a GPU, and this TensorFlow is built for CPUs only: use an image, or another TensorFlow, "
            "with GPU support."
        )
    return (
        "The cell asks for a GPU, and TensorFlow sees none: run nvidia-smi on the host, check that the container gets "
        "the GPU (--gpus) and that the driver is new enough for the image; the output's end says which library failed."
    )
