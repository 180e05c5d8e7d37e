"""fleet's fan-out beside its peers, in one run: wall time, processor time, memory and failures for the same work.

    python tests/bench/fanout.py                                  # 16, 64 and 256 hosts; half an hour
    python tests/bench/fanout.py --hosts 64
    python tests/bench/fanout.py --hosts 16 --tools fleet asyncssh --rounds 20
    python tests/bench/fanout.py --record docs/fanout.md          # writes what was measured

The work on each host: push a file of 100 KB, start a short detached job on it, fetch the 5 KB that the job makes. A
result that is not there or not right is a failure. The tools take turns; every round has a payload of its own.

The hosts are namespaces of this machine with an sshd each, on 127.1.x.y: it takes Linux, root, OpenSSH and pip. Times
count from the start of the program to its end. Hosts and tools share one core, so that wall time is all the work there
is, and a ratio does not hang on how many cores there are. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from pydantic import BaseModel

from tests.bench.fanout_hosts import Hosts, start_hosts
from tests.bench.fanout_tools import ROOT, TOOLS, Tool
from tests.bench.fanout_work import Work

SLOWER_AT_MOST = {64: 1.25, 256: 1.25}
"""By the number of hosts: fleet's wall time ÷ that of the fastest peer."""

FASTER_THAN_ANSIBLE = {16: 15.0, 64: 25.0}
"""By the number of hosts: Ansible's wall time ÷ fleet's."""


class Taken(BaseModel):
    """What `fanout_measure` says of one round of one tool."""

    status: int
    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass
class Row:
    """One tool on so many hosts."""

    tool: Tool
    hosts: int
    rounds: dict[int, Taken] = field(default_factory=dict)
    """By number: a slow tool takes part in fewer."""
    failures: int = 0
    """Hosts without their result, all rounds together."""

    @property
    def spent_s(self) -> float:
        return sum(taken.wall_s for taken in self.rounds.values())

    @property
    def wall_s(self) -> float:
        return statistics.median(taken.wall_s for taken in self.rounds.values())

    @property
    def cpu_s(self) -> float:
        return statistics.median(taken.cpu_s for taken in self.rounds.values())

    @property
    def peak_mb(self) -> float:
        return max(taken.peak_bytes for taken in self.rounds.values()) / 1e6

    def divide_wall(self, other: Row) -> float:
        """Our wall time ÷ the other's: the median over the rounds that both took part in."""
        both = self.rounds.keys() & other.rounds.keys()
        return statistics.median(self.rounds[n].wall_s / other.rounds[n].wall_s for n in both)


def take_round(row: Row, number: int, hosts: Hosts, forks: int) -> None:
    work = Work(hosts, forks, hosts.folder / "work")
    work.prepare()
    argv = [sys.executable, "-m", "tests.bench.fanout_measure", *row.tool.build_command(work)]
    with (hosts.folder / "said").open("w+") as said:
        done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=said, text=True, check=True)
        row.rounds[number] = Taken.model_validate_json(done.stdout)
        failed = row.hosts - row.tool.count_done(work)
        row.failures += failed
        if failed:
            said.seek(0)
            print(f"{row.tool.name}: {failed} hosts failed\n{said.read()[-2000:]}", file=sys.stderr)


def compare(count: int, arguments: argparse.Namespace) -> list[Row]:
    """All tools on so many hosts, in turn, one time forwards and one time backwards."""
    rows = [Row(tool, count) for tool in TOOLS if tool.name in arguments.tools]
    with start_hosts(count) as hosts:
        for number in range(arguments.rounds):
            for row in rows if number % 2 == 0 else reversed(rows):
                if row.spent_s < arguments.limit_s:
                    take_round(row, number, hosts, arguments.forks)
    return rows


def format_table(rows: Sequence[Row]) -> list[str]:
    """Lines of Markdown."""
    first = rows[0]
    lines = [
        f"| {first.hosts} hosts | wall s | × {first.tool.name} | processor s | memory MB | failures | rounds |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        figures = f"{row.wall_s:.2f} | {row.divide_wall(first):.2f} | {row.cpu_s:.2f} | {row.peak_mb:.0f}"
        lines.append(f"| {row.tool.name} | {figures} | {row.failures} | {len(row.rounds)} |")
    return lines


def judge(rows: Sequence[Row]) -> list[tuple[bool, str]]:
    """The bars that hold for so many hosts and these tools: whether each is kept, and a sentence."""
    count, by_name = rows[0].hosts, {row.tool.name: row for row in rows}
    ours = by_name.get("fleet")
    peers = [row for row in rows if not row.tool.is_ours and not row.failures]
    bars = [(row.failures == 0, f"{row.tool.name}: {row.failures} failures") for row in rows if row.tool.is_ours]
    if ours and peers and count in SLOWER_AT_MOST:
        fastest = max(peers, key=ours.divide_wall)
        ratio, bar = ours.divide_wall(fastest), SLOWER_AT_MOST[count]
        bars.append((ratio <= bar, f"fleet takes {ratio:.2f} × as long as {fastest.tool.name}; at most {bar:g}"))
    if ours and "Ansible" in by_name and count in FASTER_THAN_ANSIBLE:
        ratio, bar = by_name["Ansible"].divide_wall(ours), FASTER_THAN_ANSIBLE[count]
        bars.append((ratio >= bar, f"Ansible takes {ratio:.1f} × as long as fleet; at least {bar:g}"))
    return bars


def describe(arguments: argparse.Namespace) -> list[str]:
    """What the tables are of; Markdown."""
    ssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True).stderr.split(",")[0].strip()
    return [
        f"`{Path(__file__).relative_to(ROOT)}`, {arguments.forks} hosts at a time, all hosts and the tool on one core, "
        f"{ssh}, Python {platform.python_version()}. Medians of rounds in turn; ratios are medians of those within "
        "a round. Memory is the most of any round, shared pages divided.",
        "",
        "On each host: push 100 KB, start a short detached job on it, fetch the 5 KB that it makes. How each does it:",
        "",
        *(f"- {tool.name}{tool.version}: {tool.about}" for tool in TOOLS if tool.name in arguments.tools),
    ]


def main() -> int:
    names = [tool.name for tool in TOOLS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", nargs="+", type=int, default=[16, 64, 256], metavar="N", help="how many")
    parser.add_argument("--tools", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of each tool; default: 5")
    parser.add_argument(
        "--limit-s", type=float, default=120.0, metavar="S", help="no more rounds for a tool after this"
    )
    parser.add_argument("--forks", type=int, default=32, metavar="N", help="hosts at a time; default: 32")
    parser.add_argument("--core", type=int, default=0, metavar="N", help="the core to run on; default: 0")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write what was measured, as Markdown")
    arguments = parser.parse_args()
    for tool in TOOLS:
        if tool.name in arguments.tools:
            tool.install()
    os.sched_setaffinity(0, {arguments.core})
    lines = describe(arguments)
    print("\n".join(lines), flush=True)
    bars: list[tuple[bool, str]] = []
    for count in arguments.hosts:
        rows = compare(count, arguments)
        judged = judge(rows)
        verdicts = [f"- {'kept' if kept else 'MISSED'}: {said}" for kept, said in judged]
        part = ["", *format_table(rows), "", *verdicts]
        print("\n".join(part), flush=True)
        lines += part
        bars += judged
    if arguments.record:
        arguments.record.write_text("\n".join(lines) + "\n")
    return 0 if all(kept for kept, _ in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
