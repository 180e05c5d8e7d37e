"""Protocol 1: how a step is timed. Whatever changes the number raises `PROTOCOL`.

It is the protocol of tf_cnn_benchmarks:

- synthetic images are drawn once and stay in a variable on the device; labels are drawn within every step;
- train: mean softmax cross-entropy in float32 plus 4e-5 of the L2 loss of every variable outside batch normalisation,
  plain gradient descent, moving averages; the loss is fetched every step, which is what ends a step on a GPU;
- forward: inference with moving averages and without dropout; the logits are copied to the host;
- forward_backward (the AlexNet timing of the tutorials): every gradient is copied to the host, nothing is updated;
- one `tf.function` call a step, no XLA, no float32 in TF32;
- fp16: variables, batch normalisation's parameters and the loss stay float32, everything else is cast where it is
  used, gradients carry a static scale; bf16 the same without the scale;
- several devices: each has the batch size of the cell, variables and images of its own; the L2 loss is computed on the
  last for all, moving averages are kept of the first, the loss is the mean.

It differs from tf_cnn_benchmarks in this:

- learning rates are such that the loss stays finite, and a loss that does not makes the cell invalid (`compat` takes
  the reference's and allows it);
- several devices average their gradients, where the reference's `replicated` adds them up: the same work, but several
  devices then do what one would do with all the images (`compat` adds up);
- warm-up and timed steps go on until they have lasted long enough, not only until there are enough of them; timed
  steps that turn out to be warm-up still (`payload.steadiness`) are not counted, and others are taken for them;
- forward does not count how many logits were right;
- on a CPU, glibc keeps the memory of a step for the next one (`payload.environment.CPU`);
- every step time is kept; the headline is the median.

XLA, TF32, bf16, other optimizers, several steps a call (what is timed is then the call) and devices that exchange
nothing are cells of their own, named in their id.
"""

import math
import os
import resource
import time
from typing import Any, Callable, Dict, List, Optional

from payload.spec import Rules
from payload.steadiness import count_dropped
from payload.timing import estimate_interval, find_median, summarise

PROTOCOL = 1

Step = Callable[[], Optional[float]]
"""Takes one step to its very end and returns the loss, or None where the phase has none."""


class NotFinite(Exception):
    """A loss, a logit or a gradient became NaN or infinite; the message is a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        Exception.__init__(self, message)
        self.reason = reason


class Report:
    """Who is told how the measurement goes on; the base tells nobody."""

    def enter(self, stage: str) -> None:
        """A stage begins."""

    def show(self, steps_us: List[int], loss: Optional[float]) -> None:
        """All timed steps so far, and the last loss. Called between timed steps: must cost next to nothing."""


def measure(step: Step, rules: Rules, report: Report) -> Dict[str, Any]:
    """Warm up, then time steps by the rules.

    Returns:
        `timing` and `loss` of the result document.

    Raises:
        NotFinite: at the first loss that is none, unless the rules allow it (`compat`).
    """
    report.enter("warmup")
    warmup_steps, start = 0, time.perf_counter()
    while warmup_steps < rules.warmup_steps or time.perf_counter() - start < rules.warmup_s:
        _check(step(), rules, "warm-up step", warmup_steps)
        warmup_steps += 1
    warmup_s = time.perf_counter() - start
    report.enter("measure")
    losses: List[Optional[float]] = []
    finite = True
    series = Series(rules)
    while not series.suffices():
        before = time.perf_counter()
        loss = step()
        after = time.perf_counter()
        finite = _check(loss, rules, "timed step", len(series.steps_us)) and finite
        losses = [losses[0] if losses else loss, loss]
        series.steps_us.append(round((after - before) * 1e6))
        report.show(series.steps_us, loss)
    first, last = [_drop_not_finite(loss) for loss in losses]
    return {
        "timing": series.summarise(warmup_steps, warmup_s),
        "loss": {"first": first, "last": last, "finite": None if losses[1] is None else finite},
    }


class Series:
    """The timed steps so far: whether there are enough of them, and what came of them.

    Begin it right before the first step.
    """

    def __init__(self, rules: Rules) -> None:
        self.steps_us: List[int] = []
        self._rules = rules
        self._next_look = max(2, rules.steps)
        self._dropped = 0
        self._ended_by = "rules"
        self._start = time.perf_counter()
        self._paused_s = 0.0
        self._cpu_start_s = _read_cpu_s()

    def suffices(self) -> bool:
        """No further step is needed, or allowed."""
        count, elapsed_s = len(self.steps_us), self._measure_elapsed()
        if count < 2:
            return False
        if elapsed_s >= self._rules.max_s:
            self._ended_by = "max_s"
        elif count < self._next_look or elapsed_s < self._rules.min_s:
            return False
        # Looking at thousands of steps takes milliseconds that are none of a step's.
        before, cpu_before_s = time.perf_counter(), _read_cpu_s()
        enough = self._look(elapsed_s) or self._ended_by == "max_s"
        self._paused_s += time.perf_counter() - before
        self._cpu_start_s += _read_cpu_s() - cpu_before_s
        return enough

    def summarise(self, warmup_steps: int, warmup_s: float) -> Dict[str, Any]:
        """`timing` of the result document, of the series as it was when it sufficed."""
        total_s, cpu_s = self._measure_elapsed(), _read_cpu_s() - self._cpu_start_s
        timing = summarise(warmup_steps, warmup_s, self.steps_us, total_s, self._dropped)
        timing.update(ended_by=self._ended_by, cpu_s=round(cpu_s, 6), load1=os.getloadavg()[0])
        return timing

    def _measure_elapsed(self) -> float:
        return time.perf_counter() - self._start - self._paused_s

    def _look(self, elapsed_s: float) -> bool:
        """Are there enough steps, seconds and certainty without those that were warm-up still?"""
        rules, count = self._rules, len(self.steps_us)
        self._dropped = 0 if rules.compat else count_dropped(self.steps_us)
        missing = rules.steps - (count - self._dropped)
        self._next_look = count + max(1, missing, count // 20)
        if missing > 0 or elapsed_s - sum(self.steps_us[: self._dropped]) / 1e6 < rules.min_s:
            return False
        return rules.ci_target == 0 or self._estimate_uncertainty() <= rules.ci_target

    def _estimate_uncertainty(self) -> float:
        """Half the 95 % interval of the median, as a part of it. Roughly, for it is asked again and again."""
        counted = self.steps_us[self._dropped :]
        low, high = estimate_interval(counted, resamples=200)
        return (high - low) / 2.0 / max(find_median(counted), 1.0)


def _read_cpu_s() -> float:
    """Processor time of this process with all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _drop_not_finite(loss: Optional[float]) -> Optional[float]:
    """JSON has no NaN."""
    return loss if loss is not None and math.isfinite(loss) else None


def _check(loss: Optional[float], rules: Rules, kind: str, index: int) -> bool:
    """Whether the loss is finite or there is none. Raises NotFinite unless the rules allow it."""
    if loss is None or math.isfinite(loss):
        return True
    if rules.compat:
        return False
    raise NotFinite("loss_not_finite", "The loss is %s at %s %d." % (loss, kind, index + 1))
