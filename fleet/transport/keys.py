"""Private keys: files and agents, and which of them are offered to a host, in which order."""

from __future__ import annotations

import base64
import os
import socket
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
from paramiko.agent import AgentKey, AgentSSH
from paramiko.pkey import UnknownKeyType

from fleet.transport.faults import Place, auth_failed
from fleet.transport.ssh_config import DEFAULT_IDENTITIES
from fleet.transport.ssh_tokens import home_directory

if TYPE_CHECKING:
    from fleet.transport.ssh_config import Endpoint

MOST_OFFERS = 6
"""sshd ends the connection at the sixth refused key (MaxAuthTries)."""

_LIST_LIMIT_S = 3.0
_SIGN_LIMIT_S = 15.0
"""Somebody may have to confirm."""


@dataclass(frozen=True)
class Offer:
    """A key that can sign, and where it comes from (`~/.ssh/id_ed25519`, `agent (comment)`)."""

    key: paramiko.PKey
    source: str

    def __str__(self) -> str:
        return f"{self.source} {self.key.fingerprint}"


@dataclass(frozen=True)
class Unusable:
    """A key file that cannot be offered. `reason`: key_missing, key_mode, key_passphrase, key_unreadable."""

    reason: str
    what: str
    hint: str


class Agent(AgentSSH):
    """An ssh-agent, reached by the path of its socket; it may be gone, or hang: then it has no keys."""

    def __init__(self, path: str | None) -> None:
        super().__init__()
        if path is None:
            return
        conn = socket.socket(socket.AF_UNIX)
        conn.settimeout(_LIST_LIMIT_S)
        try:
            conn.connect(path)
            self._connect(conn)  # type: ignore[attr-defined]
            conn.settimeout(_SIGN_LIMIT_S)
        except (OSError, paramiko.SSHException, ValueError, TypeError):
            conn.close()
            self._conn = None

    def close(self) -> None:
        self._close()  # type: ignore[attr-defined]

    def list_offers(self) -> list[Offer]:
        """Keys of the kinds that the library can offer: no security keys (`sk-…`)."""
        usable = [k for k in self.get_keys() if k.get_name().startswith(("ssh-ed25519", "ecdsa-sha2-", "ssh-rsa"))]
        return [Offer(k, f"agent ({_comment(k)})" if k.comment else "agent") for k in usable]


def _comment(key: AgentKey) -> str:
    return key.comment if isinstance(key.comment, str) else key.comment.decode("utf-8", "replace")


def collect_offers(place: Place, endpoint: Endpoint, agent: Agent, *, may_ask: bool = False) -> list[Offer]:
    """The keys to offer, best first.

    Chosen files (by the agent where it holds them), the agent's others, then the default files. Chosen files come
    before the agent's other keys, unlike with ssh: with a full agent ssh is thrown out before the right key's turn.

    Args:
        may_ask: a password would help, and none has been asked for.

    Raises:
        AuthFailed: there is nothing to offer, or the key that the inventory names cannot be used.
    """
    from_agent = {o.key.asbytes(): o for o in agent.list_offers()}
    offers: dict[bytes, Offer] = {}
    problems: list[Unusable] = []
    for path in endpoint.identity_files or ():
        _add(path, from_agent, offers, problems)
    if endpoint.identity_is_inventorys and problems:
        raise auth_failed(place, problems[0].reason, problems[0].what, problems[0].hint)
    if not endpoint.identities_only:
        for blob, offer in from_agent.items():
            offers.setdefault(blob, offer)
    if endpoint.identity_files is None:
        for path in _default_files():
            _add(path, from_agent, offers, problems)
    if not offers:
        raise _nothing_to_offer(place, endpoint, problems, may_ask)
    return list(offers.values())


def _add(path: str, from_agent: dict[bytes, Offer], offers: dict[bytes, Offer], problems: list[Unusable]) -> None:
    blob = _read_public_blob(Path(path)) if from_agent else None
    if blob is not None and blob in from_agent:
        offers.setdefault(blob, from_agent[blob])
        return
    loaded = load_key(path)
    if isinstance(loaded, Unusable):
        problems.append(loaded)
    else:
        offers.setdefault(loaded.asbytes(), Offer(loaded, _short(path)))


