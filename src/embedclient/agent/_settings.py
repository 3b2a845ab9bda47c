"""Settings of one session factory with Artemis' defaults (core-protocol 10.1, 10.2), and the flags of session modes.

Responsible for values and their limits. Does not depend on URLs: the edge maps names to these fields.
"""

import re
from enum import IntEnum

from attrs import evolve, field, frozen

from embedclient.model import Check, TransportConfiguration, instance, number, optional, ping_period_ms, whole

DEFAULT_CONSUMER_WINDOW_SIZE = 1024 * 1024
CONNECT_TIMEOUT = "connect-timeout-millis"
VERSION_MAX = 136
VERSION_MIN = 126


# The Java client holds these in an int or a long, and some of them travel as such.
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_MILLISECONDS = re.compile(r"-1|[0-9]{1,18}", re.ASCII)


_truth: Check = instance(bool)


def _whole(default: int, least: int, most: int = _INT_MAX) -> int:
    value: int = field(default=default, validator=whole(least, most))
    return value


def _milliseconds(default: int, least: int) -> int:
    return _whole(default, least, _LONG_MAX)


def _flag(default: bool) -> bool:
    value: bool = field(default=default, validator=_truth)
    return value


@frozen(kw_only=True)
class LocatorSettings:
    """A session factory's settings. Times are milliseconds, sizes bytes, -1 means off or unlimited.

    Args:
        call_timeout_ms: wait for the broker's answer to a call, at least 1.
        call_failover_timeout_ms: wait of a call for a lost connection to come back; -1 for no limit.
        client_failure_check_period_ms: pause between pings, at most half of the TTL; -1 with a TTL of -1 for none.
        connection_ttl_ms: silence after which either side gives the connection up; -1 for never.
        connect_timeout_ms: limit of one dial; -1 for the limit of `connect_timeout_s`.
        initial_connect_attempts: attempts of a first connection per connector; -1 for no limit.
        reconnect_attempts: rounds over the servers that may have the sessions; -1 for no limit, 0 for none.
        failover_attempts: rounds over all connectors after that; -1 for no limit, 0 for none.
        retry_interval_ms: pause between rounds, at least 0.
        retry_interval_multiplier: factor of the pause from one round to the next, at least 0.
        max_retry_interval_ms: longest pause, at least 0.
        ha: connectors may be backups of each other.
        use_topology_for_load_balancing: `failover_attempts` goes over the announced servers, if there are any.
        consumer_window_size: bytes sent ahead to a consumer; 0 for one message at a time, -1 for no limit.
        consumer_max_rate: messages per second that a consumer gives out; -1 for no limit.
        producer_window_size: bytes of credit that a producer requests at a time; -1 for no credits.
        producer_max_rate: messages per second that a producer sends; -1 for no limit.
        confirmation_window_size: bytes after which the broker confirms; -1 for never, and no reattachment.
        min_large_message_size: bytes, at least 1; chunks of large messages have this size. Longer bodies are sent so.
        max_large_message_body_size: bytes of a large message's body that a receive loads; -1 for no limit, 0 for none.
        compress_large_message: bodies of large messages are sent compressed.
        compression_level: -1 to 9; -1 leaves it to zlib.
        cache_large_messages_client: without effect.
        block_on_acknowledge: acknowledgements wait for the broker's answer.
        block_on_durable_send: sends of durable messages wait for the broker's answer.
        block_on_non_durable_send: sends of other messages wait for the broker's answer.
        pre_acknowledge: the broker acknowledges for all sessions, before it sends.
        ack_batch_size: bytes of messages for one acknowledgement in the mode CLIENT, at least 0.
        auto_group: each producer sets a JMSXGroupID, unless `group_id` gives one.
        group_id: JMSXGroupID of all messages; None leaves it out.
        initial_message_packet_size: bytes, at least 0; without effect.
        on_message_close_timeout_ms: wait of a close or stop for a running listener; -1 to 2^31-1.
        dups_ok_batch_size: like `ack_batch_size`, in the mode DUPS_OK.
        transaction_batch_size: like `ack_batch_size`, in transactions.
        client_version: newest version of the protocol that is offered, 126 to 136.
        frame_size_bytes_max: longest frame that is accepted, at least 1024.
        send_high_water_bytes: bytes that may wait for the socket, at least 1.
        resend_bytes_max: bytes that a session keeps for sending again, at least 1.
        pending_requests_max: entries of a session that may wait to leave, at least 1.

    Raises:
        TypeError: a value is not of the type that its setting has; the text names both.
        ValueError: a number is outside the range of its setting; the text names that, too.
    """

    call_timeout_ms: int = _milliseconds(30000, 1)
    call_failover_timeout_ms: int = _milliseconds(30000, -1)
    client_failure_check_period_ms: int = _milliseconds(30000, -1)
    connection_ttl_ms: int = _milliseconds(60000, -1)
    connect_timeout_ms: int = _milliseconds(-1, -1)
    initial_connect_attempts: int = _whole(1, -1)
    reconnect_attempts: int = _whole(0, -1)
    failover_attempts: int = _whole(0, -1)
    retry_interval_ms: int = _milliseconds(2000, 0)
    retry_interval_multiplier: float = field(default=1.0, validator=number(0))
    max_retry_interval_ms: int = _milliseconds(2000, 0)
    ha: bool = _flag(False)
    use_topology_for_load_balancing: bool = _flag(True)

    consumer_window_size: int = _whole(DEFAULT_CONSUMER_WINDOW_SIZE, -1)
    consumer_max_rate: int = _whole(-1, -1)
    producer_window_size: int = _whole(65536, -1)
    producer_max_rate: int = _whole(-1, -1)
    confirmation_window_size: int = _whole(-1, -1)
    min_large_message_size: int = _whole(102400, 1)
    max_large_message_body_size: int = _whole(64 * 1024 * 1024, -1)
    compress_large_message: bool = _flag(False)
    compression_level: int = _whole(-1, -1, 9)
    cache_large_messages_client: bool = _flag(False)
    block_on_acknowledge: bool = _flag(False)
    block_on_durable_send: bool = _flag(True)
    block_on_non_durable_send: bool = _flag(False)
    pre_acknowledge: bool = _flag(False)
    ack_batch_size: int = _whole(1024 * 1024, 0)
    auto_group: bool = _flag(False)
    group_id: str | None = field(default=None, validator=optional(instance(str)))
    initial_message_packet_size: int = _whole(1500, 0)
    on_message_close_timeout_ms: int = _whole(10000, -1)
    dups_ok_batch_size: int = _whole(1024 * 1024, 0)
    transaction_batch_size: int = _whole(1024 * 1024, 0)

    client_version: int = _whole(VERSION_MAX, VERSION_MIN, VERSION_MAX)
    frame_size_bytes_max: int = _whole(100 * 1024 * 1024, 1024)
    send_high_water_bytes: int = _whole(1024 * 1024, 1)
    resend_bytes_max: int = _whole(256 * 1024 * 1024, 1)
    pending_requests_max: int = _whole(65536, 1)

    def connect_timeout_s(self, connector: TransportConfiguration) -> float:
        """Return the seconds that one dial of `connector` may take.

        The connector's parameter `connect-timeout-millis` replaces `connect_timeout_ms`. Where that is -1, the time
        is the connection TTL, and without one the call time-out.

        Args:
            connector: the connector that is dialled; its parameter ``connect-timeout-millis`` takes precedence.
        """
        own = str(connector.parameters.get(CONNECT_TIMEOUT, ""))
        # A connector that a peer announces has its parameters as text, and perhaps no number.
        timeout_ms = int(own) if _MILLISECONDS.fullmatch(own) else self.connect_timeout_ms
        for milliseconds in (timeout_ms, self.connection_ttl_ms):
            if milliseconds >= 0:
                return milliseconds / 1000
        return self.call_timeout_ms / 1000

    @property
    def ping_period_ms(self) -> int:
        """Return the pause between two pings: the check period, but at most half of the connection TTL. -1 is never."""
        return ping_period_ms(self.client_failure_check_period_ms, self.connection_ttl_ms)

    @property
    def longest_retry_interval_ms(self) -> int:
        """Return the upper limit of the growing pause between attempts."""
        return max(self.retry_interval_ms, self.max_retry_interval_ms)

    def misfits(self) -> list[str]:
        """Return a warning for each pair of settings that do not fit together: both, the effect, and the remedy."""
        found = []
        check_ms, ping_ms = self.client_failure_check_period_ms, self.ping_period_ms
        if ping_ms != check_ms:
            found.append(
                f"clientFailureCheckPeriod={check_ms} is not within half of connectionTTL={self.connection_ttl_ms}, so"
                f" a quiet connection would be lost each time: this client pings every {ping_ms} ms; set"
                f" clientFailureCheckPeriod to {ping_ms} or less, or connectionTTL to twice the period"
            )
        if self.retry_interval_ms > self.max_retry_interval_ms:
            found.append(
                f"retryInterval={self.retry_interval_ms} is above maxRetryInterval={self.max_retry_interval_ms}: this"
                f" client tries again every {self.retry_interval_ms} ms; raise maxRetryInterval"
            )
        if self.confirmation_window_size > self.resend_bytes_max:
            found.append(
                f"confirmationWindowSize={self.confirmation_window_size} is above resend_bytes_max="
                f"{self.resend_bytes_max}: sends wait for the broker's periodic confirmations; raise resend_bytes_max"
                " or lower confirmationWindowSize"
            )
        return found

    @property
    def reconnects(self) -> bool:
        """Return True if a lost connection is made again at all."""
        return self.reconnect_attempts != 0 or self.failover_attempts != 0


