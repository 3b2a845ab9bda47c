"""Settings of one session factory with Artemis' defaults (core-protocol 10.1, 10.2), and the flags of session modes.

Responsible for values and their limits. Refuses to know URLs: the edge maps names to these fields.
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
    """Settings of one session factory. Times are milliseconds, sizes bytes, -1 means off or unlimited.

    Raises:
        TypeError: a value is not of the type that its setting has; the text names both.
        ValueError: a number is outside of what its setting allows; the text names that, too.
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
        """The pause between two pings: the check period, but at most half of the connection TTL. -1 is never."""
        return ping_period_ms(self.client_failure_check_period_ms, self.connection_ttl_ms)

    @property
    def longest_retry_interval_ms(self) -> int:
        """Up to where the pause between attempts grows."""
        return max(self.retry_interval_ms, self.max_retry_interval_ms)

    def misfits(self) -> list[str]:
        """Return a warning for each pair of settings that do not fit together: both, what is done, what to change."""
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
        """Whether a lost connection is made again at all."""
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
    """What CREATESESSION says about a session, and what stays on this side."""

    auto_commit_sends: bool = True
    auto_commit_acks: bool = True
    pre_acknowledge: bool = False
    ack_batch_size: int = field(default=1024 * 1024, validator=whole(0))
    xa: bool = False
    mode: SessionMode | None = None

    @property
    def transactional(self) -> bool:
        """Whether work of this session waits for a commit, so that it is lost with the session."""
        return not (self.auto_commit_sends and self.auto_commit_acks)


def flags_of_xa(settings: LocatorSettings) -> SessionFlags:
    """An XA session is a transacted one whose transactions somebody else ends."""
    return evolve(flags_of_mode(SessionMode.TRANSACTED, settings), xa=True)


def flags_of_mode(mode: SessionMode, settings: LocatorSettings) -> SessionFlags:
    """The table of core-protocol 9.5."""
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
