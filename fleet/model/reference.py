"""Published figures that people compare their own machines with."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from fleet.model.suite import Precision


class ReferenceRow(BaseModel):
    """One machine and model; images per second for each of the set's batch sizes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    device: str
    """As the source names it."""
    gpus: int
    """0: the processors."""
    model: str
    precision: Precision
    images_per_s: tuple[float | Literal["OOM"] | None, ...]
    """OOM: it did not fit; None: not reported."""


class ReferenceSet(BaseModel):
    """The figures of one source: training steps on synthetic data, batch size per device."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    title: str
    source: str
    image: str
    """The container image they were measured in."""
    workload: str
    note: str
    batch_sizes: tuple[int, ...]
    rows: tuple[ReferenceRow, ...]
