"""From a stored run to its view: computed once, made inert, laid out by the renderers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from fleet.analysis.verdict import NO_OUTCOME, Failure, Verdict, is_measured, judge
from fleet.errors import ExitCode
from fleet.model.facts import HostFacts, Software
from fleet.model.plan import HostPlan
from fleet.model.result import CellStatus
from fleet.report.matrix import build_matrices
from fleet.report.notes import find_notes
from fleet.report.setting_lines import build_settings
from fleet.report.view_model import FailureLine, Found, HostRow, Matrix, RunHead, VerdictLine, VerdictWord, View
from fleet.report.wording import (
    count_things,
    join_names,
    make_line,
    name_gpus,
    say_cell,
    say_sentence,
    say_status,
    shorten_cpu,
)
from fleet.store.reader import StoredRun

NOTHING_FOUND = Found()

_MEANINGS = {
    "OOM": "out of memory, a result and no failure",
    "host OOM": "not the GPU ran out of memory, the host or the container did",
    "no gpu": "TensorFlow saw no GPU",
    "gpus missing": "TensorFlow saw fewer GPUs than the cell needs",
    "timeout": "stopped: its time was up, or it hung",
    "crash": "the cell's process failed",
    "skipped": "not tried: a smaller batch did not fit, or another cell is the same",
    "invalid": "measured, but the values make no sense",
    "lost": "no document came back",
    "no outcome": "not collected yet: see fleet status and fleet resume",
}


def build_view(run: StoredRun, found: Found = NOTHING_FOUND) -> View:
    """Everything a report of this run shows. Pure: the same run, in which the same was found, gives the same view."""
    verdict = judge(run.plan, run.outcomes, run.summary is not None and run.summary.interrupted)
    matrices = build_matrices(run, found.slower)
    return View(
        run=_build_head(run),
        verdict=_build_verdict(run, verdict, found),
        matrices=matrices,
        hosts=tuple(_build_host(run, host) for host in run.plan.hosts),
        failures=_build_failures(run, [failure for failure in verdict.failures if not _is_open(run, failure)]),
        notes=tuple(find_notes(run, matrices)),
        legend=_build_legend(matrices),
        to_come=_say_to_come(run, [failure.alias for failure in verdict.failures if _is_open(run, failure)]),
        changes=found.changes,
        settings=build_settings(run),
    )


def _is_open(run: StoredRun, failure: Failure) -> bool:
    """Nothing is wrong with a host that has no outcome yet, as long as its run is not complete."""
    return failure.status == NO_OUTCOME and run.summary is None and failure.alias not in run.problems


def _say_to_come(run: StoredRun, aliases: Sequence[str]) -> str:
    if not aliases:
        return ""
    names = join_names([make_line(alias) for alias in aliases])
    if run.running:
        return f"Still to come: {names}. See how it gets on with: fleet status {run.plan.run_id}"
    why = "still measuring, not collected, or never begun"
    return f"Still to come: {names} ({why}). Take it up with: fleet resume {run.plan.run_id}"


def _build_head(run: StoredRun) -> RunHead:
    plan, summary = run.plan, run.summary
    finished = make_line(summary.finished, 40) if summary else None
    return RunHead(
        run_id=plan.run_id,
        state=_find_state(run),
        created=make_line(plan.created, 40),
        finished=finished,
        took_s=_measure_s(plan.created, summary.finished) if summary else None,
        suite=make_line(plan.suite, 80),
        inventory=make_line(plan.inventory, 200),
        limit=make_line(plan.limit, 200) if plan.limit is not None else None,
        fleet_version=make_line(plan.fleet_version, 40),
        payload_sha256=make_line(plan.payload_sha256, 64),
        rules=plan.rules,
    )


def _find_state(run: StoredRun) -> Literal["complete", "interrupted", "running", "incomplete"]:
    if run.summary is None:
        return "running" if run.running else "incomplete"
    return "interrupted" if run.summary.interrupted else "complete"


def _measure_s(start: str, end: str) -> float | None:
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except (ValueError, TypeError):  # no time at all, or one with and one without a zone
        return None


_STATES: dict[str, VerdictWord] = {"running": "RUNNING", "incomplete": "INCOMPLETE"}
_WORDS: dict[ExitCode, VerdictWord] = {
    ExitCode.OK: "OK",
    ExitCode.UNREACHABLE: "UNREACHABLE",
    ExitCode.NOTHING: "NOTHING MEASURED",
    ExitCode.INTERRUPTED: "INTERRUPTED",
    ExitCode.REGRESSION: "REGRESSION",
}


def _build_verdict(run: StoredRun, verdict: Verdict, found: Found) -> VerdictLine:
    exit_code = verdict.exit_code or (ExitCode.REGRESSION if found.regressions else ExitCode.OK)
    return VerdictLine(
        word=_STATES.get(_find_state(run)) or _WORDS.get(exit_code, "FAILED"),
        hosts_ok=verdict.hosts_ok,
        hosts_total=verdict.hosts_total,
        cells_ok=verdict.cells_ok,
        cells_total=verdict.cells_total,
        coverage=f"{verdict.hosts_ok}/{verdict.hosts_total} hosts, {verdict.cells_ok}/{verdict.cells_total} cells",
        remarks=(*_say_regressions(found), *_remark(run, verdict)),
        exit_code=int(exit_code),
        regressions=len(found.regressions),
    )


def _say_regressions(found: Found) -> tuple[str, ...]:
    if not found.regressions:
        return ()
    more = len(found.regressions) - 1
    others = f" and {count_things(more, 'more incident')}" if more else ""
    return (f"slower than before: {found.regressions[0]}{others}",)


def _remark(run: StoredRun, verdict: Verdict) -> list[str]:
    """What the coverage leaves open, in a few words each."""
    hosts = Counter(failure.status for failure in verdict.failures if failure.cell_id is None)
    cells = Counter(
        (failure.reason if failure.status == CellStatus.UNSUPPORTED else failure.status).replace("_", " ")
        for failure in verdict.failures
        if failure.cell_id is not None
    )
    results = Counter(
        say_cell(cell)
        for outcome in run.outcomes.values()
        for cell in outcome.cells
        if not cell.failed and not is_measured(cell)
    )
    open_ = sum(_is_open(run, failure) for failure in verdict.failures)
    hosts[NO_OUTCOME] -= open_
    remarks = [f"{say_status(status)}: {_count('host', count)}" for status, count in sorted((+hosts).items())]
    if open_:
        remarks.append(f"to come: {_count('host', open_)}")
    remarks += [f"{status}: {_count('cell', count)}" for status, count in sorted((cells + results).items())]
    if verdict.hosts_skipped:
        remarks.append(f"without cells: {_count('host', verdict.hosts_skipped)}")
    if run.summary is None:
        remarks.append("still running" if run.running else "the run is not complete: its controller was stopped")
    return remarks


def _count(noun: str, count: int) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def _build_host(run: StoredRun, host: HostPlan) -> HostRow:
    outcome = run.outcomes.get(host.alias)
    facts = (outcome.facts if outcome else None) or HostFacts()
    software = (outcome.software if outcome else None) or Software()
    cells_ok = {cell.cell_id for cell in outcome.cells if is_measured(cell)} if outcome else set()
    return HostRow(
        alias=make_line(host.alias),
        status=outcome.status.value if outcome else NO_OUTCOME,
        stage=outcome.stage.value if outcome else "",
        gpus=(name_gpus(facts) or "none") if outcome and outcome.facts else "",
        cpu=shorten_cpu(facts.cpu.model),
        cores=facts.cpu.cores,
        threads=facts.cpu.threads,
        memory_bytes=facts.memory_bytes,
        driver=make_line(facts.driver, 40),
        tensorflow=make_line(software.tensorflow, 40),
        cuda=make_line(software.cuda, 40),
        container=make_line(software.container, 80),
        runtime=host.settings.runtime,
        runtime_version=make_line(facts.runtime_version, 40),
        image="" if host.settings.runtime == "native" else make_line(software.image or host.settings.image, 200),
        image_digest=make_line(software.image_digest, 100),
        os=make_line(facts.os, 80),
        kernel=make_line(facts.kernel, 80),
        cells_ok=sum(cell.id in cells_ok for cell in host.cells),
        cells_total=len(host.cells),
        job_s=outcome.job_s if outcome else None,
    )


def _build_failures(run: StoredRun, failures: Sequence[Failure]) -> tuple[FailureLine, ...]:
    lines: dict[tuple[str, ...], FailureLine] = {}
    for failure in failures:
        line = _build_failure(run, failure)
        key = (line.alias, line.status, line.stage, line.reason, line.message, "cell" if line.cells else "")
        known = lines.get(key)
        lines[key] = replace(known, cells=known.cells + line.cells) if known and line.cells else line
    return tuple(lines.values())


def _build_failure(run: StoredRun, failure: Failure) -> FailureLine:
    message, hint = failure.message, failure.hint
    if failure.status == NO_OUTCOME and failure.alias in run.problems:
        message = run.problems[failure.alias]
        hint = "Restore the run directory from a copy, or measure the host again."
    return FailureLine(
        alias=make_line(failure.alias),
        status=make_line(failure.status, 40),
        stage=make_line(failure.stage, 40),
        reason=make_line(failure.reason, 80),
        message=say_sentence(make_line(message, 600) or "It gave no reason.", failure.alias),
        hint=make_line(hint, 600),
        cells=(make_line(failure.cell_id),) if failure.cell_id is not None else (),
        out_of_reach=failure.out_of_reach,
    )


def _build_legend(matrices: Sequence[Matrix]) -> dict[str, str]:
    words = {entry.word for matrix in matrices for row in matrix.rows for entry in row.entries}
    return {word: meaning for word, meaning in _MEANINGS.items() if word in words}
