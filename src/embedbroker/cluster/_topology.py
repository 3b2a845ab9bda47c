"""The brokers of a cluster as one of them has found them: which is active where, and its backup (cluster-and-ha 4).

Responsible for which news counts, and for informing the listeners. Does not depend on connections, packets and clocks.

Every change carries an event id, the wall time in milliseconds of the broker that made it. The rules are Artemis', with
three additions:

1. An event of this broker is newer than whatever it changes, even when its clock is behind.
2. Of a removal and an announcement with the same id the removal counts, in whichever order they arrive. Otherwise
   brokers that send each other both would never come to an end.
3. One place has one active broker, the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from attrs import evolve, frozen

from embedclient.model import TransportConfiguration

__all__ = ["Change", "Listener", "Member", "MemberDown", "MemberUp", "NewsResult", "Topology"]

# More entries than any cluster has, so that a broken peer cannot fill the memory. As many removals are remembered.
MEMBERS_MAX = 1_000
REMOVALS_MAX = 1_000
# An id has 8 bytes, with a sign. Nothing is newer than news of a broken peer with the highest one.
_EVENT_ID_MAX = (1 << 63) - 1


@frozen
class Member:
    """An active broker, its backup, or both: they share a node id.

    Args:
        node_id: The node id.
        event_id: The wall time in milliseconds of the last change, at the broker that made it.
        live: Where the active broker is; None if it is not known.
        backup: Where the backup is; None if it is not known.
        backup_group_name: The replication group of the two.
        scale_down_group_name: The scale-down group of the active broker.
    """

    node_id: str
    event_id: int
    live: TransportConfiguration | None
    backup: TransportConfiguration | None = None
    backup_group_name: str | None = None
    scale_down_group_name: str | None = None


@frozen
class MemberUp:
    """A member is new or has changed. ``last`` ends the members that a new listener receives at once."""

    member: Member
    last: bool = False


@frozen
class MemberDown:
    """The active broker of a member is gone."""

    node_id: str
    event_id: int


Change = MemberUp | MemberDown
Listener = Callable[[Change], None]


class NewsResult(Enum):
    """The result of news about a member."""

    TAKEN = "taken"
    OLD = "old"
    #: Older than the removal of that member.
    REMOVED = "removed"
    #: Another broker announces itself as active with the node id of this broker.
    RIVAL = "rival"
    #: The number of members has reached its limit.
    FULL = "full"


class Topology:
    """Hold members by node id, in the order in which they became known.

    Args:
        own_places: How others reach this broker, by all of its cluster connections.
    """

    def __init__(self, own_places: Iterable[TransportConfiguration] = ()) -> None:
        self._own_places = tuple(own_places)
        self.members: dict[str, Member] = {}
        #: Number of changes so far.
        self.changes = 0
        self._removals: dict[str, int] = {}
        self._listeners: dict[Listener, None] = {}
        # The node id for which this broker is active: no other broker may be, and none may remove it.
        self._own: str | None = None

    # -- listeners -----------------------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> None:
        """Send every member to a listener now, and every change from now on."""
        for change in self.announcements():
            listener(change)
        self.follow(listener)

    def announcements(self) -> list[MemberUp]:
        """Return every member, as a new listener receives it at once."""
        count = len(self.members)
        return [MemberUp(member, number == count) for number, member in enumerate(self.members.values(), 1)]

    def follow(self, listener: Listener) -> None:
        """Send every change from now on to a listener that has the members."""
        self._listeners[listener] = None

    def forget(self, listener: Listener) -> None:
        """Remove a listener; an unknown one does no harm."""
        self._listeners.pop(listener, None)

    def _notify(self, change: Change) -> None:
        self.changes += 1
        for listener in list(self._listeners):
            listener(change)

    # -- what this broker does itself ----------------------------------------------------------------------------

    def become_live(self, member: Member) -> Member:
        """Enter this broker as active: its entry replaces all that is known of its node id, its backup too."""
        own = evolve(member, event_id=self._newer(member.node_id, member.event_id))
        # First among the members, the same order as on the wire of a broker that has just started.
        self.members = {own.node_id: own} | {key: value for key, value in self.members.items() if key != own.node_id}
        self._own = own.node_id
        self._notify(MemberUp(own))
        self._displace(own)
        return own

    def become_backup(self, node_id: str) -> None:
        """Note that this broker is not active, or not any more: another broker may announce itself for the node."""
        if self._own == node_id:
            self._own = None

    def repeat(self, node_id: str, now_ms: int) -> Member:
        """Send a member to all listeners once more, as news."""
        member = self.members[node_id]
        self.members[node_id] = member = evolve(member, event_id=self._newer(node_id, now_ms))
        self._notify(MemberUp(member))
        return member

    def put_backup(
        self, node_id: str, backup: TransportConfiguration | None, backup_group_name: str | None, now_ms: int
    ) -> NewsResult:
        """Note that a backup announced itself, or is gone (None). All else that is known of the member stays."""
        known = self.members.get(node_id)
        if known is None:
            if len(self.members) >= MEMBERS_MAX:
                return NewsResult.FULL
            member = Member(node_id, self._newer(node_id, now_ms), None, backup, backup_group_name)
        else:
            member = evolve(known, backup=backup, event_id=self._newer(node_id, now_ms))
        self.members[node_id] = member
        self._notify(MemberUp(member))
        return NewsResult.TAKEN

    def drop(self, node_id: str, now_ms: int) -> None:
        """Remove a member whose active broker this broker has seen go."""
        self.remove(node_id, self._newer(node_id, now_ms))

    def revive(self, news: Member) -> None:
        """Enter a removed member again, because this broker has seen that it is there."""
        self._store(evolve(news, event_id=self._newer(news.node_id, news.event_id)))

    def _newer(self, node_id: str, now_ms: int) -> int:
        """Return an event id for now, above all that is known of a member."""
        known = self.members.get(node_id)
        newer = max(now_ms, self._removals.get(node_id, -1) + 1, known.event_id + 1 if known is not None else 0)
        return min(newer, _EVENT_ID_MAX)

    # -- news of others ------------------------------------------------------------------------------------------

    def update(self, news: Member) -> NewsResult:
        """Handle the news of another broker about a member."""
        removed = self._removals.get(news.node_id)
        if removed is not None and 0 != news.event_id <= removed:
            return NewsResult.REMOVED
        known = self.members.get(news.node_id)
        if known is None:
            if self._is_at_own_place(news) or any(other.event_id > news.event_id for other in self._at_place_of(news)):
                return NewsResult.OLD
            if len(self.members) >= MEMBERS_MAX:
                return NewsResult.FULL
            self._store(news)
            return NewsResult.TAKEN
        if news.node_id == self._own and not self._is_of_own_place(known, news):
            # Other brokers have the entry of another cluster connection of this one.
            is_own = any(news.live is not None and news.live.leads_where(each) for each in self._own_places)
            return NewsResult.OLD if is_own else NewsResult.RIVAL
        if news.event_id > known.event_id or (known.live is None and news.live is not None):
            live = news.live or known.live
            backup = news.backup or known.backup
            if live is not None and backup is not None and live.leads_where(backup):
                # A backup that took over is not its own backup: Artemis leaves the old entry's backup standing here.
                backup = None
            self._store(evolve(news, live=live, backup=backup, event_id=max(news.event_id, known.event_id)))
            return NewsResult.TAKEN
        if (
            known.backup is None
            and news.backup is not None
            and not (known.live and known.live.leads_where(news.backup))
        ):
            # No listener is called: a broker that needs a backup requests it, and the next news carries it.
            self.members[news.node_id] = evolve(known, backup=news.backup)
        return NewsResult.OLD

    def _is_of_own_place(self, own: Member, news: Member) -> bool:
        return news.live is None or own.live is None or news.live.leads_where(own.live)

    def _store(self, member: Member) -> None:
        self.members[member.node_id] = member
        self._notify(MemberUp(member))
        self._displace(member)

    def _displace(self, member: Member) -> None:
        for former in self._at_place_of(member):
            self.remove(former.node_id, max(member.event_id, former.event_id))

    def _is_at_own_place(self, news: Member) -> bool:
        own = self.members.get(self._own) if self._own is not None else None
        return own is not None and own.live is not None and news.live is not None and own.live.leads_where(news.live)

    def _at_place_of(self, news: Member) -> list[Member]:
        """Return the other members whose active broker is announced at the place of this one.

        One of them is gone. A broker that keeps nothing has another node id each time it starts, and no other broker
        remembers the last one.
        """
        if news.live is None:
            return []
        others = [each for each in self.members.values() if each.node_id not in (news.node_id, self._own)]
        return [each for each in others if each.live is not None and each.live.leads_where(news.live)]

    def remove(self, node_id: str, event_id: int) -> bool:
        """Remove a member whose active broker is gone; return False for old news, or news about this broker itself."""
        known = self.members.get(node_id)
        if node_id == self._own or (known is not None and known.event_id > event_id):
            return False
        self._removals.pop(node_id, None)
        self._removals[node_id] = event_id
        if len(self._removals) > REMOVALS_MAX:
            del self._removals[next(iter(self._removals))]
        if known is None:
            return False
        del self.members[node_id]
        self._notify(MemberDown(node_id, event_id))
        return True

    def removal_of(self, node_id: str) -> int | None:
        """Return the event id with which a member was removed; None if it was not."""
        return self._removals.get(node_id)

    # -- queries -------------------------------------------------------------------------------------------------

    def member_at(self, connector: TransportConfiguration) -> Member | None:
        """Return the member whose active broker or backup is reached by a connector."""
        for member in self.members.values():
            for one in (member.live, member.backup):
                if one is not None and one.leads_where(connector):
                    return member
        return None
