"""The flags of tf_cnn_benchmarks, as far as they mean the same here."""

import argparse
import difflib
import re
from typing import Callable, List, Tuple

from payload.catalog import read_catalog
from payload.cell import OPTIMIZERS, PRECISIONS, VARIABLE_UPDATES, Cell
from payload.lines import CLASSIC
from payload.spec import Rules

_DEFAULT_BATCH_SIZES = dict(
    {"alexnet": 512, "nasnetlarge": 16, "alexnet_cifar10": 128},
    **dict.fromkeys(["resnet50", "resnet50_v1.5", "resnet50_v2"], 64),
    **dict.fromkeys(["vgg11", "vgg11_lrn", "vgg13", "vgg16", "vgg16c", "vgg19"], 64),
    **dict.fromkeys(["densenet40_k12", "densenet100_k12", "densenet100_k24"], 64),
    **dict.fromkeys(["resnet20", "resnet32", "resnet44", "resnet56", "resnet110"], 128),
    **dict.fromkeys(["resnet20_v2", "resnet32_v2", "resnet44_v2", "resnet56_v2", "resnet110_v2"], 128),
)
"""The reference's; 32 for all others."""

_ONE_WEEK_S = 604800.0

_PARAMETER_SERVER = "parameter_server"
"""The reference's default. On one device it is the same work as `replicated`."""


class WrongFlags(Exception):
    """The message is a sentence without a full stop."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of tf_cnn_benchmarks that mean the same here."""
    models = ", ".join(read_catalog())
    parser.add_argument("--model", metavar="NAME", help="what to measure: " + models)
    for flag, default, meaning in (
        ("batch_size", None, "images per step and device; default: as tf_cnn_benchmarks"),
        ("num_gpus", 1, "devices; default: 1"),
        ("num_batches", 100, "timed steps, at least 2; more where the first were still warm-up; default: 100"),
        ("display_every", 10, "a line each so many steps; default: 10"),
        ("num_warmup_batches", 10, "steps before them; default: 10"),
        ("steps_per_call", 1, "training steps in one call of the TensorFlow function; default: 1"),
        ("num_intra_threads", 0, "threads within an operation; default: chosen"),
        ("num_inter_threads", 0, "threads for operations side by side; default: chosen"),
    ):
        parser.add_argument("--" + flag, type=_make_reader(1), default=default, metavar="N", help=meaning)
    bound = "the NUMA node that the process is kept to; default: to none"
    parser.add_argument("--numa_node", type=_make_reader(0), metavar="N", help=bound)
    parser.add_argument("--device", choices=["cpu", "gpu"], type=str.lower, default="gpu", help="default: gpu")
    layouts = "default: NCHW on a GPU, NHWC on a CPU"
    parser.add_argument("--data_format", choices=["NHWC", "NCHW"], type=str.upper, help=layouts)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd", help="default: sgd")
    exchange = "what several devices do with their gradients; default: replicated"
    updates = VARIABLE_UPDATES + (_PARAMETER_SERVER,)
    parser.add_argument("--variable_update", choices=updates, default="replicated", help=exchange)
    parser.add_argument("--data_name", choices=["imagenet", "cifar10"], help="cifar10: the model for its small images")
    parser.add_argument("--local_parameter_device", choices=["cpu", "gpu"], help="must be the --device, if it is said")
    parser.add_argument("--data_dir", help="refused: images are always synthetic")
    parser.add_argument("--precision", choices=PRECISIONS, help="default: fp32")
    for flag, meaning in (
        ("use_fp16", "the same as --precision=fp16"),
        ("forward_only", "inference, not training"),
        ("xla", "compiled by XLA"),
        ("xla_compile", "the same as --xla"),
        ("compat", "tf_cnn_benchmarks to the letter: its learning rates, NaN or not, and exactly so many steps"),
    ):
        name = "--" + flag
        parser.add_argument(name, nargs="?", const=True, default=False, type=_read_bool, metavar="BOOL", help=meaning)
        parser.add_argument("--no" + flag, dest=flag, action="store_false", help=argparse.SUPPRESS)


