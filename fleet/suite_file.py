"""One suite file as YAML nodes that know their line; the reading half of `fleet.suite`.

Whatever is wrong becomes a ConfigError that says `file:line`. Values are what YAML 1.1 makes of them, as in Ansible's
files, and are taken as they are: a list is a list, a number a number; nothing is guessed, and a number that is another
than it looks like (010 is 8, 1:30 is 90) is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from fleet.errors import ConfigError
from fleet.inventory.yaml_file import compose, error_at, read_text

Entries = dict[str, Node]
"""A mapping's values by key."""

_PLAIN_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?|[-+]?\.(?:inf|nan)", re.IGNORECASE)

_WORDS = {"str": "a text", "int": "a number", "float": "a number", "bool": "true or false", "null": "empty"}


def suggest_name(name: str, known: Iterable[str]) -> str:
    """`; did you mean x?` with the nearest known name, or nothing when none is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


class SuiteFile:
    """A suite file, parsed.

    Raises:
        ConfigError: it cannot be read, is not YAML, or is empty; so do all methods for what they do not find.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loader = yaml.SafeLoader("")
        root = compose(path, read_text(path))
        if root is None:
            raise ConfigError("the suite is empty", file=path, hint="It needs at least a name and cells.")
        self.root: Node = root

    def error(self, node: Node, message: str, hint: str = "") -> ConfigError:
        """What is wrong at `node`."""
        return error_at(self._path, node, message, hint)

    def read_mapping(
        self, node: Node, what: str, known: Sequence[str], required: Mapping[str, str] = MappingProxyType({})
    ) -> Entries:
        """The values by key: only known keys, each once, the required ones, each with what to add, among them."""
        if not isinstance(node, MappingNode):
            raise self.error(node, f"{what} is a mapping with {', '.join(known)}, not {_describe(node)}")
        entries: Entries = {}
        for key_node, value in node.value:
            hint = f"Known are {', '.join(known)}."
            if not isinstance(key_node, ScalarNode):
                raise self.error(key_node, f"{what} has {_describe(key_node)} for a key", hint)
            key = str(key_node.value)  # as written: YAML 1.1 reads a plain `on` as true
            if key not in known:
                raise self.error(key_node, f"{what} has no key {key[:80]!r}{suggest_name(key, known)}", hint)
            if key in entries:
                raise self.error(key_node, f"{key} is given twice")
            entries[key] = value
        for key in required:
            if key not in entries:
                raise self.error(node, f"{what} needs {key}", f"Add {required[key]}.")
        return entries

    def read_list(self, node: Node, what: str) -> list[Node]:
        """The items of a list that is not empty."""
        if not isinstance(node, SequenceNode):
            hint = f"Write {what}: [{node.value}]." if isinstance(node, ScalarNode) and node.value else ""
            raise self.error(node, f"{what} is a list, not {_describe(node)}", hint)
        if not node.value:
            raise self.error(node, f"{what} is an empty list")
        return list(node.value)

    def read_names(self, node: Node, what: str, known: Sequence[str]) -> tuple[str, ...]:
        """A list of known names."""
        names = []
        for item in self.read_list(node, what):
            name = self.read_text(item, what)
            if name not in known:
                hint = f"Known are {', '.join(known)}."
                raise self.error(item, f"{what}: {name[:80]!r} is not known{suggest_name(name, known)}", hint)
            names.append(name)
        return tuple(names)

    def read_counts(self, node: Node, what: str, maximum: int, open_word: str | None = None) -> tuple[int, ...]:
        """A list of whole numbers from 1 to `maximum`; `open_word`, in it or in its place, is 0."""
        if open_word and isinstance(node, ScalarNode) and node.value == open_word:
            return (0,)
        counts = []
        for item in self.read_list(node, what):
            count = self._read_scalar(item, what)
            if open_word and count == open_word:
                count = 0
            elif isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= maximum:
                wanted = f"a whole number from 1 to {maximum}" + (f" or {open_word}" if open_word else "")
                raise self.error(item, f"{what}: {_describe(item)} is not {wanted}")
            counts.append(count)
        return tuple(counts)

    def read_switches(self, node: Node, what: str) -> tuple[bool, ...]:
        """A list of true and false."""
        return tuple(self.read_switch(item, what) for item in self.read_list(node, what))

    def read_switch(self, node: Node, what: str) -> bool:
        """true or false."""
        value = self._read_scalar(node, what)
        if not isinstance(value, bool):
            raise self.error(node, f"{what}: {_describe(node)} is neither true nor false")
        return value

    def is_null(self, node: Node) -> bool:
        """Whether it says `null`, or nothing."""
        return isinstance(node, ScalarNode) and self._read_scalar(node, "null") is None

    def read_number(self, node: Node, what: str) -> int | float:
        """One number."""
        value = self._read_scalar(node, what)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(node, f"{what} is a number, not {_describe(node)}")
        return value

    def read_text(self, node: Node, what: str) -> str:
        """One text, not empty."""
        value = self._read_scalar(node, what)
        if not isinstance(value, str) or not value.strip():
            raise self.error(node, f"{what} is a text, not {_describe(node)}")
        return value.strip()

    def _read_scalar(self, node: Node, what: str) -> object:
        if not isinstance(node, ScalarNode) or node.tag.rpartition(":")[2] not in _WORDS:
            raise self.error(node, f"{what}: {_describe(node)} stands where one value belongs")
        try:
            value: object = self._loader.construct_object(node)
        except (ValueError, LookupError, yaml.YAMLError) as e:  # e.g. `!!int x`, `!!int ""`, `!!bool x`, 5000 digits
            raise self.error(node, f"{what}: {_describe(node)} cannot be read") from e
        if isinstance(value, int | float) and not isinstance(value, bool) and not _PLAIN_NUMBER.fullmatch(node.value):
            text = str(node.value)[:80]
            raise self.error(node, f"{what}: {text} is another number in YAML than it looks like", "Write it plainly.")
        if isinstance(value, str) and any(0xD800 <= ord(character) <= 0xDFFF for character in value):
            raise self.error(node, f"{what}: {_describe(node)} holds half a character")
        return value


def _describe(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    word = _WORDS.get(node.tag.rpartition(":")[2])
    if word == "empty" or not node.value:
        return "nothing"
    shown = repr(str(node.value)[:80])
    return f"{word} ({shown})" if word else f"{shown} with the tag {node.tag}"
