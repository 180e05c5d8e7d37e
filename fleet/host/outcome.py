"""From what a host gave back to its one outcome."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fleet.host.diagnosis import diagnose_launch
from fleet.host.neighbours import read_apps
from fleet.host.results import ContainerState, ExitRecord, Expectation, ImageRecord, read_cells, read_document
from fleet.model.facts import HostFacts, Software
from fleet.model.plan import HostPlan
from fleet.model.result import CellResult, CellStatus, HostOutcome, HostStatus, Stage, SystemResult
from fleet.model.text import make_inert


@dataclass(frozen=True)
class Ending:
    """Status, stage, reason, sentence, hint."""

    status: HostStatus
    stage: Stage
    reason: str | None = None
    message: str = ""
    hint: str = ""


def build_outcome(
    expected: Expectation, files: Mapping[str, bytes], facts: HostFacts | None, ending: Ending | None
) -> HostOutcome:
    """The outcome of a job that was started.

    Args:
        files: what was collected, by name.
        ending: what is already known to have gone wrong with the host; None leaves it to the files.
    """
    cells, problems = read_cells(expected, files)
    record, trouble = read_document(files, "exit.json", ExitRecord)
    if record and record.job_id != expected.plan.job_id:
        record, trouble = None, "exit.json is of another job"
    if trouble:
        problems.insert(0, trouble)
    system, trouble = read_document(files, "system.json", SystemResult)
    if system and (system.run_id, system.job_id) != (expected.run_id, expected.plan.job_id):
        system, trouble = None, "system.json is of another job"
    if trouble and record and record.exit_status == 0:
        problems.append(trouble)
    if ending is None:
        ending = _judge(expected.plan, cells, problems, record, files)
        if ending.status is HostStatus.OK and system is not None:
            ending = _count_gpus(expected.plan, cells, system.gpus_usable) or ending
        ending = _suspect_cpu_host(expected.plan, facts, ending)
    return HostOutcome(
        alias=expected.plan.alias,
        job_id=expected.plan.job_id,
        status=ending.status,
        stage=ending.stage,
        reason=ending.reason,
        message=make_inert(ending.message, 600),
        hint=ending.hint,
        job_s=_read_duration(record),
        facts=facts,
        software=_read_software(expected.plan, system, files),
        cpus_usable=system.cpus_usable if system else None,
        cpu_quota=system.cpu_quota if system else None,
        memory_limit_bytes=system.memory_limit_bytes if system else None,
        others_after=read_apps(files["others"].decode(errors="replace")) if "others" in files else None,
        cells=cells,
    )


def _read_duration(record: ExitRecord | None) -> float | None:
    """Seconds by the host's clock; None when it was set back meanwhile."""
    if record is None or record.started_unix_s is None or record.finished_unix_s < record.started_unix_s:
        return None
    return record.finished_unix_s - record.started_unix_s


def _judge(
    plan: HostPlan,
    cells: tuple[CellResult, ...],
    problems: list[str],
    record: ExitRecord | None,
    files: Mapping[str, bytes],
) -> Ending:
    """The first of: the supervisor's reason, documents that are not right, what became of the cells."""
    if record is None:
        return Ending(HostStatus.RESULT_INVALID, Stage.COLLECT, "exit_record", _join(problems), _INVALID_HINT)
    lost = sum(cell.status == CellStatus.LOST for cell in cells)
    if record.reason != "exited" and not (record.reason == "gone" and lost == 0):
        return _judge_interruption(plan, record, files)
    if record.exit_status == 0 and plan.settings.runtime != "native" and not _wrote_anything(files):
        return _blame_entrypoint(plan, "it ended with exit status 0 and wrote nothing")
    if problems:
        return Ending(HostStatus.RESULT_INVALID, Stage.COLLECT, "document", _join(problems), _INVALID_HINT)
    if record.exit_status or lost:
        return _judge_exit(plan, record, lost, files)
    failed = [cell for cell in cells if cell.failed]
    if not failed:
        return Ending(HostStatus.OK, Stage.RUN)
    status = HostStatus.FAILED if len(failed) == len(cells) else HostStatus.PARTIAL
    first = failed[0]
    why = first.message or first.reason or first.status
    said = f"{len(failed)} of {len(cells)} cells failed, first {first.cell_id}: {why}"
    return Ending(status, Stage.RUN, first.reason or first.status, said)


def _count_gpus(plan: HostPlan, cells: tuple[CellResult, ...], found: int | None) -> Ending | None:
    """What is wrong with a host that has fewer GPUs than the inventory says, though what it was asked for went well."""
    declared = plan.settings.gpus_declared
    if declared is None or found is None or found >= declared:
        return None
    measured = any(cell.status is CellStatus.OK for cell in cells)
    return Ending(
        HostStatus.PARTIAL if measured else HostStatus.FAILED,
        Stage.RUN,
        "gpus_missing",
        f"TensorFlow sees {found} of the {declared} GPUs that fleet_devices names",
        "Run nvidia-smi there: a GPU may have fallen off the bus, or be hidden; or correct fleet_devices.",
    )


def _suspect_cpu_host(plan: HostPlan, facts: HostFacts | None, ending: Ending) -> Ending:
    """Where no GPU was handed out and none was found either, the likely mistake is the inventory's."""
    if ending.reason not in {"toolkit_missing", "cdi_spec_missing"} or facts is None or facts.gpus or facts.driver:
        return ending
    message = f"no GPU was found on the host, and the inventory says that it has some; {ending.message}"
    return replace(ending, message=message, hint=f"For a host without GPUs set fleet_devices: cpu. Else: {ending.hint}")


