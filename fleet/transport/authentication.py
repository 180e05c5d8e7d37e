"""Offers keys to a host, one after the other, and says exactly why when none is taken."""

from __future__ import annotations

from collections.abc import Sequence

import paramiko

from fleet.errors import HostError
from fleet.transport.deadline import Deadline
from fleet.transport.faults import Place, auth_failed, unreachable
from fleet.transport.keys import MOST_OFFERS, Agent, Offer, collect_offers
from fleet.transport.ssh_config import Endpoint

_OWN_KEY = (
    "Put the right public key into ~/.ssh/authorized_keys there, or correct ansible_user; the sshd log there says why."
)


class KeyOffers:
    """What paramiko calls an authentication strategy: public keys, nothing else."""

    def __init__(self, place: Place, endpoint: Endpoint, deadline: Deadline) -> None:
        self._place = place
        self._endpoint = endpoint
        self._deadline = deadline
        self._agent: Agent | None = None
        self.accepted: Offer | None = None

    def close(self) -> None:
        """Let go of the agent, if one was asked."""
        if self._agent is not None:
            self._agent.close()
            self._agent = None

    def authenticate(self, transport: paramiko.Transport) -> None:
        """Raises AuthFailed or Unreachable; returns when the host took a key."""
        self.close()
        self._agent = Agent(self._endpoint.identity_agent)
        offers = collect_offers(self._place, self._endpoint, self._agent)
        tried: list[Offer] = []
        for offer in offers[:MOST_OFFERS]:
            tried.append(offer)
            transport.auth_timeout = self._deadline.left()
            if self._try(transport, offer, tried):
                self.accepted = offer
                return
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

    def _try(self, transport: paramiko.Transport, offer: Offer, tried: Sequence[Offer]) -> bool:
        try:
            left = transport.auth_publickey(self._endpoint.user, offer.key)
        except paramiko.BadAuthenticationType as error:
            what = f"{self._who} takes no public keys, only {', '.join(error.allowed_types)}."
            raise auth_failed(
                self._place, "no_public_key", what, "Allow PubkeyAuthentication in its sshd_config."
            ) from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            if not transport.is_active():
                raise self._explain_end(error, tried) from None
            if self._deadline.passed:
                what = f"did not answer while the key {offer} was offered"
                raise unreachable(self._place, "timeout", what) from None
            return False
        if left:
            what = f"{self._who} took the key {offer} and wants more: {', '.join(left)}."
            step = "Measuring unattended needs an account that a key alone opens."
            raise auth_failed(self._place, "second_factor", what, step)
        return True

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
