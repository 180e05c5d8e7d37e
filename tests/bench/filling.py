"""Values for variables and images that depend on nothing but their place: the same in two programs, on every version.

Runs on Python 3.6. The numbers are those of numpy's `RandomState`, whose streams never change.
"""

import re
from typing import Any

import numpy

_ROLES = (
    (r"(gamma|/scale|layer_norm_scale\d*)$", "scale"),
    (r"(moving_variance|/variance)$", "variance"),
    (r"(moving_mean|/mean)$", "mean"),
    (r"(beta|/offset|bias(es)?\d*)$", "offset"),
    (r"depthwise(_weights|\d+)$", "depthwise"),
)
_SEEDS = {"kernel": 0, "depthwise": 1, "offset": 2, "scale": 3, "mean": 4, "variance": 5}


class Filling:
    """Hands out values in the order in which a network creates its variables, counted for each role on its own."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_SEEDS, 0)

    def fill(self, name: str, shape: Any) -> Any:
        """float32 of this shape for the next variable with this role; the role is known by the name.

        Kernels have a variance of 2 / fan in, so that activations keep their size; what scales lies around 1, what
        shifts around 0, both far enough from it that a forgotten or a doubled one is seen.
        """
        role = find_role(name)
        random = numpy.random.RandomState(1000 * self._counts[role] + _SEEDS[role])
        self._counts[role] += 1
        if role in ("scale", "variance"):
            return random.uniform(0.5, 1.5, shape).astype(numpy.float32)
        if role in ("offset", "mean"):
            return random.normal(0.0, 0.1, shape).astype(numpy.float32)
        fan_in = numpy.prod(shape[:2] if role == "depthwise" else shape[:-1])
        return random.normal(0.0, (2.0 / fan_in) ** 0.5, shape).astype(numpy.float32)


def find_role(name: str) -> str:
    """What a variable is for, by its name in tf_cnn_benchmarks, in TF-Slim or in the payload."""
    for pattern, role in _ROLES:
        if re.search(pattern, name):
            return role
    return "kernel"


def fill_images(shape: Any) -> Any:
    """float32 images of this shape, of mean 0 and deviation 1."""
    return numpy.random.RandomState(4321).normal(0.0, 1.0, shape).astype(numpy.float32)


def digest(values: Any) -> Any:
    """Eight numbers that stand for an array: its norm, and its products with seven fixed directions of its own size."""
    flat = numpy.asarray(values, dtype=numpy.float64).ravel()
    random = numpy.random.RandomState(7)
    products = [float(flat @ random.normal(0.0, 1.0, flat.size)) for _ in range(7)]
    return [float(numpy.linalg.norm(flat)), *products]


def digest_changes(before: Any, after: Any) -> Any:
    """`digest` of how far every array moved and where to, none outweighed by larger ones."""
    numbers = []
    for i, old in enumerate(before):
        norm, product = digest(numpy.asarray(after[i], numpy.float64) - numpy.asarray(old, numpy.float64))[:2]
        numbers += [numpy.log(norm), product / norm]
    return digest(numbers)
