"""Docker Engine: the payload in the image, started as NVIDIA advises, with as little power as it needs."""

from __future__ import annotations

from fleet.model.inventory import Settings
from fleet.runtime.base import HostJob

SPEC = "/fleet/spec.json"
PAYLOAD = "/fleet/payload.pyz"
OUT = "/fleet/out"

NOBODY = 65534


class DockerRuntime:
    """Arguments of `docker run`.

    The image's own entrypoint stays: in NGC's images it sets up CUDA's forward compatibility with older drivers.
    """

    name = "docker"

    def build_arguments(self, settings: Settings, job: HostJob) -> tuple[str, ...]:
        """`docker run -d --name NAME` + these."""
        return (
            *("--label", f"fleet.run={job.run_id}", "--label", f"fleet.job={job.job_id}"),
            *("--restart", "no", "--network", "none"),
            # The engine's own default may be another driver, which knows no such limit and refuses to start.
            *("--log-driver", "json-file", "--log-opt", "max-size=10m"),
            *("--user", _choose_user(job), "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *([] if settings.ipc == "private" else ["--ipc", settings.ipc]),
            *(word for name, value in settings.ulimits.items() for word in ("--ulimit", f"{name}={value}")),
            *_choose_gpus(settings),
            *("--env", "HOME=/tmp", "--workdir", "/tmp"),
            *_mount(f"{job.directory}/spec.json", SPEC, read_only=True),
            *_mount(job.payload, PAYLOAD, read_only=True),
            *_mount(f"{job.directory}/out", OUT, read_only=False),
            *settings.runtime_args,
            settings.image,
            *("python3", PAYLOAD, "run", SPEC, "--out", OUT),
        )


def _choose_user(job: HostJob) -> str:
    """The SSH user, so that the results are theirs; never root on the host."""
    if job.rootless:
        return "0:0"
    return f"{NOBODY}:{NOBODY}" if job.uid == 0 else f"{job.uid}:{job.gid}"


def _choose_gpus(settings: Settings) -> list[str]:
    """`--gpus` as the docker client parses it: a list of devices is one CSV field, so its quotes belong to the word."""
    if settings.devices == "cpu":
        # NGC's images ask for all GPUs, and an engine whose default runtime is nvidia would give them.
        return ["--env", "NVIDIA_VISIBLE_DEVICES=void", "--env", "CUDA_VISIBLE_DEVICES="]
    if isinstance(settings.devices, tuple):
        return ["--gpus", f'"device={",".join(settings.devices)}"']
    return ["--gpus", str(settings.devices)]


def _mount(source: str, target: str, *, read_only: bool) -> list[str]:
    """A bind mount. The client reads the word as one line of CSV, and a home's path may hold a comma."""
    quoted = '"source=' + source.replace('"', '""') + '"'
    return ["--mount", f"type=bind,{quoted},target={target}{',readonly' if read_only else ''}"]
