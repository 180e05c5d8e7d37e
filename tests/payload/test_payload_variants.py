"""What is measured besides fp32 and plain descent: other precisions, optimizers, XLA, several steps a call, the letter
of the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("tensorflow")
numpy = pytest.importorskip("numpy")
tf = pytest.importorskip("tensorflow")

from fleet.model.suite import Cell as PlannedCell  # noqa: E402
from fleet.model.suite import Rules as PlannedRules  # noqa: E402
from payload.cell import OPTIMIZERS, Cell, name_cell  # noqa: E402
from payload.compat import find_reference_rate  # noqa: E402
from payload.environment import make_environment  # noqa: E402
from payload.errors import Unsupported  # noqa: E402
from payload.models.layers import Layers  # noqa: E402
from payload.models.network import Network  # noqa: E402
from payload.models.zoo import NETWORKS  # noqa: E402
from payload.optimizers import Optimizer  # noqa: E402
from payload.placement import find_missing_kernel, judge_multiply_bits  # noqa: E402
from payload.precision import PROBES, count_kept_bits, count_multiply_bits  # noqa: E402
from payload.reduction import choose_reduction, reduce_gradients  # noqa: E402
from payload.workload import Workload  # noqa: E402
from tests.payload import bench  # noqa: E402

PLAIN = Cell("small", "train", "fp32", 4, "cpu", 1, "NHWC", False)


def describe_small(layers: Layers, x: Any) -> Any:
    x = layers.max_pool(layers.relu(layers.normalise(layers.convolve(x, 8, 3), 0.9, 1e-5)), 2, 2)
    return layers.connect(layers.flatten(x), 10, gain=1.0)


# Of two classes the last is never drawn: all labels are 0, and nothing is left to chance.
SMALL = Network((8, 8, 3), describe_small, (0.0, 1.0), lambda images: (0.05, 0), classes=2)


def train(cell: Cell, steps: int) -> tuple[list[float], list[Any]]:
    workload = Workload(cell, SMALL, "/CPU:0")
    losses = [workload.step() or 0.0 for _ in range(steps)]
    return losses, [weight.variable.numpy() for weight in workload._weights.items]


def test_xla_computes_the_same() -> None:
    compiled, plain = train(PLAIN._replace(xla=True), 5), train(PLAIN, 5)
    assert compiled[0] == pytest.approx(plain[0], rel=1e-4)
    assert plain[0][-1] < 0.7 * plain[0][0]
    for one, other in zip(compiled[1], plain[1], strict=True):
        assert numpy.allclose(one, other, atol=1e-4)
    workload = Workload(PLAIN._replace(xla=True, phase="forward"), SMALL, "/CPU:0")
    workload.step()
    reference = Workload(PLAIN._replace(phase="forward"), SMALL, "/CPU:0")
    reference.step()
    assert numpy.allclose(workload._fetched[0], reference._fetched[0], atol=1e-4)


def test_with_xla_the_work_is_one_compiled_program() -> None:
    workload = Workload(PLAIN._replace(xla=True), SMALL, "/CPU:0")
    graph = tf.function(workload._train, autograph=False).get_concrete_function().graph
    assert not [o for o in graph.get_operations() if "Conv2D" in o.type]
    calls = [o for o in graph.get_operations() if "PartitionedCall" in o.type]
    assert len(calls) == 1 and len(calls[0].outputs) >= 1 + len(workload._weights.trainable)


@pytest.mark.parametrize("xla", [False, True])
def test_several_steps_a_call_are_so_many_steps(xla: bool) -> None:
    losses, weights = train(PLAIN._replace(xla=xla), 6)
    together, same = train(PLAIN._replace(xla=xla, steps_per_call=3), 2)
    assert together == pytest.approx(losses[2::3], rel=1e-5)
    for one, other in zip(weights, same, strict=True):
        assert numpy.allclose(one, other, atol=1e-6)


def update_by_hand(name: str, gradients: list[float], rate: float, start: float) -> float:
    """The published formulas, for one number."""
    value, first, second = start, 0.0, 1.0 if name == "rmsprop" else 0.0
    for step, gradient in enumerate(gradients, start=1):
        if name == "sgd":
            value -= rate * gradient
        elif name == "momentum":  # Nesterov's form, Sutskever et al. 2013
            first = 0.9 * first + gradient
            value -= rate * (gradient + 0.9 * first)
        elif name == "rmsprop":  # Tieleman and Hinton 2012, with momentum
            second = 0.9 * second + 0.1 * gradient**2
            first = 0.9 * first + rate * gradient / (second + 1.0) ** 0.5
            value -= first
        else:  # Kingma and Ba 2015, the order of section 2's end
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            scaled = rate * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
            value -= scaled * first / (second**0.5 + 1e-8)
    return value


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_are_the_published_formulas(name: str) -> None:
    variable = tf.Variable([2.0, -1.0])
    optimizer = Optimizer(name, [variable])
    taken = tf.Variable(0.0)
    gradient = tf.Variable([0.0, 0.0])

    @tf.function(autograph=False)  # type: ignore[untyped-decorator, unused-ignore]
    def step() -> None:
        optimizer.apply([tf.identity(gradient)], tf.constant(0.1), tf.identity(taken))

    series = [0.5, -2.0, 1.5, 1.0]
    for place, value in enumerate(series):
        gradient.assign([value, 3 * value])
        taken.assign(float(place))
        step()
    expected = [update_by_hand(name, [k * v for v in series], 0.1, start) for k, start in ((1, 2.0), (3, -1.0))]
    assert variable.numpy() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_trains_a_model(name: str) -> None:
    losses, _ = train(PLAIN._replace(optimizer=name), 12)
    assert losses[-1] < losses[0]
    assert name == "sgd" or losses != train(PLAIN, 12)[0]


def test_local_response_normalisation_works_in_every_precision() -> None:
    x = tf.random.normal([1, 3, 3, 16])
    expected = tf.nn.local_response_normalization(x, 4, 1.0, 0.001, 0.75).numpy()
    for dtype, tolerance in ((tf.float32, 1e-6), (tf.float16, 1e-2), (tf.bfloat16, 5e-2)):
        weights: Any = None
        y = Layers(weights, "NHWC", dtype, False).normalise_locally(tf.cast(x, dtype), 4, 1.0, 0.001, 0.75)
        assert y.dtype == dtype
        assert numpy.allclose(tf.cast(y, tf.float32), expected, atol=tolerance)


def test_an_operation_without_a_kernel_is_named() -> None:
    with pytest.raises(tf.errors.NotFoundError) as caught:
        tf.nn.local_response_normalization(tf.zeros([1, 3, 3, 16], tf.bfloat16))
    assert find_missing_kernel(str(caught.value)) == "LRN"
    # As TensorFlow 2.3.1 says it.
    old = " No registered 'Reciprocal' OpKernel for 'CPU' devices compatible with node {{node gradients/truediv_recip}}"
    assert find_missing_kernel(old) == "Reciprocal"
    # As 2.6.5 and 2.8.4 say it of a kernel that computes nothing.
    for node in ("node Conv2D_7 (defined at layers.py:123)  [Op:f]", "{{node Conv2D}} [Op:f]"):
        assert find_missing_kernel("Missing 0-th output from " + node) == "Conv2D"
    nested = "Missing 0-th output from {{node gradients/Conv2D_grad/Conv2DBackpropFilter}} [Op:f]"
    assert find_missing_kernel(nested) == "Conv2DBackpropFilter"
    assert find_missing_kernel("OOM when allocating tensor with shape[2]") is None


def test_bf16_is_measured_and_learns(tmp_path: Path) -> None:
    planned = [
        PlannedCell(model="resnet50", precision="bf16", batch_size=2),
        PlannedCell(model="alexnet_conv", phase="forward_backward", precision="bf16", batch_size=1),
    ]
    done = bench.run_payload("run", bench.write_spec(tmp_path, planned), "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    cells = bench.read_cells(tmp_path / "out")
    assert [(c.status, c.message) for c in cells] == [("ok", None)] * 2
    assert cells[0].execution and cells[0].execution.multiply_bits is None
    workload = Workload(PLAIN._replace(precision="bf16"), SMALL, "/CPU:0")
    graph = tf.function(workload._train, autograph=False).get_concrete_function().graph
    types = {o.type: o.get_attr("T") for o in graph.get_operations() if o.type in ("Conv2D", "MaxPool", "MatMul")}
    assert types == dict.fromkeys(("Conv2D", "MaxPool", "MatMul"), tf.bfloat16)
    losses = [workload.step() or 0.0 for _ in range(6)]
    assert losses == pytest.approx(train(PLAIN, 6)[0], rel=0.2) and losses[-1] < losses[0]


def test_float32_products_are_whole_on_a_cpu() -> None:
    assert count_multiply_bits("/CPU:0") == 23


def test_rounded_products_are_seen() -> None:
    probes = numpy.array(PROBES, numpy.float32)
    assert count_kept_bits(probes) == 23
    assert count_kept_bits(tf.cast(tf.cast(probes, tf.bfloat16), tf.float32).numpy()) == 7
    # TF32 drops the last 13 of float32's 23 bits.
    assert count_kept_bits((probes.view(numpy.uint32) & 0xFFFFE000).view(numpy.float32)) == 10


@pytest.mark.parametrize(
    ("precision", "bits", "reason"),
    [("fp32", 23, None), ("fp32", 10, "fp32_rounded"), ("tf32", 10, None), ("tf32", 23, "no_tf32")],
)
def test_a_device_is_held_to_its_precision(precision: str, bits: int, reason: str | None) -> None:
    cell = PLAIN._replace(precision=precision, device="gpu")
    if reason is None:
        judge_multiply_bits(cell, bits)
        return
    with pytest.raises(Unsupported, match=f"{bits} ") as caught:
        judge_multiply_bits(cell, bits)
    assert caught.value.reason == reason


def test_tf32_is_forbidden_to_every_library_unless_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    for precision in ("fp32", "fp16", "bf16"):
        assert make_environment(PLAIN._replace(precision=precision))["NVIDIA_TF32_OVERRIDE"] == "0"
    assert "NVIDIA_TF32_OVERRIDE" not in make_environment(PLAIN._replace(precision="tf32", device="gpu"))


def test_threads_and_tf32_are_in_the_result(tmp_path: Path) -> None:
    rules = PlannedRules(warmup_steps=1, steps=2, max_s=20, intra_threads=1, inter_threads=3)
    done = bench.run_payload("run", bench.write_spec(tmp_path, [bench.FAST], rules), "--out", tmp_path / "out")
    assert done.returncode == 0
    (cell,) = bench.read_cells(tmp_path / "out")
    assert cell.execution
    assert (cell.execution.intra_threads, cell.execution.inter_threads) == (1, 3)
    assert (cell.execution.tf32_allowed, cell.execution.multiply_bits) == (False, 23)


def test_to_the_letter_of_the_reference_the_loss_may_become_nan(tmp_path: Path) -> None:
    rules = PlannedRules(warmup_steps=8, steps=4, max_s=60, compat=True)
    alexnet = PlannedCell(model="alexnet", batch_size=4)
    done = bench.run_payload("run", bench.write_spec(tmp_path, [alexnet], rules), "--out", tmp_path / "out")
    assert done.returncode == 0
    (cell,) = bench.read_cells(tmp_path / "out")
    assert (cell.status, cell.message) == ("ok", None)
    assert cell.loss and (cell.loss.finite, cell.loss.last) == (False, None)
    assert cell.execution and cell.execution.compat
    assert cell.timing and cell.timing.steps == 4


def test_the_reference_s_rates() -> None:
    assert find_reference_rate("vgg16", 64, 1) == (0.005, 0)
    assert find_reference_rate("resnet50_v1.5", 512, 2) == (0.128, 12511)
    assert find_reference_rate("resnet50", 256, 1) == NETWORKS["resnet50"].learning_rate(256)
    assert find_reference_rate("resnet34", 64, 1) == (0.025, 0)
    assert find_reference_rate("resnet110_v2", 128, 1) == (0.1, 0)
    assert find_reference_rate("densenet40_k12", 64, 1) == (0.1, 0)
    assert find_reference_rate("alexnet_cifar10", 128, 1) == (0.1, 0)
    assert find_reference_rate("vit_b16", 32, 1) is None


def test_gpus_reduce_each_gradient_by_one_collective() -> None:
    # There is no GPU to run it on, but what would run can be seen.
    devices = ["/GPU:0", "/GPU:1", "/GPU:2"]
    gradients = [[tf.zeros([4]), tf.ones([2, 3])] for _ in devices]

    def reduce() -> list[list[Any]]:
        sums: list[list[Any]] = reduce_gradients(gradients, devices, "nccl")
        return sums

    graph = tf.function(reduce, autograph=False).get_concrete_function().graph
    found = [o for o in graph.get_operations() if o.type == "NcclAllReduce"]
    assert [(o.get_attr("shared_name"), o.device[-5:]) for o in found] == [
        (name, device) for name in (b"gradient0", b"gradient1") for device in ("GPU:0", "GPU:1", "GPU:2")
    ]
    assert {(o.get_attr("reduction"), o.get_attr("num_devices")) for o in found} == {(b"sum", 3)}
    # A collective that waited for another one's end would wait for ever.
    assert not any(o.control_inputs for o in found)


def test_copies_of_gradients_are_added_up_in_turns() -> None:
    devices = ["/CPU:0", "/CPU:1"]

    def reduce() -> list[list[Any]]:
        parts = [[tf.constant([1.0 + 10 * d]), tf.constant([2.0, 3.0 * d])] for d in range(2)]
        sums: list[list[Any]] = reduce_gradients(parts, devices, choose_reduction(devices))
        return sums

    graph = tf.function(reduce, autograph=False).get_concrete_function().graph
    assert [o.device[-5:] for o in graph.get_operations() if o.type == "AddN"] == ["CPU:0", "CPU:1"]
    first, second = reduce_gradients([[tf.constant(1.0)], [tf.constant(2.5)]], ["/CPU:0", "/CPU:0"], "copy")
    assert [float(first[0]), float(second[0])] == [3.5, 3.5]


VARIANTS: dict[str, dict[str, Any]] = {
    "": {},
    "/xla": {"xla": True},
    "/momentum": {"optimizer": "momentum"},
    "/independent": {"variable_update": "independent"},
    "/steps10": {"steps_per_call": 10},
    "/xla/adam/independent/steps2": {
        "xla": True,
        "optimizer": "adam",
        "variable_update": "independent",
        "steps_per_call": 2,
    },
}


@pytest.mark.parametrize("end", VARIANTS)
def test_controller_and_payload_name_a_variant_alike(end: str) -> None:
    planned = PlannedCell(model="resnet50", batch_size=8, device="gpu", devices=2, **VARIANTS[end])
    assert planned.id == f"resnet50/train/fp32/b8/gpu2/nhwc{end}"
    assert name_cell(Cell(**planned.model_dump())) == planned.id
