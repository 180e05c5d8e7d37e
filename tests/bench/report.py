"""What the nightly verdicts find of planted faults, and how often they cry wolf, beside two plain rules.

    python tests/bench/report.py                 # a year of 100 hosts × 60 cells; two minutes
    python tests/bench/report.py --seed 2
    python tests/bench/report.py --stored        # through a real index as well, as the runs of a lab go; ten minutes

The year is synthetic and the same for all rules (`report_year`): noise with heavy tails, disturbed runs, hosts that are
down; steps from 5 %, half of them repaired and half of them accepted after ten nights; drift of 10 % over half a year;
whole hosts 2 % slower; one cohort 1 % slower in ten cells; a host of eight that is 8 % slower than its likes. Exits
with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from fleet.store.index import open_index
from fleet.store.rundir import Store
from tests.bench.report_play import flag_by_previous, flag_by_sigma, play
from tests.bench.report_score import Score, score_flags, score_fleet, score_told
from tests.bench.report_stored import clock_views, play_stored
from tests.bench.report_year import Lab, Year, make_year

STEPS_FOUND = 0.90
DRIFTS_FOUND = 1.0
SLOW_FOUND = 0.95
FALSE_ALARMS = 3.0
NIGHT_S = 1.0
"""To judge 6,000 cells with a year of history."""

VIEW_S = 1.0
IMPORT, JUDGE = "the slowest night to import, as rows", "the slowest night to judge, the index read and written"
MOST_S = {IMPORT: 2.0, JUDGE: 4.0}
"""Processor time; in a test of a small year the machine's other work is no fault of it."""

LINES: tuple[tuple[str, Callable[[Score], float | None], str], ...] = (
    ("steps ≥ 5 % of a cell, found the same night", lambda score: score.steps, "%"),
    ("drifts of 10 % of a cell, found", lambda score: score.drifts, "%"),
    ("the same said of flat cells", lambda score: score.flat, "%"),
    ("hosts 2 % slower, found the same night", lambda score: score.hosts, "%"),
    ("a cohort's cell 1 % slower, found the same night", lambda score: score.cohorts, "%"),
    ("a host of eight 8 % slow, found a night", lambda score: score.slow, "%"),
    ("… by each of its cells alone", lambda score: score.slow_cells, "%"),
    ("false alarms a night", lambda score: score.false_alarms, ""),
    ("cells measured again a night", lambda score: score.reruns, ""),
)


def format_table(lab: Lab, scores: Sequence[Score]) -> str:
    title = f"{lab.nights} nights, {lab.hosts} hosts, {lab.hosts * lab.cells:,} cells"
    rows = [[title, *(score.rule for score in scores)], ["---", *("---:" for _ in scores)]]
    rows += [[name, *(_format(read(score), unit) for score in scores)] for name, read, unit in LINES]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _format(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return f"{value * 100:.1f} %" if unit == "%" else f"{value:.1f}"


def list_missed(score: Score, night_s: float) -> list[str]:
    """A sentence for every bar that is missed."""
    bars = (
        (score.steps >= STEPS_FOUND, f"steps: {score.steps:.1%} found, {STEPS_FOUND:.0%} wanted"),
        (score.drifts >= DRIFTS_FOUND, f"drifts: {score.drifts:.1%} found, {DRIFTS_FOUND:.0%} wanted"),
        ((score.slow or 0) >= SLOW_FOUND, f"slow hosts: {score.slow or 0:.1%} found, {SLOW_FOUND:.0%} wanted"),
        (
            score.false_alarms <= FALSE_ALARMS,
            f"{score.false_alarms:.1f} false alarms a night, {FALSE_ALARMS:g} allowed",
        ),
        (night_s <= NIGHT_S, f"a night took {night_s:.2f} s to judge, {NIGHT_S:g} allowed"),
    )
    return [sentence for kept, sentence in bars if not kept]


def _play_stored(year: Year) -> tuple[list[Score], dict[str, float]]:
    """The score of the same year through an index, and seconds of processor time for each thing asked of it."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder, open_index(Store(Path(folder))) as index:
        done = play_stored(year, index)
        score = score_told("fleet, the next run confirms", year, done.told, later=1)
        seconds = {IMPORT: max(done.import_s), JUDGE: max(done.judge_s), **clock_views(index)}
    return [score], seconds


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--nights", type=int, default=Lab.nights)
    parser.add_argument("--cells", type=int, default=Lab.cells, help="on every host")
    parser.add_argument("--steps", type=int, default=Lab.steps, help="how many are planted")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stored", action="store_true", help="also through a real index, night by night")
    arguments = parser.parse_args(argv)
    lab = Lab(nights=arguments.nights, cells=arguments.cells, steps=arguments.steps)
    year = make_year(lab, arguments.seed)
    played = play(year)
    ours = score_fleet(year, played)
    plain = [
        score_flags("previous night ± 5 %", year, flag_by_previous(year.times_us)),
        score_flags("mean ± 3 σ", year, flag_by_sigma(year.times_us)),
    ]
    stored, seconds = _play_stored(year) if arguments.stored else ([], {})
    print(format_table(lab, [ours, *stored, *plain]))
    planted = Counter(fault.kind.value for fault in year.faults)
    print(f"\nPlanted, by kind: {', '.join(f'{kind} {count}' for kind, count in planted.items())}.")
    tracks = (played.cells, played.hosts, played.cohorts)
    night_s = sum(track.slowest_s for track in tracks)
    print(f"The slowest night took {night_s:.2f} s to judge: cells, hosts and cohorts, with all nights before it.")
    for what, took_s in seconds.items():
        print(f"{what}: {took_s:.3f} s")
    late = [
        f"{what} took {took_s:.2f} s, {most:g} allowed"
        for what, took_s in seconds.items()
        if took_s > (most := MOST_S.get(what, VIEW_S))
    ]
    for sentence in (missed := [*list_missed(ours, night_s), *late]):
        print(f"missed: {sentence}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
