"""Step times: how they are kept, and what is computed from them."""

import base64
import struct
import zlib
from typing import Any, Dict, List, Sequence, Tuple

_LONGEST_US = 2**31 - 1
_QUANTILES = (5, 25, 50, 75, 95, 99)
_RESAMPLES = 2000
_SEED = 1234


def encode_steps(steps_us: Sequence[int]) -> str:
    """base64(zlib(int32 little-endian: the first step time, then the differences))."""
    kept = [min(t, _LONGEST_US) for t in steps_us]
    differences = [kept[0]] + [kept[i] - kept[i - 1] for i in range(1, len(kept))]
    packed = struct.pack("<%di" % len(differences), *differences)
    return base64.b64encode(zlib.compress(packed, 9)).decode("ascii")


def decode_steps(text: str) -> List[int]:
    """The reverse of `encode_steps`: microseconds."""
    packed = zlib.decompress(base64.b64decode(text))
    steps: List[int] = []
    for difference in struct.unpack("<%di" % (len(packed) // 4), packed):
        steps.append((steps[-1] if steps else 0) + difference)
    return steps


def find_median(values: Sequence[float]) -> float:
    """The median; the mean of the two in the middle where there are two."""
    return _find_quantile(sorted(values), 50)


def summarise(
    warmup_steps: int, warmup_s: float, steps_us: Sequence[int], total_s: float, dropped_steps: int = 0
) -> Dict[str, Any]:
    """The `timing` of a result document.

    Args:
        steps_us: all timed steps in the order they were taken.
        dropped_steps: so many of the first count as warm-up after all; at least two are left.
    """
    counted = steps_us[dropped_steps:]
    ordered = sorted(counted)
    mean = sum(ordered) / float(len(ordered))
    median = _find_quantile(ordered, 50)
    half = len(counted) // 2
    ratio = max(find_median(counted[half:]), 1.0) / max(find_median(counted[:half]), 1.0)
    return {
        "warmup_steps": warmup_steps,
        "warmup_s": round(warmup_s, 6),
        "steps": len(steps_us),
        "dropped_steps": dropped_steps,
        "total_s": round(total_s, 6),
        "steps_us": encode_steps(steps_us),
        "quantiles_us": {"p%02d" % q: _find_quantile(ordered, q) for q in _QUANTILES},
        "mean_us": mean,
        "sd_us": (sum((t - mean) ** 2 for t in ordered) / len(ordered)) ** 0.5,
        "mad_us": find_median([abs(t - median) for t in ordered]),
        "ci95_us": estimate_interval(counted),
        "halves_ratio": ratio,
        "steady": abs(ratio - 1.0) <= 0.01,
    }


def estimate_interval(steps_us: Sequence[int], resamples: int = _RESAMPLES) -> Tuple[float, float]:
    """95 % interval of the median, in microseconds: bootstrap of blocks of √n neighbours, seeded.

    Blocks, because neighbouring steps resemble each other: single steps would give an interval far too narrow.
    """
    import numpy

    steps = numpy.asarray(steps_us, dtype=numpy.float64)
    n = len(steps)
    block = max(1, int(n**0.5))
    blocks = -(-n // block)
    random = numpy.random.RandomState(_SEED)
    # Fewer resamples of very long series: their interval is narrow anyhow, and the time is better spent measuring.
    medians = numpy.empty(max(200, min(resamples, 20000000 // n)))
    offsets = numpy.arange(block)
    for i in range(len(medians)):
        starts = random.randint(0, n - block + 1, size=blocks)
        medians[i] = numpy.median(steps[(starts[:, None] + offsets).ravel()[:n]])
    low, high = numpy.percentile(medians, [2.5, 97.5])
    return float(low), float(high)


def _find_quantile(ordered: Sequence[float], percent: float) -> float:
    """Linear between the two neighbours, as numpy's default."""
    place = (len(ordered) - 1) * percent / 100.0
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
