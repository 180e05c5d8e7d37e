"""The optimizers: TensorFlow's raw operations that update a variable in place, with tf_cnn_benchmarks' constants."""

from typing import Any, List

import tensorflow as tf

_MOMENTUM = 0.9
_RMSPROP = {"rho": 0.9, "momentum": 0.9, "epsilon": 1.0}
_ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}

_SLOTS = {"sgd": (), "momentum": (0.0,), "rmsprop": (1.0, 0.0), "adam": (0.0, 0.0)}
"""What is kept per variable, by its first value: momentum's sum; RMSProp's mean square and its momentum; Adam's two
moments."""


class Optimizer:
    """Updates one device's variables. Create it on that device, before the step is traced.

    `sgd` is plain; `momentum` is 0.9 in Nesterov's form.
    """

    def __init__(self, name: str, variables: List[Any]) -> None:
        self._name = name
        self._variables = variables
        self._slots = [
            [tf.Variable(tf.fill(variable.shape, first), trainable=False) for first in _SLOTS[name]]
            for variable in variables
        ]

    def apply(self, gradients: List[Any], rate: Any, taken: Any) -> None:
        """Add the updates of all variables to the step.

        Args:
            gradients: float32, one per variable, in their order.
            rate: the learning rate, a scalar.
            taken: how many updates there were before this one, a float32 scalar.
        """
        # Adam's correction of its first steps, when its moments are still near the zeros they begin with.
        powers = [tf.pow(_ADAM[beta], taken + 1.0) for beta in ("beta1", "beta2")] if self._name == "adam" else []
        for variable, slots, gradient in zip(self._variables, self._slots, gradients):
            self._update(variable.handle, [slot.handle for slot in slots] + powers, rate, gradient)

    def _update(self, variable: Any, state: List[Any], rate: Any, gradient: Any) -> None:
        ops = tf.raw_ops
        if self._name == "sgd":
            ops.ResourceApplyGradientDescent(var=variable, alpha=rate, delta=gradient)
        elif self._name == "momentum":
            ops.ResourceApplyMomentum(
                var=variable, accum=state[0], lr=rate, grad=gradient, momentum=_MOMENTUM, use_nesterov=True
            )
        elif self._name == "rmsprop":
            ops.ResourceApplyRMSProp(var=variable, ms=state[0], mom=state[1], lr=rate, grad=gradient, **_RMSPROP)
        else:
            m, v, power1, power2 = state
            ops.ResourceApplyAdam(
                var=variable, m=m, v=v, beta1_power=power1, beta2_power=power2, lr=rate, grad=gradient, **_ADAM
            )
