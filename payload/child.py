"""The child: one fresh process that measures one cell, or finds out what TensorFlow is, and reports it over a pipe.

Standard output belongs to whoever prints there (images, libraries), so nothing is reported on it.
"""

import faulthandler
import json
import os
import platform
import resource
import signal
import sys
import time
import traceback
from typing import Any, Dict, List, Optional, Tuple

from payload.cell import Cell
from payload.environment import choose_threads, list_recorded
from payload.errors import Unsupported, judge_exception
from payload.measure import Report, Step, measure
from payload.spec import Rules

_PR_SET_PDEATHSIG = 1

_BEAT_S = 1.0
"""How often the parent hears that steps are being taken."""


class PipeReport(Report):
    """One JSON object a line on the pipe to the parent: {"event": …, …}.

    Args:
        every: report step times each so many steps; 0: never.
    """

    def __init__(self, descriptor: int, every: int = 0) -> None:
        self._descriptor = descriptor
        self._every = every
        self._shown = 0
        self._steps = 0
        self._beat_s = 0.0
        self._begin_s = self._end_s = 0.0
        self.stage = "start"

    def enter(self, stage: str) -> None:
        self.stage = stage
        self._begin_s = time.monotonic()
        self.send("stage", {"stage": stage, "at_s": self._begin_s})

    def count(self, step: Step) -> Step:
        """The same step, counted. Beats of the warm-up are sent from here, those of timed steps between them."""

        def counted() -> Optional[float]:
            loss = step()
            self._steps += 1
            if self.stage == "warmup":
                self._beat(time.monotonic())
            return loss

        return counted

    def close_window(self) -> None:
        """Say when the timed steps began and ended, in seconds of the clock that parent and child share."""
        self.send("window", {"begin_s": self._begin_s, "end_s": self._end_s})

    def show(self, steps_us: List[int], loss: Optional[float]) -> None:
        self._end_s = time.monotonic()
        self._beat(self._end_s)
        if self._every and (len(steps_us) == 1 or len(steps_us) % self._every == 0):
            self.send("steps", {"steps_us": steps_us[self._shown :], "loss": loss})
            self._shown = len(steps_us)

    def _beat(self, now_s: float) -> None:
        if now_s - self._beat_s >= _BEAT_S:
            self._beat_s = now_s
            self.send("beat", {"steps": self._steps, "at_s": now_s})

    def send(self, event: str, fields: Dict[str, Any]) -> None:
        data = (json.dumps(dict(fields, event=event), allow_nan=False) + "\n").encode("ascii")
        while data:
            data = data[os.write(self._descriptor, data) :]


def main(descriptor: int) -> int:
    """Do what the request on standard input asks for, and end the process."""
    # Where the code is when it crashes, and when the parent asks because nothing moves any more.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    _tie_to_parent()
    request = json.load(sys.stdin)
    report = PipeReport(descriptor, request.get("every", 0))
    if request["kind"] == "system":
        result = _describe_software()
    else:
        result = _measure_safely(Cell(**request["cell"]), Rules(**request["rules"]), report)
    report.send("result", {"result": result})
    sys.stdout.flush()
    sys.stderr.flush()
    # Libraries crash or hang while they are taken down; the result is out, and nobody needs that.
    os._exit(0)


def _tie_to_parent() -> None:
    """Die with the parent, and before it when memory runs out. Both are a courtesy of Linux and may be refused."""
    parent = os.getppid()
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")
    except (ImportError, OSError, AttributeError):
        pass
    if os.getppid() != parent:
        os._exit(1)


def _measure_safely(cell: Cell, rules: Rules, report: PipeReport) -> Dict[str, Any]:
    try:
        return _measure(cell, rules, report)
    except Exception as error:
        traceback.print_exc()
        verdict = judge_exception(error)
        finite = False if verdict.reason == "loss_not_finite" else None
        return {
            "status": verdict.status,
            "stage": report.stage,
            "reason": verdict.reason,
            "message": verdict.message,
            "loss": {"first": None, "last": None, "finite": finite},
        }


