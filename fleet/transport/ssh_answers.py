"""What ssh answers about a host, asked once for all hosts that its configuration does not tell apart.

`ssh -G` takes as much of the processor as all the rest of a connection. Names to which the same `Host` patterns apply
get the same answer, each with its own name in it: the first is asked about, and the second to make sure. Where the
answer can depend on more than that (`Match`, CanonicalizeHostname), every host is asked about by itself.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fleet.transport.known_hosts import match_pattern

Options = Mapping[str, tuple[str, ...]]
"""Directives in lower case; a directive given several times has several values."""


@dataclass(frozen=True)
class Answer:
    """What ssh said of one name."""

    options: Options
    files: tuple[str, ...] | None
    """The configuration files that it read; None when it did not say."""


Ask = Callable[[], Answer]
"""Asks ssh about the name in question. What it raises is the caller's."""

_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9._:-]*")
"""What ssh takes for a name and nothing else, and does not change."""

_SECTION = re.compile(r'\s*"?(host|match)"?[\s=]+(.*)', re.IGNORECASE)


@dataclass
class _Kind:
    """Names to which the same patterns apply."""

    name: str
    options: Options
    """For that name."""
    alike: bool | None = None
    """The answer for any name is this one with that name in it; None: not known yet."""

    def __post_init__(self) -> None:
        self._named = {key: values for key, values in self.options.items() if any(self.name in v for v in values)}

    def rename(self, name: str) -> Options:
        named = {key: tuple(v.replace(self.name, name) for v in values) for key, values in self._named.items()}
        return {**self.options, **named}


@dataclass
class _CommandLine:
    """The answers to one command line of ssh, whatever the name at its end."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _files: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """What the answers were made from: size, time and place of each file."""
    _patterns: tuple[str, ...] | None = ()
    """Of all `Host` lines; None: every name is asked about by itself."""
    _kinds: dict[tuple[bool, ...], _Kind] = field(default_factory=dict)

    def find(self, name: str, ask: Ask) -> Options:
        """The answer for a name."""
        with self._lock:
            if any(_stamp(file) != stamp for file, stamp in self._files.items()):
                self._files, self._patterns, self._kinds = {}, (), {}
            kind = self._kinds.get(self._classify(name))
            if self._patterns is not None and (kind is None or (kind.alike is None and kind.name != name)):
                return self._learn(name, kind, ask)
        if kind is not None and (kind.alike or kind.name == name):
            return kind.rename(name)
        return ask().options

    def _learn(self, name: str, kind: _Kind | None, ask: Ask) -> Options:
        """Ask, while the others wait. If ssh hangs or refuses, they wait for that only once."""
        patterns, self._patterns = self._patterns, None
        answer = ask()
        if self._kinds:
            self._patterns = patterns
        else:
            self._files = {file: _stamp(file) for file in answer.files or ()}
            self._patterns = _list_patterns(answer)
        if kind is not None:
            kind.alike = answer.options == kind.rename(name)
        elif self._patterns is not None:
            self._kinds[self._classify(name)] = _Kind(name, answer.options)
        return answer.options

    def _classify(self, name: str) -> tuple[bool, ...]:
        return tuple(match_pattern(name, pattern) for pattern in self._patterns or ())


_lines: dict[tuple[str, ...], _CommandLine] = {}
_lines_lock = threading.Lock()


def find_answer(argv: Sequence[str], name: str, ask: Ask) -> Options:
    """The answer of `ssh -G` for a name: a new one, or one that is known.

    Args:
        argv: ssh's whole command line, but for the name.
    """
    if not _PLAIN_NAME.fullmatch(name):
        return ask().options
    with _lines_lock:
        line = _lines.setdefault(tuple(argv), _CommandLine())
    return line.find(name, ask)


def _list_patterns(answer: Answer) -> tuple[str, ...] | None:
    """All that names are compared with. None: it cannot be known, or the answer depends on more."""
    if answer.files is None or answer.options.get("canonicalizehostname", ("false",))[0] not in {"false", "no"}:
        return None
    patterns: list[str] = []
    for file in answer.files:
        try:
            lines = Path(file).read_text("utf-8", "replace").splitlines()
        except OSError:
            return None
        for section in filter(None, map(_SECTION.match, lines)):
            if section[1].lower() == "host":
                patterns += [word.strip('"').removeprefix("!") for word in section[2].split()]
            elif section[2].strip().lower() != "all":
                return None
    return tuple(dict.fromkeys(patterns))


def _stamp(file: str) -> tuple[int, ...]:
    try:
        found = Path(file).stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