class SessionMode(IntEnum):
    """Acknowledge modes, numbered as in JMS and Artemis."""

    TRANSACTED = 0
    AUTO = 1
    CLIENT = 2
    DUPS_OK = 3
    PRE = 100
    INDIVIDUAL = 101


@frozen(kw_only=True)
class SessionFlags:
    """The flags of a session: those in CREATESESSION, and those that stay on this side.

    Args:
        auto_commit_sends: sends take effect without a commit.
        auto_commit_acks: acknowledgements take effect without a commit.
        pre_acknowledge: the broker acknowledges before it sends.
        ack_batch_size: bytes of messages for one acknowledgement, at least 0; 0 for no batches.
        xa: the session works in XA branches.
        mode: acknowledge mode that the flags come from; None for explicit flags.
    """

    auto_commit_sends: bool = True
    auto_commit_acks: bool = True
    pre_acknowledge: bool = False
    ack_batch_size: int = field(default=1024 * 1024, validator=whole(0))
    xa: bool = False
    mode: SessionMode | None = None

    @property
    def transactional(self) -> bool:
        """Return True if work of this session waits for a commit, so that it is lost with the session."""
        return not (self.auto_commit_sends and self.auto_commit_acks)


def flags_of_xa(settings: LocatorSettings) -> SessionFlags:
    """Return the flags of an XA session: transacted, with transactions that end from outside the session."""
    return evolve(flags_of_mode(SessionMode.TRANSACTED, settings), xa=True)


