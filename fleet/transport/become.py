"""Commands that run as root: another transport's, by sudo."""

from __future__ import annotations

import io
import re
import secrets
from collections.abc import Sequence

from fleet.errors import PreflightFailed
from fleet.model.result import Stage
from fleet.model.text import make_inert
from fleet.transport.base import Completed, Reader, Route, Transport, write_plainly
from fleet.transport.deadline import Deadline
from fleet.transport.ssh_tokens import local_user

CHECK_LIMIT_S = 60.0
"""For the first sudo on a host: a directory service may be asked, and a wrong password is answered late on purpose."""

_NOISE_BYTES = 1 << 13
"""Sudo may say as much before the command does: its lecture, its complaints about the host's name."""

# $1 a word of this command  $2 text of the reader  $3… options of sudo
_BECOME = """
export LC_ALL=C
word=$1 reader=$2
shift 2
if [ "$(id -u)" -eq 0 ]; then exec /bin/sh -c "$reader" fleet "$word" "${SSH_CONNECTION-}"; fi
command -v sudo >/dev/null 2>&1 || { echo "no sudo" >&2; exit 127; }
exec sudo "$@" -H -u root -- /bin/sh -c "$reader" fleet "$word" "${SSH_CONNECTION-}"
"""

# Run as root. $1 the word  $2 SSH's own variable, which sudo drops
# stdin: a password that sudo wanted before and does not want any more; "WORD SIZE", the command in so many bytes, and
# what the command reads. On stderr goes the word, in such a way that no quoted command line looks like it. On a command
# line everybody would see the command, and sudo would write it to the system's log.
_READER = """
while IFS= read -r line; do
  case $line in "$1 "*) break ;; esac
done
printf '@%s@' "$1" >&2
cd 2>/dev/null || cd /
SSH_CONNECTION=$2
export SSH_CONNECTION
[ -n "$line" ] || exit 0
eval "$(dd bs=1 count="${line#* }" 2>/dev/null)"
"""

_WANTED = "sudo_password"
_NO_TERMINAL = re.compile(r"must have a tty|no tty present", re.IGNORECASE)
_NOT_ALLOWED = re.compile(r"not in the sudoers|not allowed to|may not run|afraid I can't", re.IGNORECASE)
_WANTS_PASSWORD = re.compile(r"password is required|no password was provided|interactive auth", re.IGNORECASE)
_WRONG_PASSWORD = re.compile(r"incorrect (password|auth)|incorrect authentication|try again", re.IGNORECASE)


