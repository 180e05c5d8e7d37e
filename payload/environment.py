"""The environment a child starts with. TensorFlow and CUDA read it once, when they are loaded."""

import os
from typing import Dict

from payload.cell import Cell
from payload.cgroup import count_cpus
from payload.spec import Rules

_RECORDED = ("TF_", "XLA_FLAGS", "NCCL_", "OMP_", "NVIDIA_", "CUDA_", "MALLOC_")
"""Beginnings of the names that are written into the host's document. No others: there may be secrets in them."""

_SECRET = ("TF_VAR_", "TF_TOKEN_", "TF_CLI_")
"""Terraform's, which shares TensorFlow's beginning and keeps passwords there."""

_REMOVED = (
    "TF_ENABLE_AUTO_MIXED_PRECISION",
    "TF_ENABLE_AUTO_MIXED_PRECISION_GRAPH_REWRITE",
    "TF_SET_ONEDNN_FPMATH_MODE",
    "TF_XLA_FLAGS",
    "TF_DETERMINISTIC_OPS",
    "TF_CUDNN_DETERMINISTIC",
)
"""They change what is measured without changing its name: another precision, another compiler, other kernels."""

CPU = {
    # Of glibc: memory of a step is kept for the next one. Left to itself it goes back to the kernel time and again:
    # with TensorFlow 2.3 resnet50 takes 100,000 page faults a step, which is some per cent of it and never the same.
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
}
"""Set where a CPU computes."""

_GPU = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    # NVIDIA's images switch the cache of compiled kernels off; every cell would compile them again.
    "CUDA_CACHE_DISABLE": "0",
    "CUDA_CACHE_MAXSIZE": "4294967296",
    # The reference's settings.
    "TF_GPU_THREAD_MODE": "gpu_private",
    "TF_GPU_THREAD_COUNT": "2",
    "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT": "1",
    "TF_ENABLE_WINOGRAD_NONFUSED": "1",
    "TF_SYNC_ON_FINISH": "0",
}


def make_environment(cell: Cell) -> Dict[str, str]:
    """The whole environment of the child that measures this cell."""
    environment = {k: v for k, v in os.environ.items() if k not in _REMOVED}
    if cell.precision == "tf32":
        # Unset leaves the choice to TensorFlow, which is told by its own switch.
        environment.pop("NVIDIA_TF32_OVERRIDE", None)
    else:
        # Without this, TensorFlow from 2.4 on multiplies float32 in TF32 on an Ampere or newer GPU.
        environment["NVIDIA_TF32_OVERRIDE"] = "0"
    if cell.device == "gpu":
        environment.update(_GPU)
    else:
        environment.update(CPU, CUDA_VISIBLE_DEVICES="-1")
    return environment


def choose_threads(cell: Cell, rules: Rules) -> Dict[str, int]:
    """How many threads TensorFlow uses within an operation (`intra`) and for operations side by side (`inter`).

    What the rules say, if they do. Otherwise on a CPU: as many as the process may really use, where TensorFlow would
    take the machine's. On a GPU: as the reference.
    """
    cpus = count_cpus()
    intra, inter = (1, max(1, cpus - 2 * cell.devices)) if cell.device == "gpu" else (cpus, cpus)
    return {"intra": rules.intra_threads or intra, "inter": rules.inter_threads or inter}


def list_recorded() -> Dict[str, str]:
    """The variables in force that can change the number."""
    names = [k for k in sorted(os.environ) if k.startswith(_RECORDED) and not k.startswith(_SECRET)]
    return {k: os.environ[k] for k in names}
