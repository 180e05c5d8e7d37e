"""One variable: where it was written, and its value as plain Python."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fleet.errors import ConfigError
from fleet.inventory.documents import BOOL_TAG, NULL_TAG, STR_TAG, Document, Entry, describe

_YAML_TAG = "tag:yaml.org,2002:"
_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class Variable:
    """A `key: value` of a host or a group. Nothing of the value is looked at before somebody asks for it."""

    key: str
    key_node: Node
    node: Node
    document: Document
    owner: str
    """Whose it is, for messages: `host gpu01`, `group gpu`."""

    def error(self, message: str, hint: str = "", node: Node | None = None) -> ConfigError:
        """`file:line: owner: key message`."""
        return self.document.error(node or self.node, f"{self.owner}: {self.key} {message}", hint)

    def read(self, *, truth: bool = False) -> object:
        """The value: str, int or float, or lists and dicts of them.

        Args:
            truth: it may also be a truth value.

        Raises:
            ConfigError: it holds nothing (null), a truth value, a template, something encrypted, a control character,
                or a number that YAML reads otherwise than it looks. No variable of ours takes any of these.
        """
        if truth and self.node.tag == BOOL_TAG and self.node.value.lower() in SafeConstructor.bool_values:
            return SafeConstructor.bool_values[self.node.value.lower()]
        return self._read_node(self.node)

    def read_text(self) -> str:
        """The value, which must be a text or a whole number; line ends at its end are dropped.

        Raises:
            ConfigError: as `read`; or it is a list, a mapping or a fraction.
        """
        value = self._read_node(self.node)
        if isinstance(value, str):
            return value
        if isinstance(value, int):
            return str(value)
        hint = "write it in quotes" if isinstance(self.node, ScalarNode) else ""
        raise self.error(f"must be one text, not {describe(self.node)}", hint)

    def _read_node(self, node: Node) -> object:
        if not node.tag.startswith(_YAML_TAG):
            hint = "write it unencrypted, or leave it out of this inventory" if node.tag.startswith("!vault") else ""
            raise self.error(f"has the tag {node.tag}, which is not evaluated here", hint, node)
        if isinstance(node, SequenceNode):
            return [self._read_node(child) for child in node.value]
        if isinstance(node, MappingNode):
            return self._read_mapping(node)
        if not isinstance(node, ScalarNode):
            raise self.error("cannot be read", node=node)
        return self._read_text(node) if node.tag == STR_TAG else self._read_scalar(node)

    def _read_mapping(self, node: MappingNode) -> dict[str, object]:
        if any(isinstance(key, MappingNode) for key, _ in node.value):
            raise self._template_error(node)  # {{ x }} without quotes: YAML takes it for a mapping in a mapping
        entries: list[Entry] = self.document.entries(node, f"{self.owner}: {self.key}")
        for entry in entries:
            if entry.key.tag != STR_TAG:
                raise self.error("has a name in it that is no text", "write it in quotes", entry.key)
        return {entry.key.value: self._read_node(entry.value) for entry in entries}

    def _read_text(self, node: ScalarNode) -> str:
        # `>` and `|` leave a line end behind that nobody means.
        text = str(node.value).rstrip("\n") if node.style in (">", "|") else str(node.value)
        if "{{" in text or "{%" in text:
            raise self._template_error(node)
        for character in text:
            if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
                raise self.error(f"holds the control character U+{ord(character):04X}", "remove it", node)
        return text

    def _read_scalar(self, node: ScalarNode) -> object:
        if node.tag == NULL_TAG:
            raise self.error("has no value", "give it one, or remove the line", node)
        try:
            value = SafeConstructor().construct_object(node)
        except (
            ConstructorError,
            ValueError,
            OverflowError,
            LookupError,
            AttributeError,
        ):
            # What PyYAML does with `!!int ""`, `!!bool x` and `!!timestamp x` is no error of YAML's.
            raise self.error(f"cannot be read: `{node.value[:40]}`", "write it in quotes", node) from None
        if isinstance(value, bool):
            hint = f"write it in quotes if the word is meant: '{node.value}'"
            raise self.error(f"is a truth value: YAML reads {node.value} as {str(value).lower()}", hint, node)
        if isinstance(value, int) and not _PLAIN_NUMBER.fullmatch(node.value):
            hint = "write a plain decimal number, or put it in quotes"
            raise self.error(f"is not what it looks like: YAML reads {node.value} as {value}", hint, node)
        return value if isinstance(value, int | float) else str(node.value)

    def _template_error(self, node: Node) -> ConfigError:
        return self.error("is a template; templates ({{ … }}) are not evaluated", "write the value itself", node)


def read_variables(document: Document, node: MappingNode, owner: str) -> dict[str, Variable]:
    """The variables of one `vars:`, host or vars file, by name. Names that are no text are nobody's and left out.

    Raises:
        ConfigError: a name is there twice.
    """
    entries = [e for e in document.entries(node, owner) if e.key.tag == STR_TAG]
    return {e.key.value: Variable(e.key.value, e.key, e.value, document, owner) for e in entries}
