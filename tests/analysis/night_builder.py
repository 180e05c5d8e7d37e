"""Nights of synthetic series, for the tests of what is judged by them."""

from __future__ import annotations

import math

import numpy as np

from fleet.analysis.robust import Floats

NOISE = 0.008
"""A quiet cell's standard deviation from night to night, relative."""

TAILS = 4
"""Degrees of freedom of Student's t: real noise has heavier tails than normal noise, and a narrower middle."""


def make_nights(series: int, nights: int, seed: int, noise: float = NOISE) -> Floats:
    """Flat series around 1,000 with independent noise. Shape: (series, nights)."""
    scale = noise / math.sqrt(TAILS / (TAILS - 2))
    nights_us: Floats = 1000 * np.exp(scale * np.random.default_rng(seed).standard_t(TAILS, (series, nights)))
    return nights_us


def add_spikes(nights: Floats, seed: int, share: float = 0.02) -> Floats:
    """In this share of nights something disturbed them: 3 to 30 % slower."""
    random = np.random.default_rng(seed)
    struck = random.random(nights.shape) < share
    return np.where(struck, nights * (1 + random.uniform(0.03, 0.3, nights.shape)), nights)
