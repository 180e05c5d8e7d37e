"""Every model of the zoo builds as a workload and takes a step of each phase."""

from __future__ import annotations

import math

import pytest

pytestmark = pytest.mark.needs("tensorflow")
numpy = pytest.importorskip("numpy")
tf = pytest.importorskip("tensorflow")

from payload.catalog import read_catalog  # noqa: E402
from payload.cell import Cell  # noqa: E402
from payload.models.zoo import NETWORKS  # noqa: E402
from payload.workload import Workload  # noqa: E402
from tests.payload.zoo import choose  # noqa: E402


def build(model: str, phase: str) -> Workload:
    cell = Cell(
        model=model,
        phase=phase,
        precision="fp32",
        batch_size=1 if model == "nasnetlarge" else 2,
        device="cpu",
        devices=1,
        data_format="NHWC",
        xla=False,
    )
    return Workload(cell, NETWORKS[model], "/CPU:0")


@pytest.mark.parametrize("model", choose(set(NETWORKS) - {"alexnet_conv"}))
def test_a_model_trains_and_infers(model: str) -> None:
    classes = NETWORKS[model].classes
    workload = build(model, "train")
    before = [weight.variable.numpy() for weight in workload._weights.items if not weight.trainable]
    loss = workload.step()
    assert loss is not None and math.isfinite(loss) and loss > 0
    after = [weight.variable.numpy() for weight in workload._weights.items if not weight.trainable]
    assert not any(numpy.array_equal(old, after[i]) for i, old in enumerate(before))
    workload = build(model, "forward")
    workload.step()
    workload.check_output()
    assert [logits.shape for logits in workload._fetched] == [(1 if model == "nasnetlarge" else 2, classes)]
    assert workload.facts["parameters"] == read_catalog()[model]["parameters"]
    # An image has a say in its logits: nothing on the way from it is dead.
    logits = workload._fetched[0]
    assert len(logits) == 1 or model.startswith("trivial") or numpy.abs(logits[0] - logits[1]).max() > 0


@pytest.mark.parametrize("model", ["bert_base_128", "vit_b16", "mobilenet"])
def test_every_weight_gets_a_gradient(model: str) -> None:
    workload = build(model, "train")
    before = [weight.variable.numpy() for weight in workload._weights.trainable]
    for _ in range(2):
        workload.step()
    for weight, old in zip(workload._weights.trainable, before, strict=True):
        assert not numpy.array_equal(weight.variable.numpy(), old), weight.name


def test_a_row_of_the_embedding_moves_when_its_token_is_there() -> None:
    workload = build("bert_base_128", "train")
    table = next(weight.variable for weight in workload._weights.items if weight.name == "words1")
    tokens = numpy.unique(workload._towers[0].images.numpy().astype(int))
    assert 100 < len(tokens) <= 256 and tokens.min() >= 0 and tokens.max() < 30522
    before = table.numpy()
    workload.step()
    moved = numpy.abs(table.numpy() - before).max(axis=1)
    # The L2 loss moves every row by 4e-8 of itself; the others' gradients come from the text alone.
    assert set(numpy.flatnonzero(moved > 1e-6)) <= set(tokens)
    assert (moved[tokens] > 1e-6).mean() > 0.5