def _nothing_to_offer(place: Place, endpoint: Endpoint, problems: list[Unusable], may_ask: bool) -> Exception:
    if problems:
        more = " ".join(p.what for p in problems[1:3])
        return auth_failed(place, problems[0].reason, f"{problems[0].what} {more}".strip(), problems[0].hint)
    looked = "ssh_config allows no key file"
    if endpoint.identity_files is None:
        looked = f"there is none of {', '.join(DEFAULT_IDENTITIES)} in ~/.ssh"
    what = f"There is no key to offer to {endpoint.user}@{place}: no agent holds one, and {looked}."
    hint = "Set ansible_ssh_private_key_file, or start an agent; under cron there is none unless SSH_AUTH_SOCK says so."
    hint += " For a password give --ask-pass." if may_ask else ""
    return auth_failed(place, "no_key", what, hint)


def _default_files() -> list[str]:
    folder = home_directory() / ".ssh"
    return [str(folder / n) for n in DEFAULT_IDENTITIES if (folder / n).exists()]


_cache: dict[str, tuple[tuple[int, ...], paramiko.PKey | Unusable]] = {}
_cache_lock = threading.Lock()


def load_key(path: str) -> paramiko.PKey | Unusable:
    """A private key file, read again only when it has changed: one with many hosts is decoded once."""
    with _cache_lock:
        try:
            seen = Path(path).stat()
        except FileNotFoundError:
            hint = "Correct ansible_ssh_private_key_file or IdentityFile, or put the key there."
            return Unusable("key_missing", f"The key file {_short(path)} does not exist.", hint)
        except OSError as error:
            hint = f"Make the file readable for {os.getuid()}."
            return Unusable("key_unreadable", f"The key file {_short(path)} cannot be read: {error.strerror}.", hint)
        stamp = (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino)
        if path not in _cache or _cache[path][0] != stamp:
            _cache[path] = (stamp, _read_key(path, seen))
        return _cache[path][1]


def _read_key(path: str, seen: os.stat_result) -> paramiko.PKey | Unusable:
    name = _short(path)
    if not stat.S_ISREG(seen.st_mode):
        return Unusable("key_unreadable", f"The key file {name} is not a file.", "Name the private key file itself.")
    if seen.st_uid == os.getuid() and seen.st_mode & 0o077:
        what = (
            f"The key file {name} is open to others (mode {stat.S_IMODE(seen.st_mode):04o}); it is not used, as by ssh."
        )
        return Unusable("key_mode", what, f"chmod 600 {name}")
    try:
        return paramiko.PKey.from_path(path)
    except (paramiko.PasswordRequiredException, TypeError):
        # The library underneath says TypeError: password was not given but private key is encrypted.
        what = f"The key file {name} has a passphrase, and no agent holds the key."
        return Unusable("key_passphrase", what, f"ssh-add {name}, or use a key without passphrase for unattended runs.")
    except OSError as error:
        return Unusable("key_unreadable", f"The key file {name} cannot be read: {error.strerror}.", "Make it readable.")
    except (paramiko.SSHException, UnknownKeyType, ValueError, LookupError, UnicodeError):
        what = f"The key file {name} holds no private key of a kind we can use (Ed25519, ECDSA, RSA)."
        return Unusable("key_unreadable", what, f"`ssh-keygen -y -f {name}` must print its public key.")


def _read_public_blob(path: Path) -> bytes | None:
    """The public key of a key file, without its passphrase: from FILE.pub, the file itself, or its open part."""
    for candidate in (path.with_name(path.name + ".pub"), path):
        try:
            text = candidate.read_text("ascii")
        except (OSError, UnicodeError):
            continue
        fields = text.split(None, 2)
        if len(fields) >= 2 and fields[0].startswith(("ssh-", "ecdsa-", "sk-")):
            return _decode(fields[1])
        if "BEGIN OPENSSH PRIVATE KEY" in text:
            return _read_openssh_header("".join(w for w in text.splitlines() if not w.startswith("-----")))
    return None


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _read_openssh_header(body: str) -> bytes | None:
    """OpenSSH PROTOCOL.key: magic, cipher, kdf, kdf options, number of keys, then the public key in the clear."""
    data = _decode(body) or b""
    magic = b"openssh-key-v1\0"
    if not data.startswith(magic):
        return None
    message = paramiko.Message(data[len(magic) :])
    for _ in range(3):
        message.get_binary()
    message.get_int()
    return message.get_binary() or None


def _short(path: str) -> str:
    home = str(home_directory())
    return "~" + path[len(home) :] if home != "/" and path.startswith(home + "/") else path