def read_flags(flags: argparse.Namespace) -> Tuple[List[Cell], Rules]:
    """The cells and the rules that the flags mean. The classic timing is of two cells, one a phase.

    Raises:
        WrongFlags: they ask for what the payload does not do, or contradict each other.
    """
    _check(flags)
    gpu = flags.device == "gpu"
    model = _find_model(flags)
    classic = model == CLASSIC
    cell = Cell(
        model=model,
        phase="forward" if flags.forward_only or classic else "train",
        precision="fp16" if flags.use_fp16 else flags.precision or "fp32",
        batch_size=flags.batch_size or _DEFAULT_BATCH_SIZES.get(model, 32),
        device=flags.device,
        devices=flags.num_gpus,
        data_format=flags.data_format or ("NCHW" if gpu and not classic else "NHWC"),
        xla=flags.xla or flags.xla_compile,
        optimizer=flags.optimizer,
        variable_update="independent" if flags.variable_update == "independent" else "replicated",
        steps_per_call=flags.steps_per_call,
    )
    rules = Rules(
        warmup_steps=flags.num_warmup_batches,
        warmup_s=0.0,
        steps=max(2, flags.num_batches),
        min_s=0.0,
        max_s=_ONE_WEEK_S,
        cell_timeout_s=_ONE_WEEK_S,
        compat=flags.compat,
        intra_threads=flags.num_intra_threads,
        inter_threads=flags.num_inter_threads,
        numa_node=flags.numa_node,
    )
    both = classic and not flags.forward_only
    return [cell] + ([cell._replace(phase="forward_backward")] if both else []), rules


def _check(flags: argparse.Namespace) -> None:
    if flags.data_dir is not None:
        raise WrongFlags("--data_dir: images are always synthetic; leave it out")
    if flags.local_parameter_device not in (None, flags.device):
        raise WrongFlags("--local_parameter_device: variables lie on the --device, which is %s" % flags.device)
    if flags.variable_update == _PARAMETER_SERVER and flags.num_gpus > 1:
        raise WrongFlags("--variable_update=parameter_server is for one device only; several have replicated")
    if flags.use_fp16 and flags.precision not in (None, "fp16"):
        raise WrongFlags("--use_fp16 and --precision=%s contradict each other" % flags.precision)


def _find_model(flags: argparse.Namespace) -> str:
    """The catalogue's name of the model. Of some there is one for ImageNet's images and one for CIFAR-10's."""
    models = read_catalog()
    if flags.model is None:
        raise WrongFlags("say what to measure: --model NAME, or run SPEC, or models")
    name: str = flags.model
    if flags.data_name == "cifar10" and name + "_cifar10" in models:
        name += "_cifar10"
    if name not in models:
        near = difflib.get_close_matches(name, list(models), n=1)
        guess = "; did you mean %s?" % near[0] if near else ""
        raise WrongFlags("there is no model %s%s There are %s" % (name, guess or ".", ", ".join(models)))
    small = models[name]["input_shape"][0] == 32
    if flags.data_name is not None and small != (flags.data_name == "cifar10"):
        raise WrongFlags("--data_name=%s: %s is not for its images" % (flags.data_name, name))
    return name


def _make_reader(least: int) -> Callable[[str], int]:
    """Reads an argument that is a whole number from `least`."""

    def read(text: str) -> int:
        if not re.match(r"[0-9]{1,9}$", text) or int(text) < least:
            raise argparse.ArgumentTypeError("%r is no whole number from %d to 999999999" % (text[:80], least))
        return int(text)

    return read


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0", "t", "f", "yes", "no"):
        raise argparse.ArgumentTypeError("%r is neither true nor false" % text)
    return text.lower() in ("true", "1", "t", "yes")
