"""The child: one fresh process that measures one cell, or finds out what TensorFlow is, and reports it over a pipe.

Standard output belongs to whoever prints there (images, libraries), so nothing is reported on it.
"""

import faulthandler
import json
import math
import os
import platform
import resource
import signal
import sys
import time
import traceback
from typing import Any, Dict, List, Optional

from payload.cell import Cell
from payload.environment import list_recorded
from payload.errors import Unsupported, find_way_out, judge_exception
from payload.measure import Report, Step, measure
from payload.numa import bind_to_node
from payload.placement import count_gpus, find_missing_kernel, judge_multiply_bits, place
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
            finite = loss is None or math.isfinite(loss)
            fields = {"steps_us": steps_us[self._shown :], "loss": loss if finite else None, "finite": finite}
            self.send("steps", fields)
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
        result = _describe_system()
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
        verdict = judge_exception(error, cell.precision)
        finite = False if verdict.reason == "loss_not_finite" else None
        return {
            "status": verdict.status,
            "stage": report.stage,
            "reason": verdict.reason,
            "message": verdict.message,
            "loss": {"first": None, "last": None, "finite": finite},
        }


def _measure(cell: Cell, rules: Rules, report: PipeReport) -> Dict[str, Any]:
    # Before there is another thread: only those that start later are bound with this one.
    binding = bind_to_node(rules.numa_node)
    report.enter("import")
    import tensorflow as tf

    report.send("tensorflow", {"version": tf.__version__})
    placement = place(tf, cell, rules)
    report.enter("build")
    from payload.models.zoo import NETWORKS
    from payload.precision import count_multiply_bits
    from payload.workload import Workload

    bits = None
    if cell.precision in ("fp32", "tf32"):
        bits = count_multiply_bits(placement.devices[0])
        judge_multiply_bits(cell, bits)
    workload = Workload(cell, NETWORKS[cell.model], *placement.devices, compat=rules.compat)
    _check_placed(placement.devices, workload.placed)
    if NETWORKS[cell.model].classes is None:
        report.send("activations", {"shapes": workload.activations})
    result = _take_steps(tf, report.count(workload.step), cell, rules, report)
    report.close_window()
    workload.check_output()
    result["throughput"] = _compute_throughput(cell, result["timing"])
    result["execution"] = {
        "intra_threads": placement.threads["intra"],
        "inter_threads": placement.threads["inter"],
        "tf32_allowed": placement.tf32_allowed,
        "multiply_bits": bits,
        "reduction": workload.reduction,
        "devices": len(placement.devices),
        "compat": rules.compat,
        "numa_nodes": binding.nodes,
        "memory_bound": binding.memory_bound,
    }
    result.update(workload=workload.facts, device_name=placement.name, memory=_read_memory(tf, cell))
    result.update(status="ok", stage="done", reason=None, message=None)
    return result


def _take_steps(tf: Any, step: Step, cell: Cell, rules: Rules, report: PipeReport) -> Dict[str, Any]:
    """`payload.measure.measure`, with the operation named that the precision has no kernel of."""
    try:
        return measure(step, rules, report)
    except Exception as error:
        missing = find_missing_kernel(str(error))
        if missing is None:
            raise
        message = "TensorFlow %s has no kernel of %s in %s on a %s here: %s."
        detail = (tf.__version__, missing, cell.precision, cell.device.upper(), find_way_out(cell.precision))
        raise Unsupported("no_kernel", message % detail) from error


def _check_placed(wanted: List[str], placed: List[str]) -> None:
    for device, found in zip(wanted, placed):
        if device.lower() not in found.lower().replace("device:", ""):
            raise Unsupported("wrong_device", "TensorFlow put the model on %s and not on %s." % (found, device))


def _compute_throughput(cell: Cell, timing: Dict[str, Any]) -> Dict[str, Any]:
    """Images per second: by the median of the counted steps, and by the wall time of all timed ones."""
    images = cell.batch_size * cell.devices * cell.steps_per_call
    speed = images / max(timing["quantiles_us"]["p50"], 1.0) * 1e6
    return {
        "images_per_s": speed,
        "images_per_s_per_device": speed / cell.devices,
        "images_per_s_total": images * timing["steps"] / max(timing["total_s"], 1e-6),
    }


def _read_memory(tf: Any, cell: Cell) -> Dict[str, Any]:
    if cell.device == "cpu":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"peak_bytes": peak, "source": "process", "reason": None}
    ask = getattr(tf.config.experimental, "get_memory_info", None)
    if ask is None:
        reason = "TensorFlow %s cannot tell; 2.5 and newer can." % tf.__version__
        return {"peak_bytes": None, "source": None, "reason": reason}
    # Of the fullest device: it is the one that would run out first.
    peak = max(int(ask("GPU:%d" % i)["peak"]) for i in range(cell.devices))
    return {"peak_bytes": peak, "source": "device", "reason": None}


def _describe_system() -> Dict[str, Any]:
    """`software` of the host's document, less what only the controller knows, and how many GPUs there are."""
    system: Dict[str, Any] = {"gpus_usable": None}
    software = system["software"] = {
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
        return system
    system["gpus_usable"] = count_gpus(tf)
    software["tensorflow"] = tf.__version__
    software["tensorflow_git"] = tf.version.GIT_VERSION
    build = tf.sysconfig.get_build_info() if hasattr(tf.sysconfig, "get_build_info") else {}
    software["cuda"] = _text(build.get("cuda_version"))
    software["cudnn"] = _text(build.get("cudnn_version"))
    return system


def _name_container() -> Optional[str]:
    """What NVIDIA's images say they are, e.g. `nvidia 20.10-tf2 (build 17379986)`."""
    version = os.environ.get("NVIDIA_TENSORFLOW_VERSION")
    build = os.environ.get("NVIDIA_BUILD_ID")
    if not version:
        return None
    return "nvidia %s" % version + (" (build %s)" % build if build else "")


def _text(value: Any) -> Optional[str]:
    return str(value) if value else None
