"""What the broker's owner decides about prepared branches while the backup is lost."""

from __future__ import annotations

from embedbroker.config import Role
from embedbroker.node import BranchDecided, DecideBranch
from embedclient.model import Xid
from embedclient.wire.core import (
    HANDSHAKE,
    CreateSession,
    CreateSessionResponse,
    Packet,
    SessionSend,
    SessionStart,
    SessionXaEnd,
    SessionXaPrepare,
    SessionXaStart,
)
from tests.embedbroker.node.replicating import pair
from tests.embedbroker.node.test_replicated_work import Steps
from tests.simulation.store_group import Writer, _letter

XID = Xid(7, b"branch", b"transaction")
NUMBER = 77_777


class Preparer(Writer):
    """Sends one message in a branch and prepares it."""

    def on_dialed(self, connection: int, link: object) -> None:
        self._link = link  # type: ignore[assignment]
        link.send(self, HANDSHAKE)  # type: ignore[attr-defined]
        self._send(CreateSession("xa", 10, 136, None, None, 102_400, True, False, False, -1, False, None), 1)

    def _on_packet(self, packet: Packet) -> None:
        if isinstance(packet, CreateSessionResponse):
            message = SessionSend(_letter(NUMBER), True, -7)
            for each in (SessionStart(), SessionXaStart(XID), message, SessionXaEnd(XID), SessionXaPrepare(XID)):
                self._send(each)


def test_a_decision_that_the_backup_does_not_have_is_not_answered_by_a_broker_that_stops() -> None:
    """1. The backup is lost, and nobody says that this broker may go on alone. 2. Its owner commits a branch.
    3. The broker is stopped, and its backup takes over, where the branch is still prepared."""
    brokers, _writer = pair(lease_s=60.0)
    assert brokers.manager is not None
    key = brokers.node("p").node_id
    Preparer(brokers.network, ("p",))
    brokers.run(1.0)
    brokers.manager.reachable = False
    brokers.part("p", "q")
    brokers.until(lambda: "nothing is confirmed until" in brokers.said("p"))
    steps = Steps(brokers.node("p"))
    brokers.hosts["p"].step(DecideBranch(1, XID, True))
    brokers.run(0.2)
    brokers.hosts["p"].stop()
    brokers.run(0.2)
    brokers.manager.reachable = True
    brokers.manager.revoke(key)
    brokers.until_role("q", Role.LIVE)
    assert NUMBER not in brokers.kept("q")
    assert not [each for outputs in steps.outputs for each in outputs if isinstance(each, BranchDecided)]
