"""The tree of groups and hosts that an inventory file draws."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from yaml.nodes import MappingNode, Node, ScalarNode

from fleet.errors import ConfigError
from fleet.inventory.addresses import check_alias
from fleet.inventory.documents import NULL_TAG, STR_TAG, Document, Entry, describe, other_format_error
from fleet.inventory.ranges import MAX_HOSTS, expand_ranges, split_port
from fleet.inventory.values import Variable, read_variables
from fleet.inventory.yaml_file import line_of

SECTIONS = ("hosts", "children", "vars")
PRIORITY = "ansible_group_priority"


@dataclass
class Group:
    """A group as the file has it. What it inherits is not in it."""

    name: str
    children: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    aliases: dict[str, None] = field(default_factory=dict)
    """The hosts it names itself, in order."""
    variables: dict[str, Variable] = field(default_factory=dict)
    priority: int = 1


@dataclass
class NamedHost:
    """A host as the file has it: its own variables, and the line that names it first."""

    alias: str
    line: int
    variables: dict[str, Variable] = field(default_factory=dict)


@dataclass
class Tree:
    """All groups and hosts, in the order of the file. Every group but `all` has a parent; there is no cycle."""

    document: Document
    groups: dict[str, Group]
    hosts: dict[str, NamedHost]

    def descendants(self, name: str) -> Iterator[str]:
        """The group, its children, their children …, each once."""
        seen = {name: None}
        level = [name]
        while level:
            yield from level
            below = dict.fromkeys(child for group in level for child in self.groups[group].children)
            level = [child for child in below if child not in seen]
            seen.update(dict.fromkeys(level))

    def members(self, name: str) -> tuple[str, ...]:
        """The aliases of all hosts of a group and of the groups below it."""
        return tuple(dict.fromkeys(a for group in self.descendants(name) for a in self.groups[group].aliases))

    def depths(self) -> dict[str, int]:
        """How far below `all` each group is, by the longest way."""
        known = {"all": 0}

        def measure(name: str) -> int:
            if name not in known:
                known[name] = 1 + max(measure(parent) for parent in self.groups[name].parents)
            return known[name]

        return {name: measure(name) for name in self.groups}

    def groups_of_hosts(self) -> dict[str, set[str]]:
        """For each alias every group the host is in, `all` included."""
        found: dict[str, set[str]] = {alias: set() for alias in self.hosts}
        for name in self.groups:
            for alias in self.members(name):
                found[alias].add(name)
        return found


def read_tree(document: Document) -> Tree:
    """Read the groups and hosts of an inventory file.

    Raises:
        ConfigError: it is no inventory, or something in it is not right; says which host or group, and the line.
    """
    return _TreeReader(document).read()


class _TreeReader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._tree = Tree(document, {"all": Group("all"), "ungrouped": Group("ungrouped")}, {})
        self._tree.groups["all"].children.append("ungrouped")
        self._tree.groups["ungrouped"].parents.append("all")

    def read(self) -> Tree:
        root = self._document.root
        if not isinstance(root, MappingNode):
            raise other_format_error(self._document)
        entries = self._document.entries(root, "the inventory")
        names = {e.key.value: e for e in entries if isinstance(e.key, ScalarNode)}
        if (plugin := names.get("plugin")) and isinstance(plugin.value, ScalarNode):
            hint = f"convert it once with: ansible-inventory -i {self._document.file} --list --yaml"
            raise self._document.error(
                plugin.key, "is the configuration of an inventory plugin, not an inventory", hint
            )
        if "_meta" in names:
            raise self._document.error(
                names["_meta"].key,
                "is what an inventory script prints, not an inventory",
                "ansible-inventory --list --yaml prints one",
            )
        for entry in entries:
            self._read_group(entry, top_level=True)
        self._complete()
        return self._tree

    def _read_group(self, entry: Entry, top_level: bool = False) -> str:
        name = self._check_group_name(entry.key)
        group = self._tree.groups.setdefault(name, Group(name))
        owner = f"group {name}"
        if entry.value.tag == NULL_TAG:
            return name
        if not isinstance(entry.value, MappingNode):
            message = f"{owner}: must be a mapping with hosts, children or vars, not {describe(entry.value)}"
            raise self._document.error(entry.key, message)
        for section in self._document.entries(entry.value, owner):
            if section.key.value not in SECTIONS:
                raise self._unknown_section(section, owner, name if top_level else "")
            if section.value.tag == NULL_TAG:
                continue
            {"hosts": self._read_hosts, "children": self._read_children, "vars": self._read_vars}[section.key.value](
                section, group
            )
        return name

    def _unknown_section(self, section: Entry, owner: str, top_level_name: str) -> ConfigError:
        key = section.key.value if isinstance(section.key, ScalarNode) else "a list or mapping"
        near = difflib.get_close_matches(str(key), SECTIONS, n=1)
        hint = ""
        if top_level_name in SECTIONS:
            hint = f"write `all:` above and indent `{top_level_name}:` below it"
        elif near:
            hint = f"did you mean {near[0]}?"
        elif isinstance(section.value, MappingNode):
            hint = f"put groups under `children:` and hosts under `hosts:` of {owner}"
        message = f"{owner}: {key} is not one of {', '.join(SECTIONS)}"
        return self._document.error(section.key, message, hint)

    def _read_children(self, section: Entry, group: Group) -> None:
        for entry in self._read_names(section, group, "children"):
            child = self._tree.groups[self._read_group(entry)]
            if child.name in group.children:
                continue
            if group.name in self._tree.descendants(child.name):
                message = f"group {group.name}: {child.name} cannot be its child, for it is {child.name}'s descendant"
                hint = "groups must not contain each other in a circle"
                if child is group:
                    message = f"group {group.name}: contains itself"
                raise self._document.error(entry.key, message, hint)
            group.children.append(child.name)
            child.parents.append(group.name)

    def _read_hosts(self, section: Entry, group: Group) -> None:
        ranges: dict[str, str] = {}
        for entry in self._read_names(section, group, "hosts"):
            owner = f"host {entry.key.value}"
            aliases, port = self._expand(entry.key, group)
            if len(aliases) > 1 or "[" in entry.key.value:
                self._refuse_overlap(entry.key, aliases, ranges)
            if entry.value.tag != NULL_TAG and not isinstance(entry.value, MappingNode):
                message = f"{owner}: must be a mapping of variables or nothing, not {describe(entry.value)}"
                raise self._document.error(entry.key, message)
            for alias in aliases:
                self._add_host(alias, entry, port, group)
            if len(self._tree.hosts) > MAX_HOSTS:
                raise self._document.error(entry.key, f"the inventory has more than {MAX_HOSTS} hosts")

    def _add_host(self, alias: str, entry: Entry, port: Node | None, group: Group) -> None:
        owner = f"host {alias}"
        new = alias not in self._tree.hosts
        host = self._tree.hosts.setdefault(alias, NamedHost(alias, line_of(entry.key)))
        if port is not None and new:  # a host that is known already keeps its port, as in Ansible
            host.variables["ansible_port"] = Variable("ansible_port", port, port, self._document, owner)
        if isinstance(entry.value, MappingNode):
            host.variables.update(read_variables(self._document, entry.value, owner))
        group.aliases[alias] = None

    def _expand(self, key: Node, group: Group) -> tuple[list[str], Node | None]:
        name, port = split_port(key.value)
        try:
            aliases = expand_ranges(name)
            for alias in aliases:
                check_alias(alias)
        except ValueError as error:
            raise self._document.error(key, f"group {group.name}: host {key.value!r}: {error}") from None
        node = ScalarNode(STR_TAG, port, key.start_mark, key.end_mark) if port is not None else None
        return aliases, node

    def _refuse_overlap(self, key: Node, aliases: list[str], ranges: dict[str, str]) -> None:
        # One name beside a range gives variables to one of its hosts; two ranges that overlap are a slip.
        for alias in aliases:
            if alias in ranges:
                raise self._document.error(key, f"host {alias}: is in {ranges[alias]} and again in {key.value}")
            ranges[alias] = key.value

    def _read_vars(self, section: Entry, group: Group) -> None:
        owner = f"group {group.name}"
        if not isinstance(section.value, MappingNode):
            raise self._document.error(section.key, f"{owner}: vars must be a mapping, not {describe(section.value)}")
        variables = read_variables(self._document, section.value, owner)
        if (priority := variables.pop(PRIORITY, None)) is not None:
            text = priority.read_text()
            if not re.fullmatch(r"-?[0-9]{1,9}", text):
                raise priority.error(f"must be a whole number, not `{text}`")
            group.priority = int(text)
        group.variables.update(variables)

    def _read_names(self, section: Entry, group: Group, what: str) -> list[Entry]:
        """The entries of `hosts:` or `children:`. Like Ansible, a single name may stand there without a colon."""
        owner, node = f"group {group.name}", section.value
        if isinstance(node, ScalarNode) and node.tag == STR_TAG and node.value:
            return [Entry(node, ScalarNode(NULL_TAG, "", node.start_mark, node.end_mark))]
        if not isinstance(node, MappingNode):
            hint = "write each name on its own line with a colon, without a dash: `gpu01:`"
            raise self._document.error(section.key, f"{owner}: {what} must be a mapping, not {describe(node)}", hint)
        entries = self._document.entries(node, f"{owner}: {what}")
        for entry in entries:
            self._refuse_other_than_text(entry.key, f"{owner}: a name in {what}")
        return entries

    def _check_group_name(self, key: Node) -> str:
        self._refuse_other_than_text(key, "the name of a group")
        name = str(key.value)
        if not re.fullmatch(r"\w[\w.+@-]*", name) or ".." in name:
            message = f"group {name!r}: is not a name: letters, digits, _ . + @ -, the first one a letter, digit or _"
            raise self._document.error(key, message)
        return name

    def _refuse_other_than_text(self, key: Node, what: str) -> None:
        if key.tag != STR_TAG:
            shown = f"; YAML does not read `{key.value}` as text" if isinstance(key, ScalarNode) else ""
            raise self._document.error(key, f"{what} must be a text{shown}", "write it in quotes")

    def _complete(self) -> None:
        """What every inventory has without saying so: all groups are in `all`, lonely hosts in `ungrouped`."""
        groups = self._tree.groups
        for group in groups.values():
            if group.name != "all" and not group.parents:
                if "all" in self._tree.descendants(group.name):
                    message = f"group {group.name}: `all` cannot be its child, for it contains every group"
                    raise ConfigError(message, file=self._document.file)
                groups["all"].children.append(group.name)
                group.parents.append("all")
        ungrouped = groups["ungrouped"].aliases
        for alias, names in self._tree.groups_of_hosts().items():
            grouped = bool(names - {"all", "ungrouped"})
            if grouped and alias in ungrouped:
                del ungrouped[alias]
            elif not grouped and alias not in ungrouped:
                ungrouped[alias] = None
