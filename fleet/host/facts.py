"""From what the probe printed to `HostFacts`. What cannot be read is None: a strange host is still a host."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO

from fleet.host.framing import Section, read_count
from fleet.model.facts import Cpu, Gpu, HostFacts
from fleet.model.text import make_inert


@dataclass(frozen=True)
class Findings:
    """The probe's sections by name."""

    sections: Mapping[str, Section]

    def words(self, name: str) -> tuple[str, ...]:
        """What stands on the section's own line; empty when there is none."""
        section = self.sections.get(name)
        return section.words if section else ()

    def text(self, name: str) -> str:
        """The section's body, inert; empty when there is none."""
        section = self.sections.get(name)
        return make_inert(section.body.decode(errors="replace").strip(), 65536) if section else ""

    def lines(self, name: str) -> list[str]:
        """The body's lines, stripped."""
        return [line.strip() for line in self.text(name).split("\n")]


def read_facts(findings: Findings, round_trip_unix_s: tuple[float, float] | None) -> HostFacts:
    """All facts. The round trip is our clock before and after the host looked at its own; None when not known."""
    gpu_table = findings.text("gpus") if findings.words("gpus")[:1] == ("0",) else ""
    machine_id = findings.text("machine_id")
    engine = findings.text("engine") if findings.words("engine")[:1] == ("0",) else ""
    uname = [*findings.lines("uname"), "", "", ""]
    lscpu = findings.text("lscpu")
    return HostFacts(
        machine_id_sha256=hashlib.sha256(machine_id.encode()).hexdigest() if machine_id else None,
        boot_id=findings.text("boot_id") or None,
        product=" ".join(findings.text("product").split()) or None,
        kernel=uname[1] or None,
        os=_match(r'^PRETTY_NAME="?([^"\n]*)', findings.text("os")),
        architecture=uname[2] or None,
        virtualisation=_match(r"^ *Hypervisor vendor:\s*(.+)", lscpu),
        user=[*findings.lines("id"), "", "", ""][2] or None,
        cpu=_read_cpu(lscpu, findings.text("cpuinfo"), findings.text("governor")),
        memory_bytes=_kilobytes(_match(r"MemTotal:\s+(\d+)", findings.text("memory"))),
        numa_nodes=read_count(findings.text("numa")),
        gpus=read_gpus(gpu_table, findings.text("remapped") if findings.words("remapped")[:1] == ("0",) else ""),
        driver=next((row["driver_version"] for row in _read_table(gpu_table) if row.get("driver_version")), None),
        runtime_version=_read_runtime_version(engine, findings.lines("python")),
        rootless="name=rootless" in engine,
        image_digest=read_digest(findings.text("image")) if findings.words("image")[:1] == ("0",) else None,
        workdir=findings.lines("workdir")[0] or None,
        workdir_free_bytes=_kilobytes(_column(findings.text("disk"), 3)),
        clock_offset_s=_compare_clocks(read_count(findings.text("time")), round_trip_unix_s),
    )


def _compare_clocks(clock_unix_s: int | None, round_trip_unix_s: tuple[float, float] | None) -> float | None:
    """Nobody knows when in a round trip the host looked at its clock, which it tells in whole seconds."""
    if not clock_unix_s or round_trip_unix_s is None:
        return None
    asked, answered = round_trip_unix_s
    if answered < asked:  # ours was set back meanwhile
        return None
    return round(max(clock_unix_s - answered, 0.0) or min(clock_unix_s + 1 - asked, 0.0), 1)


def read_digest(text: str) -> str | None:
    """From `ID ["name@sha256:…", …]`: the repository's digest, or the image's own id where it came from no registry.

    The client's warnings may stand before that line.
    """
    image_id, _, rest = (_match(r"^((?:sha256:)?[0-9a-f]{64}\b.*)", text) or "").partition(" ")
    try:
        digests = json.loads(rest or "[]") or []
    except ValueError:
        digests = []
    named = [d.rpartition("@")[2] for d in digests if isinstance(d, str) and "@" in d]
    return named[0] if named else image_id or None


