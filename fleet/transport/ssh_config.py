"""What ssh would do to reach a host: asked of ssh itself (`ssh -G`), with the inventory on top.

So Include, Match, ProxyJump, HostKeyAlias and the rest mean what they mean to ssh. Without an ssh client only the
inventory and ssh's defaults count. `Match exec` runs its command, as it does under ssh.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from fleet.model.inventory import Connection
from fleet.transport.faults import unusable_config
from fleet.transport.ssh_answers import Answer, Options, find_answer
from fleet.transport.ssh_tokens import Tokens, home_directory, local_user

DEFAULT_IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa")
_OTHER_DEFAULT_IDENTITIES = ("id_ecdsa_sk", "id_ed25519_sk", "id_xmss", "id_dsa")
_MOST_JUMPS = 8
_RESOLVE_LIMIT_S = 20.0

_VERSION = "OpenSSH_"
_READING = "debug1: Reading configuration data "
_CHATTER = (_VERSION, "debug1: ")
"""What -v alone makes ssh say on stderr."""


@dataclass(frozen=True)
class Endpoint:
    """One SSH server, everything about it decided."""

    asked: str
    """The name ssh was asked about."""
    host: str
    """Name or address to connect to."""
    port: int
    user: str
    identity_files: tuple[str, ...] | None
    """Those that someone chose, in order. None: nobody chose, ssh's default names hold."""
    identity_is_inventorys: bool
    """The inventory names the one key to use: it must be there."""
    identities_only: bool
    identity_agent: str | None
    """Path of the agent's socket; None: no agent."""
    known_hosts_files: tuple[str, ...]
    """The user's own first: new keys go into the first."""
    host_key_alias: str | None = None
    family: str = "any"
    """`any`, `inet` or `inet6`."""
    bind_address: str | None = None
    connect_timeout_s: float | None = None
    keepalive_s: float | None = None
    proxy_command: str | None = None
    jumps: tuple[Endpoint, ...] = ()
    """From the control node outwards. Their own `jumps` are empty: the chain is flat."""
    warnings: tuple[str, ...] = ()
    """What ssh_config says and we do not do."""

    @property
    def server(self) -> str:
        """Whom a connection to it knocks at: itself, or whatever its ProxyCommand leads through for its like."""
        return self.proxy_command.replace(self.host, "%h") if self.proxy_command else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class _Question:
    """What ssh is asked: a name, and what its command line would say."""

    alias: str
    name: str
    ssh_args: tuple[str, ...] = ()
    port: int | None = None
    user: str | None = None
    identity: str | None = None


def resolve_endpoint(alias: str, connection: Connection) -> Endpoint:
    """Decide how to reach a host.

    Raises:
        Unreachable: ssh refuses the configuration (reason `ssh_config`), or it asks for what cannot be done.
    """
    question = _Question(
        alias,
        connection.host or alias,
        connection.ssh_args,
        connection.port,
        connection.user,
        connection.private_key_file,
    )
    options = _ask_ssh(question)
    endpoint = _read_endpoint(question, options)
    jumps = _resolve_jumps(question, _first(options, "proxyjump"), depth=0)
    return _with_jumps(endpoint, jumps)


def _with_jumps(endpoint: Endpoint, jumps: tuple[Endpoint, ...]) -> Endpoint:
    warnings = tuple(dict.fromkeys(w for e in (*jumps, endpoint) for w in e.warnings))
    return replace(endpoint, jumps=jumps, warnings=warnings, proxy_command=None if jumps else endpoint.proxy_command)


def _resolve_jumps(question: _Question, value: str | None, depth: int) -> tuple[Endpoint, ...]:
    """The hops of a ProxyJump value, outermost first. Of the hops' own ProxyJumps only the first one's counts."""
    if not value or value == "none":
        return ()
    if depth >= _MOST_JUMPS:
        what = (
            f"ProxyJump leads through more than {_MOST_JUMPS} hosts to {question.name!r}; it probably goes in a circle."
        )
        raise unusable_config(question.alias, "ssh_config", what, "Correct ProxyJump in ssh_config.")
    hops: list[Endpoint] = []
    for text in value.split(","):
        asked = _read_jump(question, text.strip())
        options = _ask_ssh(asked)
        if not hops:
            hops += _resolve_jumps(asked, _first(options, "proxyjump"), depth + 1)
        hop = _read_endpoint(asked, options)
        hops.append(hop if not hops else replace(hop, proxy_command=None))
    return tuple(hops)


