"""No container: the host's own python3, which must have TensorFlow."""

from __future__ import annotations

from fleet.model.inventory import Settings
from fleet.runtime.base import HostJob


class NativeRuntime:
    """The payload's own command, with the environment that chooses the GPUs."""

    name = "native"

    def build_arguments(self, settings: Settings, job: HostJob) -> tuple[str, ...]:
        """The whole command."""
        spec, out = f"{job.directory}/spec.json", f"{job.directory}/out"
        environment = ["PYTHONDONTWRITEBYTECODE=1"]
        if settings.devices == "cpu":
            environment.append("CUDA_VISIBLE_DEVICES=")
        elif isinstance(settings.devices, tuple):
            # Indexes are those of nvidia-smi; CUDA's own order is the fastest first.
            environment += ["CUDA_DEVICE_ORDER=PCI_BUS_ID", f"CUDA_VISIBLE_DEVICES={','.join(settings.devices)}"]
        python = settings.python or "python3"
        return ("env", *environment, python, job.payload, "run", spec, "--out", out)
