"""One look at a host: facts for the record, and what the start must know."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from fleet.host.facts import Findings, read_facts
from fleet.host.framing import Section, Shell, read_count, read_script, split_sections
from fleet.host.neighbours import ask_for
from fleet.model.facts import HostFacts
from fleet.model.inventory import Connection, Settings
from fleet.model.plan import HostPlan
from fleet.model.result import Stage
from fleet.runtime.base import HostJob
from fleet.runtime.choose import choose_runtime

PROBE_TIMEOUT_S = 180.0
"""Above the script's own limits together: an answer that names the hanging tool beats a connection given up."""


@dataclass(frozen=True)
class Probe:
    """What one look found."""

    facts: HostFacts
    findings: Findings
    uid: int
    gid: int
    payload_present: bool
    raw: bytes = field(repr=False)
    """As it was printed."""


def choose_python(settings: Settings, connection: Connection, here: str) -> str:
    """The interpreter for `runtime: native`: `here` is fleet's own, which serves on the control node itself."""
    return settings.python or (here if connection.kind == "local" else "python3")


def probe_host(
    shell: Shell, settings: Settings, *, payload_sha256: str = "", change: bool = True, busy: bool = False
) -> Probe:
    """Look at a host in one round trip.

    Args:
        payload_sha256: which payload to look for.
        change: make the work directory where it is not there yet; without it the host is left as it is.
        busy: look who else uses the machine, which takes a second.

    Raises:
        HostError: no connection, or no shell.
    """
    runtime = choose_runtime(settings).name
    subject = settings.python or "python3" if runtime == "native" else settings.image
    mode = "make" if change else "look"
    arguments = [settings.workdir, runtime, subject, payload_sha256, mode]
    arguments += [read_script("workdir"), read_script("neighbours"), *ask_for(settings, busy=busy)]
    asked = time.time()
    raw, sections = shell.read("probe", arguments, stage=Stage.PROBE, timeout_s=PROBE_TIMEOUT_S)
    return read_probe(raw, sections, payload_sha256, (asked, time.time()))


def name_job(plan: HostPlan, run_id: str, payload_sha256: str, probe: Probe) -> HostJob:
    """The names of a planned job on the host that was probed."""
    return HostJob(
        job_id=plan.job_id,
        run_id=run_id,
        workdir=probe.facts.workdir or "",
        payload_sha256=payload_sha256,
        uid=probe.uid,
        gid=probe.gid,
        rootless=probe.facts.rootless,
    )


def reread_probe(raw: bytes) -> Probe | None:
    """A probe that was kept, without what only its round trip told; None when it is damaged, or none."""
    nonce = re.search(rb"^@@([0-9a-f]{16}) id$", raw, re.MULTILINE)
    sections = split_sections(nonce[1].decode(), raw) if nonce else ()
    if not sections or sections[-1].name != "end":
        return None
    probe = read_probe(raw, sections, "", None)
    return probe if probe.facts.workdir and min(probe.uid, probe.gid) >= 0 else None


def read_probe(
    raw: bytes, sections: tuple[Section, ...], payload_sha256: str, round_trip_unix_s: tuple[float, float] | None
) -> Probe:
    """The sections, parsed. The round trip is our clock at its begin and its end, None when not known."""
    findings = Findings({section.name: section for section in sections})
    uid, gid = (read_count(line) for line in [*findings.lines("id"), "", ""][:2])
    return Probe(
        facts=read_facts(findings, round_trip_unix_s),
        findings=findings,
        uid=-1 if uid is None else uid,
        gid=-1 if gid is None else gid,
        payload_present=bool(payload_sha256) and findings.text("payload") == payload_sha256,
        raw=raw,
    )