def _read_jump(question: _Question, text: str) -> _Question:
    match = re.fullmatch(
        r"(?:ssh://)?(?:(?P<user>[^@]+)@)?(?:\[(?P<six>[^]]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>\d+))?/?", text
    )
    port = int(match["port"]) if match and match["port"] else None
    if match is None or (port is not None and not 1 <= port <= 65535):
        what = f"ProxyJump {text!r} is not [user@]host[:port]."
        raise unusable_config(question.alias, "ssh_config", what, "Correct ProxyJump in ssh_config.")
    return _Question(
        question.alias, match["six"] or match["name"], _file_option(question.ssh_args), port, match["user"]
    )


def _file_option(ssh_args: Sequence[str]) -> tuple[str, ...]:
    """`-F file`: all that ssh hands on to the ssh that serves a jump host."""
    for at, word in enumerate(ssh_args):
        if word == "-F" and at + 1 < len(ssh_args):
            return ("-F", ssh_args[at + 1])
        if word.startswith("-F") and len(word) > 2:
            return (word,)
    return ()


def _ask_ssh(question: _Question) -> Options:
    """Ask `ssh -G`. Without an ssh client: nothing is configured."""
    if question.name.startswith("-") or not question.name.isprintable():
        what = f"{question.name!r} is not a host name."
        raise unusable_config(question.alias, "ssh_config", what, "Correct ansible_host or ProxyJump.")
    ssh = shutil.which("ssh")
    if ssh is None:
        if question.ssh_args:
            given = " ".join(question.ssh_args)
            what = f"The inventory gives ssh options ({given}), and there is no ssh client to read them."
            raise unusable_config(question.alias, "ssh_config", what, "Install the OpenSSH client on the control node.")
        return {}
    # -v: it says which files it read.
    argv = [ssh, "-v", "-G", *question.ssh_args]
    argv += ["-p", str(question.port)] if question.port else []
    argv += ["-l", question.user] if question.user else []
    argv += ["-i", question.identity] if question.identity else []
    argv.append("--")
    return find_answer(argv, question.name, lambda: _run_ssh(question, [*argv, question.name]))


def _run_ssh(question: _Question, argv: list[str]) -> Answer:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_RESOLVE_LIMIT_S)
    except subprocess.TimeoutExpired:
        what = f"`ssh -G {question.name}` did not end within {_RESOLVE_LIMIT_S:.0f} s."
        raise unusable_config(
            question.alias, "ssh_config", what, "Look for a slow `Match exec` in ssh_config."
        ) from None
    except (OSError, ValueError) as error:
        what = f"`ssh -G {question.name}` cannot be run: {error}."
        raise unusable_config(question.alias, "ssh_config", what, "Correct the ssh options of the inventory.") from None
    said = done.stderr.decode("utf-8", "replace").splitlines()
    if done.returncode != 0:
        words = " ".join(line.strip() for line in said if not line.startswith(_CHATTER))[:500]
        what = f"ssh refuses the configuration for {question.name}: {words or 'it gives no reason'}"
        raise unusable_config(
            question.alias, "ssh_config", what, f"Correct ssh_config, until `ssh -G {question.name}` is content."
        )
    options: dict[str, tuple[str, ...]] = {}
    for line in done.stdout.decode("utf-8", "surrogateescape").splitlines():
        key, _, value = line.partition(" ")
        options[key.lower()] = (*options.get(key.lower(), ()), value.strip())
    files = tuple(line.removeprefix(_READING) for line in said if line.startswith(_READING))
    return Answer(options, files if any(line.startswith(_VERSION) for line in said) else None)


def _first(options: Options, key: str) -> str | None:
    """The value of a directive; None when it is not set. `none` is a value."""
    values = options.get(key, ())
    return values[0] if values and values[0] else None


