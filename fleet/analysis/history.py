"""The nights of many series as the judges want them: one matrix, in which only like stands beside like."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleet.analysis.robust import Floats
from fleet.model.result import CellStatus
from fleet.store.readings import Values
from fleet.store.tables import STATUS_CODES


def align_nights(values: Values, count: int | None = None) -> Floats:
    """Median steps in microseconds, shape (series, nights); NaN: not measured, or not to be compared.

    A night counts that measured the same as the last night with a value: by the same protocol and payload, and with as
    many images in a step, which a cell that takes the largest batch leaves open.

    Args:
        count: only the first so many runs.
    """
    until = len(values.run_ids) if count is None else count
    steps = values.step_us[:, :until]
    # A step of no time at all is none, and no level to divide by.
    good = (values.status[:, :until] == STATUS_CODES[CellStatus.OK]) & (steps > 0)
    nights = np.where(good, steps, np.nan)
    if nights.size == 0:
        return nights
    rows, last = np.arange(len(nights)), find_last(nights)
    payloads = np.unique(np.array(values.payloads), return_inverse=True)[1].reshape(-1)
    images = values.images[:, :until]
    same = payloads[None, :until] == payloads[last][:, None]
    same &= values.protocol[:, :until] == values.protocol[rows, last][:, None]
    same &= images == images[rows, last][:, None]
    return np.where(same, nights, np.nan)


def find_last(nights: Floats) -> NDArray[np.intp]:
    """Of every series the last night with a value; of one without, the last night."""
    there = ~np.isnan(nights)
    return np.asarray(nights.shape[1] - 1 - np.argmax(there[:, ::-1], axis=1), dtype=np.intp)
