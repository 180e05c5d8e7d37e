"""Reading JSON that a host wrote: strictly, for the host may be broken or hostile."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Document = TypeVar("Document", bound=BaseModel)


class DocumentError(ValueError):
    """The bytes are not the document they should be; the text says how."""


def parse_document(data: bytes, kind: type[Document]) -> Document:
    """A document of this kind.

    Raises:
        DocumentError: not UTF-8, not JSON, NaN or an infinity, a number beyond 64 bits, a key twice, nested too deep,
            or not what the model asks for: `true` is no number, and "1" is none either.
    """
    try:
        text = data.decode("utf-8")
        json.loads(
            text,
            object_pairs_hook=_refuse_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_read_float,
            parse_int=_read_int,
        )
        return kind.model_validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DocumentError(f"{where or 'document'}: {first['msg']}") from None
    except RecursionError:
        raise DocumentError("nested too deep") from None
    except UnicodeError:
        raise DocumentError("not UTF-8") from None
    except ValueError as error:
        raise DocumentError("empty" if not data.strip() else str(error)) from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _read_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large")
    return value


def _read_int(text: str) -> int:
    if len(text.lstrip("-")) > 19 or abs(int(text)) >= 1 << 63:
        raise ValueError(f"{text[:20]}… is too large")
    return int(text)