def read_gpus(table: str, remapped: str = "") -> tuple[Gpu, ...]:
    """Rows of `nvidia-smi --query-gpu=… --format=csv,nounits`, by the names in its first line. MiB become bytes.

    Values that are no values (`[N/A]`, `[Not Supported]`, `[GPU requires reset]`, …) are None.

    Args:
        remapped: what `nvidia-smi --query-remapped-rows=… --format=csv` printed.
    """
    rows = {row["gpu_uuid"]: row for row in _read_table(remapped) if "gpu_uuid" in row}
    return tuple(
        Gpu(
            index=read_count(row.get("index")),
            uuid=row.get("uuid"),
            name=row.get("name"),
            pci_bus_id=row.get("pci.bus_id"),
            vbios=row.get("vbios_version"),
            memory_bytes=_kilobytes(row.get("memory.total"), 1 << 20),
            power_limit_w=_number(row.get("power.limit")),
            power_default_w=_number(row.get("power.default_limit")),
            power_max_w=_number(row.get("power.max_limit")),
            clock_sm_max_mhz=_number(row.get("clocks.max.sm")),
            clock_mem_max_mhz=_number(row.get("clocks.max.memory") or row.get("clocks.max.mem")),
            ecc=row.get("ecc.mode.current"),
            mig=row.get("mig.mode.current"),
            persistence=row.get("persistence_mode"),
            pcie_gen_max=read_count(row.get("pcie.link.gen.max")),
            pcie_width_max=read_count(row.get("pcie.link.width.max")),
            rows_pending=_read_switch(rows.get(row.get("uuid", ""), {}).get("remapped_rows.pending")),
            rows_failed=_read_switch(rows.get(row.get("uuid", ""), {}).get("remapped_rows.failure")),
        )
        for row in _read_table(table)
    )


def _read_table(table: str) -> list[dict[str, str]]:
    """CSV with a header; units in the names (`power.limit [W]`) and values that are none are left out."""
    rows = list(csv.reader(StringIO(table.replace("\0", "")), skipinitialspace=True))
    if not rows:
        return []
    names = [name.partition(" [")[0].strip() for name in rows[0]]
    if not _IDENTITY & set(names):
        return []  # Two lines of an error message are a table as well.
    return [
        {name: value.strip() for name, value in zip(names, row, strict=False) if not _NO_VALUE.match(value.strip())}
        for row in rows[1:]
        if len(row) == len(names)
    ]


_IDENTITY = {"index", "uuid", "name", "gpu_uuid"}
_NO_VALUE = re.compile(r"$|\[.*\]$|N/A$|ERR!$", re.IGNORECASE)


def _read_cpu(lscpu: str, cpuinfo: str, governor: str) -> Cpu:
    """lscpu first, /proc/cpuinfo where it is missing. util-linux 2.37 indents, others do not."""
    sockets = read_count(_match(r"^ *Socket\(s\):\s*(\d+)", lscpu))
    per_socket = read_count(_match(r"^ *Core\(s\) per socket:\s*(\d+)", lscpu))
    flags = _match(r"^flags\s*:\s*(.+)", cpuinfo)
    return Cpu(
        model=_match(r"^ *Model name:\s*(.+)", lscpu) or _match(r"^model name\s*:\s*(.+)", cpuinfo),
        sockets=sockets,
        cores=sockets * per_socket if sockets and per_socket else None,
        threads=read_count(_match(r"^fleet processors:\s*(\d+)", cpuinfo)),
        governor=governor or None,
        microcode=_match(r"^microcode\s*:\s*(\S+)", cpuinfo),
        vector_extensions=tuple(name for name in _VECTORS if name in flags.split()) if flags else None,
    )


_VECTORS = ("avx", "avx2", "fma", "avx512f")


def _read_runtime_version(engine: str, python: list[str]) -> str | None:
    if engine:
        return _match(r"^(\d+\.\d\S*)", engine)
    return python[1] if len(python) > 1 and python[0] == "0" else None


def _match(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1).strip() or None if found else None


def _read_switch(text: str | None) -> bool | None:
    """Drivers say `Yes` and `No`, or 1 and 0."""
    return {"yes": True, "1": True, "no": False, "0": False}.get((text or "").lower())


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) else None


def _kilobytes(text: str | None, unit: int = 1024) -> int | None:
    count = read_count(text)
    return count * unit if count is not None else None


def _column(line: str, index: int) -> str | None:
    columns = line.split()
    return columns[index] if index < len(columns) else None
