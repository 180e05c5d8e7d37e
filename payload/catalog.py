"""The catalogue: what is known of every model without building it."""

import json
import pkgutil
from typing import Any, Dict


def read_catalog() -> Dict[str, Dict[str, Any]]:
    """Models by name, in the order of the file: name, input_shape, parameters, forward_macs, phases, source."""
    data = pkgutil.get_data("payload", "catalog.json")
    if data is None:
        raise RuntimeError("the payload lacks its catalog.json")
    return {model["name"]: model for model in json.loads(data.decode("utf-8"))["models"]}