def flags_of_mode(mode: SessionMode, settings: LocatorSettings) -> SessionFlags:
    """Return the flags of a mode, from the table of core-protocol 9.5."""
    pre = settings.pre_acknowledge
    transaction_batch = settings.transaction_batch_size
    client_batch = transaction_batch if settings.block_on_acknowledge else settings.ack_batch_size
    match mode:
        case SessionMode.TRANSACTED:
            return SessionFlags(
                auto_commit_sends=False,
                auto_commit_acks=False,
                pre_acknowledge=pre,
                ack_batch_size=transaction_batch,
                mode=mode,
            )
        case SessionMode.AUTO:
            return SessionFlags(pre_acknowledge=pre, ack_batch_size=0, mode=mode)
        case SessionMode.DUPS_OK:
            return SessionFlags(pre_acknowledge=pre, ack_batch_size=settings.dups_ok_batch_size, mode=mode)
        case SessionMode.CLIENT:
            return SessionFlags(auto_commit_acks=False, pre_acknowledge=pre, ack_batch_size=client_batch, mode=mode)
        case SessionMode.PRE:
            return SessionFlags(
                auto_commit_acks=False, pre_acknowledge=True, ack_batch_size=transaction_batch, mode=mode
            )
        case SessionMode.INDIVIDUAL:
            return SessionFlags(auto_commit_acks=False, ack_batch_size=client_batch, mode=mode)
