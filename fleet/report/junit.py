"""A view as JUnit's XML: a suite for each host, a case for each cell."""

from __future__ import annotations

from xml.etree import ElementTree

from fleet.report.lines import Line, list_lines
from fleet.report.view_model import HostRow, View
from fleet.report.wording import say_status

_SKIPPED = {"unsupported", "skipped", "oom"}
"""Of a cell: nothing is wrong, and there is no value."""


def render_junit(view: View) -> str:
    """The report as JUnit's XML, as CI systems read it.

    A cell without its value is a failure, and so is one that is slower than before (an incident is open); one whose
    host gave nothing is an error; what a device cannot do, or has no memory for, is skipped. A host without cells has
    one case of its own.
    """
    root = ElementTree.Element("testsuites", name=f"fleet {view.run.suite}")
    by_host: dict[str, list[Line]] = {host.alias: [] for host in view.hosts}
    for line in list_lines(view):
        by_host.setdefault(line.host, []).append(line)
    hosts = {host.alias: host for host in view.hosts}
    for alias, lines in by_host.items():
        _add_suite(root, view, hosts.get(alias), alias, lines)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_suite(root: ElementTree.Element, view: View, host: HostRow | None, alias: str, lines: list[Line]) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=alias, timestamp=view.run.created)
    if host is not None and host.job_s is not None:
        suite.set("time", f"{host.job_s:.1f}")
    counts = dict.fromkeys(("failure", "error", "skipped"), 0)
    for line in lines:
        if outcome := _add_case(suite, line):
            counts[outcome] += 1
    if not lines and host is not None and host.status != "ok":
        case = ElementTree.SubElement(suite, "testcase", classname=alias, name="host")
        ElementTree.SubElement(case, "error", type=host.status, message=say_status(host.status))
        counts["error"] += 1
    suite.set("tests", str(len(suite)))
    for name, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(plural, str(counts[name]))


def _add_case(suite: ElementTree.Element, line: Line) -> str:
    """The case; `failure`, `error`, `skipped`, or nothing when there is a value."""
    entry = line.entry
    case = ElementTree.SubElement(suite, "testcase", classname=line.host, name=line.cell_id)
    if entry.kind == "value":
        if entry.images_per_s is not None:
            properties = ElementTree.SubElement(case, "properties")
            ElementTree.SubElement(properties, "property", name="images_per_s", value=f"{entry.images_per_s:.6g}")
        if entry.slower:
            ElementTree.SubElement(case, "failure", message="slower than before", type="regression")
        return "failure" if entry.slower else ""
    lost = entry.status not in {"oom", "unsupported", "timeout", "crash", "invalid", "skipped", "ok"}
    outcome = "skipped" if entry.status in _SKIPPED else "error" if lost else "failure"
    found = ElementTree.SubElement(case, outcome, message=entry.message or entry.word)
    if outcome != "skipped":
        found.set("type", entry.status)
    return outcome