def _read_endpoint(question: _Question, options: Options) -> Endpoint:
    host = _first(options, "hostname") or question.name
    port = int(_first(options, "port") or question.port or 22)
    user = _first(options, "user") or question.user or local_user()
    tokens = Tokens(host, port, user, question.name)
    files = (question.identity,) if question.identity else options.get("identityfile", ())
    chosen = tuple(tokens.expand(f) for f in files if f != "none")
    alias = _first(options, "hostkeyalias")
    return Endpoint(
        asked=question.name,
        host=host,
        port=port,
        user=user,
        # ssh lists its default names when nobody chose, and `none` when that was chosen.
        identity_files=None if set(chosen) <= _list_default_identities() and "none" not in files else chosen,
        identity_is_inventorys=question.identity is not None,
        identities_only=question.identity is not None or _first(options, "identitiesonly") == "yes",
        identity_agent=_find_agent(tokens, _first(options, "identityagent")),
        known_hosts_files=_list_known_hosts(options, tokens),
        host_key_alias=None if alias == "none" else alias,
        family=_first(options, "addressfamily") or "any",
        bind_address=_first(options, "bindaddress"),
        connect_timeout_s=_seconds(_first(options, "connecttimeout")),
        keepalive_s=_seconds(_first(options, "serveraliveinterval")),
        proxy_command=_read_proxy_command(question, options, tokens),
        warnings=_find_unsupported(question, options),
    )


@cache
def _list_default_identities() -> frozenset[str]:
    folder = home_directory() / ".ssh"
    return frozenset(str(folder / name) for name in (*DEFAULT_IDENTITIES, *_OTHER_DEFAULT_IDENTITIES))


def _list_known_hosts(options: Options, tokens: Tokens) -> tuple[str, ...]:
    """The user's files, then the machine's. Keys are verified even where ssh_config throws them away (/dev/null)."""
    chosen = {
        key: [f for value in options.get(key, ()) for f in value.split() if f not in {"none", "/dev/null"}]
        for key in ("userknownhostsfile", "globalknownhostsfile")
    }
    own = chosen["userknownhostsfile"] or ["~/.ssh/known_hosts"]
    machine = chosen["globalknownhostsfile"] if options else ["/etc/ssh/ssh_known_hosts"]
    return tuple(tokens.expand(f) for f in (*own, *machine))


def _find_unsupported(question: _Question, options: Options) -> tuple[str, ...]:
    if _first(options, "revokedhostkeys") not in {None, "none"}:
        what = f"ssh_config sets RevokedHostKeys for {question.name}, which fleet cannot read."
        step = "Write the revoked keys as `@revoked` lines into known_hosts, and take the directive out for this host."
        raise unusable_config(question.alias, "ssh_config", what, step)
    names = {
        "certificatefile": "CertificateFile (a certificate counts only as KEY-cert.pub beside its key)",
        "knownhostscommand": "KnownHostsCommand",
        "bindinterface": "BindInterface",
        "pkcs11provider": "PKCS11Provider (load the token into ssh-agent instead)",
    }
    return tuple(
        f"{question.name}: ssh_config sets {text}; fleet does not honour it."
        for key, text in names.items()
        if _first(options, key) not in {None, "none"}
    )


def _read_proxy_command(question: _Question, options: Options, tokens: Tokens) -> str | None:
    command = _first(options, "proxycommand")
    if command is None or command == "none":
        return None
    if _first(options, "proxyusefdpass") == "yes":
        what = f"ssh_config sets ProxyUseFdpass for {question.name}, which fleet cannot do."
        raise unusable_config(question.alias, "ssh_config", what, "Use a ProxyCommand that passes bytes, or ProxyJump.")
    # The command goes through a shell, as under ssh: what is filled in may hold nothing that a shell would act on.
    for value in (tokens.host, tokens.user, tokens.name):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._:%@-]*", value):
            what = f"{value!r} cannot be put into the ProxyCommand of ssh_config."
            raise unusable_config(question.alias, "ssh_config", what, "Correct the host's name or user.")
    return tokens.expand(command)


def _find_agent(tokens: Tokens, value: str | None) -> str | None:
    if value == "none":
        return None
    if value is None or value == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    if value.startswith("$"):
        return os.environ.get(value.strip("${}")) or None
    return tokens.expand(value)


def _seconds(value: str | None) -> float | None:
    return float(value) if value is not None and value.isdigit() and int(value) > 0 else None
