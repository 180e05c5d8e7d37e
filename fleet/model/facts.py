"""What a host is, as its probe and its payload saw it. None means: not known; never 0."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import Field

from fleet.model.base import Record

_GIB = 1 << 30


class Cpu(Record):
    model: str | None = None
    sockets: int | None = None
    cores: int | None = None
    """Physical cores of the machine."""
    threads: int | None = None
    """Logical processors of the machine."""
    governor: str | None = None
    microcode: str | None = None
    vector_extensions: tuple[str, ...] | None = None
    """Of x86: which of `avx`, `avx2`, `fma` and `avx512f` it has."""


class Gpu(Record):
    """One row of `nvidia-smi --query-gpu`."""

    index: int | None = None
    uuid: str | None = None
    name: str | None = None
    pci_bus_id: str | None = None
    vbios: str | None = None
    memory_bytes: int | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    power_max_w: float | None = None
    clock_sm_max_mhz: float | None = None
    clock_mem_max_mhz: float | None = None
    ecc: str | None = None
    mig: str | None = None
    persistence: str | None = None
    pcie_gen_max: int | None = None
    """What card and slot are both made for; so is the next."""
    pcie_width_max: int | None = None
    rows_pending: bool | None = None
    """Rows of its memory are to be replaced by spare ones at the next reset. None: not known, or not such a card."""
    rows_failed: bool | None = None
    """Such a replacement failed."""


class HostFacts(Record):
    """What the host is, from the probe; no container needed."""

    machine_id_sha256: str | None = None
    boot_id: str | None = None
    product: str | None = None
    kernel: str | None = None
    os: str | None = None
    architecture: str | None = None
    virtualisation: str | None = None
    user: str | None = None
    cpu: Cpu = Cpu()
    memory_bytes: int | None = None
    numa_nodes: int | None = None
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    """NVIDIA driver version."""
    runtime_version: str | None = None
    """Version of the container engine, or of python3 for `runtime: native`."""
    rootless: bool = False
    image_digest: str | None = None
    """Digest of the image on the host before the job; None: not there yet."""
    workdir: str | None = None
    """Absolute."""
    workdir_free_bytes: int | None = None
    clock_offset_s: float | None = None
    """Host's clock minus ours: at least so much, and 0 where the round trip alone may explain it."""


class Software(Record):
    """What the payload ran on, seen from inside the container."""

    tensorflow: str | None = None
    tensorflow_git: str | None = None
    python: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    container: str | None = None
    """What the image says it is, e.g. `nvidia 20.10-tf2 (build 17379986)`."""
    image: str | None = None
    image_digest: str | None = None
    """What really ran: `sha256:…`."""
    runtime: str | None = None
    environment: Mapping[str, str] = Field(default_factory=dict)
    """`TF_*`, `XLA_FLAGS`, `NCCL_*`, `OMP_*`, `NVIDIA_*`, `CUDA_*` that were in force."""


def nominal_memory_gib(memory_bytes: int) -> int:
    """What is built in: the next multiple of 4 GiB, since kernels keep a little, and not always the same, back."""
    return math.ceil(memory_bytes / (4 * _GIB)) * 4