_INVALID_HINT = "What came is kept in the run's directory as it is; look at `log` there, and at the host's disk."


def _judge_interruption(plan: HostPlan, record: ExitRecord, files: Mapping[str, bytes]) -> Ending:
    """The payload did not come to its own end."""
    said = files.get("launch.err", b"").decode(errors="replace")
    if record.reason == "deadline" and record.stage != Stage.PULL:
        hint = "Look at the last cell; raise cell_timeout_s in the suite if the machine is merely slow."
        return Ending(
            HostStatus.TIMED_OUT, Stage.RUN, "deadline", f"the job was ended after {plan.deadline_s:.0f} s", hint
        )
    if record.reason == "deadline":
        return Ending(
            HostStatus.TIMED_OUT,
            Stage.PULL,
            "pull_deadline",
            f"pulling {plan.settings.image} took too long",
            "Pull it there by hand.",
        )
    if record.reason == "cancelled":
        return Ending(HostStatus.CANCELLED, record.stage, "cancelled", "cancelled while it ran")
    if record.reason in {"launch_failed", "pull_failed"}:
        reason, message, hint = diagnose_launch(said, plan.settings.image)
        return Ending(HostStatus.PREFLIGHT_FAILED, record.stage, reason, message, hint)
    return Ending(HostStatus.LOST, record.stage, "killed", "somebody removed the job while it ran", "Ask who did.")


def _judge_exit(plan: HostPlan, record: ExitRecord, lost: int, files: Mapping[str, bytes]) -> Ending:
    """The payload itself failed: it ended without a document for every cell."""
    state, _ = read_document(files, "container.json", ContainerState)
    status, last = record.exit_status or 0, _find_reason(files.get("log", b""))
    left = f"{lost} of {len(plan.cells)} cells were not measured"
    if state and state.OOMKilled:
        said = f"the kernel killed the payload for lack of memory; {left}"
        hint = "The container's memory limit or the machine's memory is too small for this suite."
        return Ending(HostStatus.FAILED, Stage.RUN, "oom_killed", said, hint)
    missing = _find_missing_python(files.get("log", b""))
    if status in {126, 127} and plan.settings.runtime != "native" and not missing and not (state and state.Error):
        return _blame_entrypoint(plan, f"exit status {status}: {last}")
    evidence = _find_launch_fault(status, missing or last, state)
    if evidence:
        diagnosis = diagnose_launch(evidence, plan.settings.image)
        return Ending(HostStatus.PREFLIGHT_FAILED, Stage.LAUNCH, *diagnosis)
    if 128 < status <= 128 + signal.SIGRTMAX:
        said = f"the payload was ended by {_name_signal(status - 128)}; {left}"
        hint = "Somebody or something killed it: see the host's kernel log."
        return Ending(HostStatus.FAILED, Stage.RUN, "killed", said, hint)
    said = f"the payload ended with exit status {status}; {left}: {last}"
    return Ending(HostStatus.FAILED, Stage.RUN, "payload_failed", said, "See `log` in the run's directory.")


def _wrote_anything(files: Mapping[str, bytes]) -> bool:
    return any(name == "system.json" or name.startswith("cells/") for name in files)


def _blame_entrypoint(plan: HostPlan, said: str) -> Ending:
    message = f"the entrypoint of the image {plan.settings.image} did not run our command ({said})"
    hint = 'It must end in exec "$@"; set fleet_image to an image whose entrypoint does.'
    return Ending(HostStatus.PREFLIGHT_FAILED, Stage.LAUNCH, "entrypoint", message, hint)


def _find_launch_fault(status: int, last: str, state: ContainerState | None) -> str:
    """What says that the payload never began, in the engine's words; empty when it did."""
    if state and state.Error:
        return state.Error
    if status in {126, 127}:
        return f"executable file not found: {last}"
    # A program for another processor: the container starts, and the kernel refuses the program in it.
    return last if re.match(r"exec .*: exec format error$", last) else ""


def _name_signal(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _find_missing_python(log: bytes) -> str:
    """The line that says so; not always the last, for an engine keeps no order between stdout and stderr."""
    pattern = r"^.*\bpython3?\b.*(?:not found|no such file|permission denied).*$"
    found = re.search(pattern, make_inert(log[-4096:].decode(errors="replace")), re.IGNORECASE | re.MULTILINE)
    return found[0].strip()[:300] if found else ""


def _find_reason(log: bytes) -> str:
    """The last line of the log that speaks of an error; failing that the last."""
    lines = [line.strip() for line in make_inert(log[-4096:].decode(errors="replace")).split("\n") if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    return (telling or lines or ["it printed nothing"])[-1][:300]


def _read_software(plan: HostPlan, system: SystemResult | None, files: Mapping[str, bytes]) -> Software | None:
    """The payload's own view, and which image it really was."""
    if plan.settings.runtime == "native":
        return system.software.model_copy(update={"runtime": "native"}) if system else None
    image, _ = read_document(files, "image.json", ImageRecord)
    digests = [d.rpartition("@")[2] for d in (image.repo_digests or [])] if image else []
    seen = {
        "runtime": plan.settings.runtime,
        "image": plan.settings.image,
        "image_digest": (digests[0] if digests else image.id) if image else None,
    }
    return system.software.model_copy(update=seen) if system else Software(**seen)


def _join(problems: list[str]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return problems[0] + more if problems else "nothing came"