def _measure(cell: Cell, rules: Rules, report: PipeReport) -> Dict[str, Any]:
    report.enter("import")
    import tensorflow as tf

    report.send("tensorflow", {"version": tf.__version__})
    device, name = _choose_device(tf, cell)
    report.enter("build")
    from payload.models.zoo import NETWORKS
    from payload.workload import Workload

    workload = Workload(cell, NETWORKS[cell.model], device)
    if device.lower() not in workload.device.lower().replace("device:", ""):
        raise Unsupported("wrong_device", "TensorFlow put the model on %s and not on %s." % (workload.device, device))
    result = measure(report.count(workload.step), rules, report)
    report.close_window()
    workload.check_output()
    images = cell.batch_size * cell.devices
    timing = result["timing"]
    result["throughput"] = {
        "images_per_s": images / max(timing["quantiles_us"]["p50"], 1.0) * 1e6,
        "images_per_s_total": images * timing["steps"] / max(timing["total_s"], 1e-6),
    }
    result.update(workload=workload.facts, device_name=name, memory=_read_memory(tf, cell))
    result.update(status="ok", stage="done", reason=None, message=None)
    return result


def _choose_device(tf: Any, cell: Cell) -> Tuple[str, str]:
    """(TensorFlow's name for placing, name for people). Raises Unsupported when it is not there: never another one."""
    threads = choose_threads(cell)
    tf.config.threading.set_intra_op_parallelism_threads(threads["intra"])
    tf.config.threading.set_inter_op_parallelism_threads(threads["inter"])
    # As the reference: what has no kernel on the device may go elsewhere. Where the model is, is checked.
    tf.config.set_soft_device_placement(True)
    tf32 = getattr(tf.config.experimental, "enable_tensor_float_32_execution", None)
    if tf32 is not None:
        tf32(False)
    if cell.device == "cpu":
        return "/CPU:0", "CPU:0"
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise Unsupported("no_gpu", _explain_missing_gpu(tf))
    if len(gpus) < cell.devices:
        raise Unsupported(
            "gpus_missing",
            "TensorFlow sees %d GPUs, and the cell asks for %d: run nvidia-smi on the host, and check fleet_devices."
            % (len(gpus), cell.devices),
        )
    if cell.devices > 1:
        raise Unsupported("devices_not_available", "This payload measures one GPU at a time; use devices: 1.")
    tf.config.set_visible_devices(gpus[:1], "GPU")
    details = tf.config.experimental.get_device_details(gpus[0])
    return "/GPU:0", ("GPU:0 %s" % details.get("device_name", "")).strip()


def _explain_missing_gpu(tf: Any) -> str:
    if not tf.test.is_built_with_gpu_support():
        return "The cell asks for a GPU, and this TensorFlow is built for CPUs only: use an image with GPU support."
    return (
        "The cell asks for a GPU, and TensorFlow sees none: run nvidia-smi on the host, check that the container gets "
        "the GPU (--gpus) and that the driver is new enough for the image; the output's end says which library failed."
    )


def _read_memory(tf: Any, cell: Cell) -> Dict[str, Any]:
    if cell.device == "cpu":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"peak_bytes": peak, "source": "process", "reason": None}
    ask = getattr(tf.config.experimental, "get_memory_info", None)
    if ask is None:
        reason = "TensorFlow %s cannot tell; 2.5 and newer can." % tf.__version__
        return {"peak_bytes": None, "source": None, "reason": reason}
    return {"peak_bytes": int(ask("GPU:0")["peak"]), "source": "device", "reason": None}


def _describe_software() -> Dict[str, Any]:
    """`software` of the host's document, less what only the controller knows."""
    software: Dict[str, Any] = {
        "tensorflow": None,
        "python": platform.python_version(),
        "nccl": os.environ.get("NCCL_VERSION"),
        "container": _name_container(),
        "environment": list_recorded(),
    }
    try:
        import tensorflow as tf
    except Exception:
        # The cells will say why, each for itself.
        traceback.print_exc()
        return software
    software["tensorflow"] = tf.__version__
    software["tensorflow_git"] = tf.version.GIT_VERSION
    build = tf.sysconfig.get_build_info() if hasattr(tf.sysconfig, "get_build_info") else {}
    software["cuda"] = _text(build.get("cuda_version"))
    software["cudnn"] = _text(build.get("cudnn_version"))
    return software


def _name_container() -> Optional[str]:
    """What NVIDIA's images say they are, e.g. `nvidia 20.10-tf2 (build 17379986)`."""
    version = os.environ.get("NVIDIA_TENSORFLOW_VERSION")
    build = os.environ.get("NVIDIA_BUILD_ID")
    if not version:
        return None
    return "nvidia %s" % version + (" (build %s)" % build if build else "")


def _text(value: Any) -> Optional[str]:
    return str(value) if value else None