class BecomeTransport:
    """Another transport's host, as root (see `fleet.transport.base.Transport`). Where we are root, sudo is not asked.

    The password goes over standard input alone, and only where sudo wants one. Before the first command sudo is given
    it with nothing behind it, so that a wrong one is one try, and what follows is not taken for others. A sudo that has
    refused is not asked again.

    Args:
        alias: the host's name in the inventory.
        inner: of the SSH user.
        password: sudo's; None: it must want none.
    """

    def __init__(self, alias: str, inner: Transport, password: str | None) -> None:
        self._alias = alias
        self._inner = inner
        self._password = password
        self._admitted = False
        self._refused: PreflightFailed | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._inner.warnings

    @property
    def route(self) -> Route:
        route = self._inner.route
        return Route(route.address, route.key, route.key_fingerprint, route.jumps, become=True)

    def run(
        self, argv: Sequence[str], *, stdin: bytes | Reader = b"", timeout_s: float, limit_bytes: int = 1 << 20
    ) -> Completed:
        """See `Transport.run`.

        Raises:
            PreflightFailed: sudo does not let us; reasons `sudo_…`.
        """
        if self._refused is not None:
            raise self._refused
        deadline = Deadline(timeout_s)
        try:
            if not self._admitted:
                self._ask_sudo(deadline.within(CHECK_LIMIT_S))
            text, word = write_plainly(argv).encode(), secrets.token_hex(12)
            head = self._say_password() + f"{word} {len(text)}\n".encode() + text
            feed = _Joined(head, io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin)
            return self._call(word, feed, deadline, limit_bytes)
        except PreflightFailed as error:
            self._refused = error
            raise

    def close(self) -> None:
        self._inner.close()

    def _ask_sudo(self, deadline: Deadline) -> None:
        """Find out whether sudo lets us, at first without the password: then it never needs it."""
        password, self._password = self._password, None
        try:
            self._call(secrets.token_hex(12), b"", deadline, 0)
        except PreflightFailed as error:
            if password is None or error.reason != _WANTED:
                raise
            self._password = password
            self._call(secrets.token_hex(12), self._say_password(), deadline, 0)
        self._admitted = True

    def _say_password(self) -> bytes:
        return f"{self._password}\n".encode() if self._password is not None else b""

    def _call(self, word: str, feed: bytes | Reader, deadline: Deadline, limit_bytes: int) -> Completed:
        # -k: what sudo remembers of an earlier password neither counts, for it does not last, nor changes.
        options = ["-k", "-n"] if self._password is None else ["-k", "-S", "-p", ""]
        argv = ["/bin/sh", "-c", _BECOME, "fleet", word, _READER, *options]
        timeout_s = max(0.1, round(deadline.left(), 1))
        done = self._inner.run(argv, stdin=feed, timeout_s=timeout_s, limit_bytes=limit_bytes + _NOISE_BYTES)
        noise, mark, stderr = done.stderr.partition(f"@{word}@".encode())
        if not mark:
            raise self._explain(done.exit_status, noise)
        stdout = done.stdout[:limit_bytes]
        truncated = done.truncated or len(stdout) < len(done.stdout)
        return Completed(done.exit_status, stdout, stderr[:limit_bytes], truncated)

    def _explain(self, status: int, noise: bytes) -> PreflightFailed:
        said = [make_inert(line).strip() for line in noise.decode("utf-8", "replace").splitlines() if line.strip()]
        text, last = "\n".join(said), (said[-1][:300] if said else "it gives no reason")
        user = self._inner.route.address.partition("@")[0] if "@" in self._inner.route.address else local_user()
        if status == 127 and last == "no sudo":
            return self._fail("sudo_missing", "there is no `sudo` on the host's PATH", "Install it there")
        if _NO_TERMINAL.search(text):
            hint = f"Write `Defaults:{user} !requiretty` into sudoers there"
            return self._fail("sudo_tty", "sudo wants a terminal there, which fleet has not", hint)
        if _NOT_ALLOWED.search(text):
            hint = f"Let {user} run /bin/sh as root in sudoers there"
            return self._fail("sudo_not_allowed", f"sudo does not let {user} run /bin/sh as root", hint)
        if self._password is not None and _WRONG_PASSWORD.search(text):
            hint = "It was tried once, lest the account be locked: type it anew"
            return self._fail("sudo_refused", f"sudo refused the password of {user}", hint)
        if self._password is None and _WANTS_PASSWORD.search(text):
            hint = f"Give --ask-become-pass (-K), or {user} NOPASSWD in sudoers there"
            return self._fail(_WANTED, f"sudo wants a password of {user}", hint)
        hint = "See that `sudo id` is content there"
        return self._fail("sudo_failed", f"sudo ran no command (exit status {status}): {last}", hint)

    def _fail(self, reason: str, message: str, hint: str) -> PreflightFailed:
        hint += "; where the SSH user may use the engine, take fleet_become away." if reason != "sudo_refused" else "."
        return PreflightFailed(self._alias, Stage.PROBE, reason, message, hint)


class _Joined:
    """Bytes, then what a reader gives."""

    def __init__(self, head: bytes, rest: Reader) -> None:
        self._head = head
        self._rest = rest

    def read(self, most: int, /) -> bytes:
        if self._head:
            part, self._head = self._head[:most], self._head[most:]
            return part
        return self._rest.read(most)
