"""The learning rates that tf_cnn_benchmarks itself uses (8fb7907), for those who want its every setting.

Protocol 1 uses others where these make the loss NaN within a few steps.
"""

from typing import Optional, Tuple

_IMAGES_PER_EPOCH = 1281167
_IMAGENET_RESNETS = ("resnet50", "resnet101", "resnet152")
_CIFAR_RATES = {"alexnet_cifar10": 0.1, "nasnet_cifar10": 0.025}
_OTHERS = 0.005
_UNKNOWN = ("vit_", "bert_")


def find_reference_rate(model: str, batch_size: int, devices: int) -> Optional[Tuple[float, int]]:
    """The reference's learning rate for summed gradients: (rate, steps over which it rises to that from 0).

    Args:
        model: its name in the catalogue.
        batch_size: images per step, all devices together.
        devices: how many sum their gradients up. The rate of residual networks is divided by it, others' is not.

    Returns:
        None: the reference does not have the model.
    """
    if model.startswith(_UNKNOWN):
        return None
    if model.startswith(_IMAGENET_RESNETS):
        return 0.128 / devices * batch_size / 256.0, 5 * _IMAGES_PER_EPOCH // batch_size
    if model.startswith(("resnet18", "resnet34")):
        return 0.0125 * batch_size / 32.0, 0
    if model.startswith(("resnet", "densenet")):
        return 0.1, 0
    return _CIFAR_RATES.get(model, _OTHERS), 0
