"""Protocol 1: how a step is timed. Whatever changes the number raises `PROTOCOL`.

It is the protocol of tf_cnn_benchmarks:

- synthetic images are drawn once and stay in a variable on the device; labels are drawn within every step;
- train: mean softmax cross-entropy in float32 plus 4e-5 of the L2 loss of every variable outside batch normalisation,
  plain gradient descent, moving averages; the loss is fetched every step, which is what ends a step on a GPU;
- forward: inference with moving averages and without dropout; the logits are copied to the host;
- forward_backward (the AlexNet timing of the tutorials): every gradient is copied to the host, nothing is updated;
- one `tf.function` call a step, no XLA, no float32 in TF32;
- fp16: variables, batch normalisation's parameters and the loss stay float32, everything else is cast where it is
  used, gradients carry a static scale.

It differs from tf_cnn_benchmarks in this:

- learning rates are such that the loss stays finite, and a loss that does not makes the cell invalid;
- warm-up and timed steps go on until they have lasted long enough, not only until there are enough of them;
- forward does not count how many logits were right;
- every step time is kept; the headline is the median.
"""

import math
import time
from typing import Any, Callable, Dict, List, Optional

from payload.spec import Rules
from payload.timing import summarise

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
        NotFinite: at the first loss that is none.
    """
    report.enter("warmup")
    warmup_steps, start = 0, time.perf_counter()
    while warmup_steps < rules.warmup_steps or time.perf_counter() - start < rules.warmup_s:
        _check(step(), "warm-up step", warmup_steps)
        warmup_steps += 1
    warmup_s = time.perf_counter() - start
    report.enter("measure")
    steps_us: List[int] = []
    first: Optional[float] = None
    last: Optional[float] = None
    elapsed_s, start = 0.0, time.perf_counter()
    while not _enough(len(steps_us), elapsed_s, rules):
        before = time.perf_counter()
        last = step()
        after = time.perf_counter()
        elapsed_s = after - start
        _check(last, "timed step", len(steps_us))
        first = last if not steps_us else first
        steps_us.append(round((after - before) * 1e6))
        report.show(steps_us, last)
    return {
        "timing": summarise(warmup_steps, warmup_s, steps_us, elapsed_s),
        "loss": {"first": first, "last": last, "finite": None if last is None else True},
    }


def _enough(steps: int, elapsed_s: float, rules: Rules) -> bool:
    if steps < 2:
        return False
    return elapsed_s >= rules.max_s or (steps >= rules.steps and elapsed_s >= rules.min_s)


def _check(loss: Optional[float], kind: str, index: int) -> None:
    if loss is not None and not math.isfinite(loss):
        raise NotFinite(
            "loss_not_finite",
            "The loss is %s at %s %d: the machine computes wrongly, or this precision is too narrow for the model. "
            "Measure it again in fp32 to tell them apart." % (loss, kind, index + 1),
        )
