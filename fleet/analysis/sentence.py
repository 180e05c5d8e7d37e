"""What was found, in words. Changes of times are told as changes of the rate, which is what tables show."""

from __future__ import annotations

from fleet.analysis.comparison import Comparison, Key, Refusal
from fleet.analysis.finding import Finding, Kind, Level, Told
from fleet.analysis.fingerprint import Suspect
from fleet.analysis.judgement import SeriesVerdict

_WORDS = {SeriesVerdict.WORSE: "slower", SeriesVerdict.BETTER: "faster"}


def say_change(change: float) -> str:
    """A relative change of time as one of images per second: 0.066 is `−6.2 %`. A true minus sign, so that it stays
    with its number."""
    percent = (1 / (1 + change) - 1) * 100
    return f"{percent:+.{1 if abs(percent) < 100 else 0}f} %".replace("-", "−")


def say_finding(finding: Finding, confirmed: bool = True) -> str:
    """`slower: 4.1 MAD and −6.2 %, confirmed by a second run`.

    Args:
        confirmed: False for a suspicion that nobody could measure again.
    """
    word = _WORDS.get(finding.verdict)
    if word is None:
        return finding.verdict.value
    if finding.subject.level is not Level.CELL:
        return f"{word}: {finding.mads:.1f} MAD and {say_change(finding.change)}, the median of many"
    how = "confirmed by a second run" if confirmed else "not confirmed: there was no second run"
    if finding.kind is Kind.DRIFT:
        return f"{word}: {say_change(finding.change)} from the pinned level over three runs, {how}"
    return f"{word}: {finding.mads:.1f} MAD and {say_change(finding.change)}, {how}"


def say_detectable(detectable: float) -> str:
    """What a cell can be held to: `finds −4.0 %`."""
    return f"finds {say_change(detectable)}"


def say_suspect(suspect: Suspect) -> str:
    """`driver 550.90 → 555.42`."""
    difference = suspect.difference
    return f"{difference.field} {difference.left} → {difference.right}"


def say_told(told: Told, hosts: int, suspect: Suspect | None = None) -> str:
    """One line for all that moved together: `driver 550 → 555: resnet50/… −1.0 % and 9 more cells on 50 hosts`.

    Args:
        hosts: of the cohort; of no matter for a host or a cell.
        suspect: the first one.
    """
    subject, change = told.finding.subject, say_change(told.finding.change)
    if told.likes:
        change += f" and {told.likes} more cell{'s' if told.likes > 1 else ''}"
    if subject.level is Level.COHORT:
        what = f"{subject.cell_id} {change} on {hosts} hosts"
    elif subject.level is Level.HOST:
        what = f"{subject.name} {change} in all cells"
    else:
        what = f"{subject.name} {subject.cell_id} {change}"
    return f"{say_suspect(suspect)}: {what}" if suspect else what


def say_refusal(refusal: Refusal) -> str:
    """`not comparable: protocol 1 and 2`."""
    return f"not comparable: {refusal.field} {refusal.left} and {refusal.right}"


def say_comparison(comparison: Comparison[Key]) -> str:
    """`1.85 times as fast (1.79 to 1.91), from 57 of 60 cells`."""
    if comparison.ratio is None:
        return f"0 of {comparison.total} cells can be compared"
    speed = f"{1 / comparison.ratio:.3g} times as fast"
    if comparison.interval:
        low, high = comparison.interval
        speed += f" ({1 / high:.3g} to {1 / low:.3g})"
    agreed = ", and its cells do not agree" if comparison.verdict is SeriesVerdict.MIXED else ""
    return f"{speed}, from {comparison.count} of {comparison.total} cells{agreed}"
