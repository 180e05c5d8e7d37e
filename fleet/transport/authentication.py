"""Logs in to a host, with keys and, if there is one, a password; says exactly why when none is taken."""

from __future__ import annotations

from collections.abc import Sequence

import paramiko

from fleet.errors import AuthFailed, HostError
from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place, auth_failed, unreachable
from fleet.transport.handshake import Dropped
from fleet.transport.keys import MOST_OFFERS, Agent, Offer, collect_offers
from fleet.transport.password_login import METHODS, ask_methods, explain_refusal, offer_password
from fleet.transport.ssh_config import Endpoint

_OWN_KEY = (
    "Put the right public key into ~/.ssh/authorized_keys there, or correct ansible_user; the sshd log there says why."
)


class Login:
    """What paramiko calls an authentication strategy: public keys, then the password.

    Args:
        password: offered once, where no key opens the host; None: there is none.
    """

    def __init__(self, place: Place, endpoint: Endpoint, deadline: Deadline, password: str | None = None) -> None:
        self._place = place
        self._endpoint = endpoint
        self._deadline = deadline
        self._password = password
        self._agent: Agent | None = None
        self._keys_failed: AuthFailed | None = None
        self.accepted: Offer | None = None
        self.by_password = False
        """The host took the password."""

    def close(self) -> None:
        """Let go of the agent, if one was asked."""
        if self._agent is not None:
            self._agent.close()
            self._agent = None

    def authenticate(self, transport: paramiko.Transport) -> None:
        """Returns when the host lets us in.

        Raises:
            AuthFailed, Unreachable: it does not.
            Dropped: it ended the connection over the keys; the password has its turn on the next one.
        """
        if self._password is None:
            self._require_no_more(self._offer_keys(transport, MOST_OFFERS))
            return
        methods = ask_methods(transport, self._endpoint.user)
        if methods and self._keys_failed is None:
            # A refused key counts for sshd's MaxAuthTries, as the password does.
            methods = self._try_keys(transport, methods)
        if methods:
            self._require_no_more(self._offer_password(transport, self._password, methods))

    def _try_keys(self, transport: paramiko.Transport, methods: Sequence[str]) -> Sequence[str]:
        """What else the host wants: nothing where a key opened it, as before where none did."""
        try:
            return self._offer_keys(transport, MOST_OFFERS - 1)
        except AuthFailed as error:
            self._keys_failed = error
            if not transport.is_active():
                raise Dropped(error) from None
            return methods

    def _offer_password(self, transport: paramiko.Transport, password: str, methods: Sequence[str]) -> Sequence[str]:
        """What else the host wants."""
        if not METHODS & {*methods}:
            if (failed := self._keys_failed) is not None:
                what = f"{failed.message} {self._who} takes no password either, only {', '.join(methods)}."
                raise auth_failed(self._place, failed.reason, what, failed.hint)
            return methods
        transport.auth_timeout = self._deadline.left()
        try:
            left = offer_password(transport, self._endpoint.user, password, methods)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if self._deadline.passed:
                raise unreachable(self._place, "timeout", "did not answer when the password was offered") from None
            raise explain_refusal(self._place, self._who, error, self._keys_failed) from None
        self.by_password = True
        return left

    def _require_no_more(self, left: Sequence[str]) -> None:
        if not left:
            return
        taken = "the password" if self.by_password else f"the key {self.accepted}"
        what = f"{self._who} took {taken} and wants more: {', '.join(left)}."
        step = "Measuring unattended needs an account that a key alone opens."
        if METHODS & {*left} and self._password is None and not self._place.is_jump:
            step = "If that is a password, --ask-pass asks for it; a second factor cannot be given."
        raise auth_failed(self._place, "second_factor", what, step)

    def _offer_keys(self, transport: paramiko.Transport, most: int) -> Sequence[str]:
        """What else the host wants than the key that it took. Raises AuthFailed or Unreachable."""
        self.close()
        self._agent = Agent(self._endpoint.identity_agent)
        may_ask = self._password is None and not self._place.is_jump
        offers = collect_offers(self._place, self._endpoint, self._agent, may_ask=may_ask)
        tried: list[Offer] = []
        for offer in offers[:most]:
            tried.append(offer)
            transport.auth_timeout = self._deadline.left()
            left = self._try(transport, offer, tried)
            if left is not None:
                self.accepted = offer
                return left
        left_out = len(offers) - len(tried)
        more = (
            f" {left_out} more keys were not offered, for a host ends the connection after too many."
            if left_out
            else ""
        )
        what = f"{self._who} refused every key: {_name(tried)}.{more}"
        step = "Name the right one in ansible_ssh_private_key_file." if left_out else _OWN_KEY
        raise auth_failed(self._place, "refused", what, step)

    @property
    def _who(self) -> str:
        return (
            f"{self._endpoint.user}@{self._place}"
            if not self._place.is_jump
            else f"{self._place} (as {self._endpoint.user})"
        )

    def _try(self, transport: paramiko.Transport, offer: Offer, tried: Sequence[Offer]) -> Sequence[str] | None:
        """What else the host wants; None: not this key."""
        try:
            return transport.auth_publickey(self._endpoint.user, offer.key)
        except paramiko.BadAuthenticationType as error:
            what = f"{self._who} takes no public keys, only {', '.join(error.allowed_types)}."
            step = "Allow PubkeyAuthentication in its sshd_config"
            step += ", or give --ask-pass." if METHODS & {*error.allowed_types} and not self._place.is_jump else "."
            raise auth_failed(self._place, "no_public_key", what, step) from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            if not transport.is_active():
                raise self._explain_end(error, tried) from None
            if self._deadline.passed:
                what = f"did not answer while the key {offer} was offered"
                raise unreachable(self._place, "timeout", what) from None
            return None

    def _explain_end(self, error: Exception, tried: Sequence[Offer]) -> HostError:
        offer = tried[-1]
        if offer.source.startswith("agent") and not isinstance(error, paramiko.AuthenticationException):
            what = (
                f"The key {offer} was to be offered to {self._who}, but the agent did not sign: {error or 'no reason'}."
            )
            return auth_failed(self._place, "agent", what, "Unlock or confirm the key in the agent (`ssh-add -l`).")
        if len(tried) > 1:
            what = f"{self._who} ended the connection after {len(tried)} keys: {_name(tried)}."
            step = (
                "Name the right one: ansible_ssh_private_key_file, or IdentityFile with IdentitiesOnly in ssh_config."
            )
            return auth_failed(self._place, "too_many_keys", what, step)
        what = f"{self._who} ended the connection when the key {offer} was offered."
        return auth_failed(self._place, "refused", what, _OWN_KEY)


def _name(offers: Sequence[Offer]) -> str:
    return ", ".join(str(o) for o in offers)
