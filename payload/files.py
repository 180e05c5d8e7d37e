"""Files that are there whole or not at all."""

import json
import os
import tempfile
from typing import Any


def write_json(path: str, document: Any) -> None:
    """Write a JSON document: to a temporary name beside it, to the disk, then renamed.

    Raises:
        OSError: it could not be written; what was there before still is.
        ValueError: a NaN or an infinity is in it.
    """
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"
    handle, temporary = tempfile.mkstemp(prefix="." + os.path.basename(path) + ".", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
