"""Text that came from a host, made safe to show."""

from __future__ import annotations

import re
import unicodedata

_ACTIVE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_UNCOMMON = re.compile(r"[^\n -~]")


def make_inert(text: str, limit: int = 2000) -> str:
    """The text without anything a terminal or a bidirectional renderer would act on.

    Control characters (escape sequences among them), format characters (bidirectional overrides, zero-width) and lone
    surrogates become U+FFFD, tabs a space; line ends stay. At most `limit` characters are kept.
    """
    kept = text[:limit].replace("\r\n", "\n").replace("\t", " ")
    clean = _UNCOMMON.sub(lambda m: "\ufffd" if unicodedata.category(m[0]) in _ACTIVE else m[0], kept)
    return clean + ("…" if len(text) > limit else "")
