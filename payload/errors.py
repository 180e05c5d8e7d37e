"""Why a cell was not measured: what went wrong, made into a status, a fixed reason and a sentence."""

import os
import re
import signal
from typing import NamedTuple, Optional

from payload.cgroup import read_memory_limit
from payload.measure import NotFinite
from payload.procfs import read_text
from payload.symptoms import find_symptom
from payload.watchdog import Overdue

Verdict = NamedTuple("Verdict", [("status", str), ("reason", str), ("message", str)])


class Unsupported(Exception):
    """The machine, or TensorFlow on it, cannot do what the cell asks for; the message is a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        Exception.__init__(self, message)
        self.reason = reason


_OUT_OF_MEMORY = re.compile(
    r"OOM when allocating|out of memory|CUDA_ERROR_OUT_OF_MEMORY|failed to allocate memory|bad_alloc|"
    r"Dst tensor is not initialized|Cannot allocate memory|Unable to allocate",
    re.IGNORECASE,
)
_NO_KERNEL = re.compile(
    r"No OpKernel was registered|Could not find device for node|No registered '|no supported kernel|not implemented",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(
    r"\w+: Graph execution error:$|Detected at node |File \"|<stack traces unavailable>|Node: '|"
    r"(\w+: +)?\d+ root error\(s\) found\.$"
)
"""Lines after which TensorFlow comes to what went wrong."""

_SMALLER = "Use a smaller batch."

_GENERIC = ("exception", "exited", "aborted", "segfault", "bus_error", "signal", "tensorflow_missing")
"""Reasons that say how it ended and not why; the output may know more."""

_STATES = {
    "D": "It waits in the kernel, for a driver, a disk or a network file system: look in the host's `dmesg`.",
    "T": "Somebody stopped it (SIGSTOP).",
    "R": "It computes without end.",
}

_SIGNALS = {
    "SIGILL": (
        "illegal_instruction",
        "The processor lacks an instruction that this TensorFlow is built for, most often AVX: use another image, or a "
        "machine whose CPU (or virtual CPU) has it.",
    ),
    "SIGKILL": (
        "killed",
        "Somebody killed it, most often the kernel for want of memory: look in the host's `dmesg`, or use a smaller "
        "batch.",
    ),
    "SIGBUS": (
        "bus_error",
        "Most often /dev/shm is full: give the container more with --ipc=host or --shm-size.",
    ),
    "SIGSEGV": ("segfault", "Look at the end of its output; driver and image may not fit each other."),
    "SIGABRT": ("aborted", "Look at the end of its output for what TensorFlow found."),
}


def judge_exception(error: BaseException, precision: str) -> Verdict:
    """What an exception in the child means.

    Args:
        precision: the cell's.
    """
    text = "%s: %s" % (type(error).__name__, str(error).strip())
    short = _shorten(text)
    if isinstance(error, Unsupported):
        return Verdict("unsupported", error.reason, str(error))
    if isinstance(error, NotFinite):
        return Verdict("invalid", error.reason, "%s %s" % (error, _doubt(precision)))
    if isinstance(error, MemoryError):
        return Verdict("oom", "host_memory", "The memory of the machine does not suffice. " + _SMALLER)
    if type(error).__name__ == "ResourceExhaustedError" or _OUT_OF_MEMORY.search(text):
        where = "device" if re.search(r"GPU|CUDA", text) else "host"
        return Verdict("oom", where + "_memory", "The %s's memory does not suffice: %s %s" % (where, short, _SMALLER))
    if isinstance(error, ImportError):
        message = "TensorFlow cannot be loaded: %s Use an image that has it, or install it for this python3." % short
        return Verdict("crash", "tensorflow_missing", message)
    if _NO_KERNEL.search(text):
        message = "TensorFlow has no kernel for it here: %s %s." % (short, find_way_out(precision).capitalize())
        return Verdict("unsupported", "no_kernel", message)
    return Verdict("crash", "exception", "TensorFlow failed: %s Look at the end of its output." % short)


def find_way_out(precision: str) -> str:
    """What to do where TensorFlow lacks something that the cell needs."""
    return "use another image" if precision == "fp32" else "use fp32"


def judge_death(returncode: int, output: str, oom_killed: bool) -> Verdict:
    """What it means that the child ended without a result.

    Args:
        returncode: as subprocess gives it: negative for a signal.
        output: the end of what the child printed.
        oom_killed: the kernel's count of processes killed for memory went up meanwhile.
    """
    name = _name_signal(-returncode) if returncode < 0 else None
    if name == "SIGKILL" and oom_killed:
        limit = read_memory_limit()
        where = "the memory of the host"
        if limit is not None:
            where = "the limit of %.1f GiB, or the host's memory," % (limit / 2.0**30)
        return Verdict("oom", "host_memory", "The kernel killed it: %s does not suffice. %s" % (where, _SMALLER))
    if name in ("SIGABRT", "SIGSEGV", None) and _OUT_OF_MEMORY.search(output):
        return Verdict("oom", "host_memory", "The memory of the host does not suffice. " + _SMALLER)
    if name is None:
        message = "It ended with exit status %d and no result. Look at the end of its output." % returncode
        return Verdict("crash", "exited", message)
    reason, remedy = _SIGNALS.get(name, ("signal", "Look at the end of its output."))
    evidence = {"SIGILL": _describe_avx, "SIGBUS": _describe_shared_memory}.get(name, str)()
    return Verdict("crash", reason, ("It was ended by %s. %s %s" % (name, remedy, evidence)).rstrip())


def judge_hang(overdue: Overdue, stage: str) -> Verdict:
    """The child was given up by the watchdog."""
    if overdue.reason == "cell_timeout":
        said = (
            "It was not done after %g s (stage %s). Raise cell_timeout_s if the machine is just slow; otherwise "
            "something hangs." % (overdue.waited_s, stage)
        )
    elif overdue.reason == "first_step_hang":
        said = (
            "The first step was not done after %.0f s. Raise cell_timeout_s if the machine is just slow; otherwise it "
            "hangs." % overdue.waited_s
        )
    else:
        usual = "" if overdue.median_s is None else " where one takes %.3g s" % overdue.median_s
        # Steps are heard of once a second.
        count = "%d step%s" % (overdue.steps, "" if overdue.steps == 1 else "s")
        said = "No step was done for %.0f s%s, after at least %s (stage %s): it hangs." % (
            overdue.waited_s,
            usual,
            count,
            stage,
        )
    where = "The end of its output says where each thread was."
    return Verdict("timeout", overdue.reason, " ".join(filter(None, [said, _STATES.get(overdue.state or ""), where])))


def explain(verdict: Verdict, output: str) -> Verdict:
    """The same verdict, or one that names the cause where the child's output is known to tell it.

    Args:
        output: the end of what the child printed.
    """
    if verdict.status == "timeout":
        symptom = find_symptom(output, "hang")
        return verdict if symptom is None else verdict._replace(message="%s %s" % (verdict.message, symptom.message))
    if verdict.reason in ("no_gpu", "gpus_missing"):
        symptom = find_symptom(output, "no_gpu")
    elif verdict.reason in _GENERIC:
        symptom = find_symptom(output, "crash")
    else:
        symptom = None
    return verdict if symptom is None else Verdict(verdict.status, symptom.reason, symptom.message)


def _doubt(precision: str) -> str:
    """What values that are not finite may mean, and how to find out."""
    if precision == "fp32":
        return "The machine computes wrongly, or the model diverges: measure it on another machine to tell them apart."
    return (
        "The machine computes wrongly, or %s is too narrow for the model: measure it in fp32 to tell them apart."
        % precision
    )


def _describe_avx() -> str:
    """What this processor says of AVX."""
    flags = re.search(r"^flags\s*:(.*)$", read_text("/proc/cpuinfo"), re.M)
    if flags is None:
        return ""
    return "This one has AVX." if "avx" in flags.group(1).split() else "This one has no AVX."


def _describe_shared_memory() -> str:
    """How much of /dev/shm is free."""
    try:
        volume = os.statvfs("/dev/shm")
    except OSError:
        return "There is no /dev/shm."
    sizes = [blocks * volume.f_frsize / 1e6 for blocks in (volume.f_bavail, volume.f_blocks)]
    return "It has %.0f MB free of %.0f MB." % (sizes[0], sizes[1])


def _name_signal(number: int) -> Optional[str]:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def _shorten(text: str) -> str:
    """What an error says in one line of at most 300 characters, ended as a sentence.

    TensorFlow 2.7 and newer say first where the failed operations were defined. When several failed, they are counted
    before the first is told.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    begin = 0
    for i, line in enumerate(lines[:-1]):
        if _PREAMBLE.match(lines[0]) and _PREAMBLE.match(line):
            begin = i + 1
    return re.sub(r"^\(0\) ", "", lines[begin])[:300].rstrip(" .") + "."
