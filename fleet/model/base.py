"""The base of all nouns: frozen, and strict about what it is given."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Noun(BaseModel):
    """An immutable value. Unknown keys are an error; NaN and infinities are not numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class Record(Noun):
    """An immutable value that another fleet wrote: a newer minor version may carry keys that we do not know."""

    model_config = ConfigDict(extra="ignore")
