"""The parameter names of Artemis URLs, the setting of each, and the reader of its text.

A table and its readers. Does not depend on the grammar of URLs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from embedclient.model import ACCEPTOR_PARAMETERS, TLS_PARAMETERS, TLSSettings, read_tls_parameter

Value = bool | int | float | str
Reader = Callable[[str], Value]


def read_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    raise ValueError("expected true or false")


def read_integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected a whole number") from None


def read_port(text: str) -> int:
    port = read_integer(text)
    if not 0 <= port <= 65_535:
        raise ValueError("expected a port, from 0 (any) to 65535")
    return port


def read_buffer_size(text: str) -> int:
    size = read_integer(text)
    if not -1 <= size < 2**31:
        raise ValueError("expected a number of bytes, or -1 for what the system gives")
    return size


def read_bind_port(text: str) -> int:
    port = read_integer(text)
    if not -1 <= port <= 65_535:
        raise ValueError("expected a port from 0 to 65535, or -1 for any")
    return port


def read_wait(text: str) -> int:
    milliseconds = read_integer(text)
    if not 0 <= milliseconds < 2**63:
        raise ValueError("expected a number of milliseconds, or 0 for no limit")
    return milliseconds


def read_timeout(text: str) -> int:
    milliseconds = read_integer(text)
    if not -1 <= milliseconds < 2**63:
        raise ValueError("expected a number of milliseconds, or -1 for none")
    return milliseconds


def read_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("expected a number") from None
    if not 0 < number < float("inf"):
        raise ValueError("expected a number above 0")
    return number


def read_text(text: str) -> str:
    return text


_POLICIES = ("RoundRobin", "Random", "RandomSticky", "FirstElement")


def read_policy(text: str) -> str:
    """Return a policy by its Java class name, with or without the package and the common suffix."""
    simple = text.rpartition(".")[2].removesuffix("ConnectionLoadBalancingPolicy").replace("_", "").lower()
    for policy in _POLICIES:
        if policy.lower() == simple:
            return policy
    raise ValueError("expected RoundRobin, Random, RandomSticky or FirstElement; other policies are given in Python")


FACTORY_TYPES = ("CF", "XA_CF", "QUEUE_CF", "TOPIC_CF", "QUEUE_XA_CF", "TOPIC_XA_CF")


def read_factory_type(text: str) -> str:
    if text.upper() in FACTORY_TYPES:
        return text.upper()
    raise ValueError(f"expected {', '.join(FACTORY_TYPES[:-1])} or {FACTORY_TYPES[-1]}")


# URL name -> (field of LocatorSettings, reader)
LOCATOR_PARAMETERS: dict[str, tuple[str, Reader]] = {
    "callTimeout": ("call_timeout_ms", read_integer),
    "callFailoverTimeout": ("call_failover_timeout_ms", read_integer),
    "clientFailureCheckPeriod": ("client_failure_check_period_ms", read_integer),
    "connectionTTL": ("connection_ttl_ms", read_integer),
    "initialConnectAttempts": ("initial_connect_attempts", read_integer),
    "reconnectAttempts": ("reconnect_attempts", read_integer),
    "failoverAttempts": ("failover_attempts", read_integer),
    "retryInterval": ("retry_interval_ms", read_integer),
    "retryIntervalMultiplier": ("retry_interval_multiplier", read_number),
    "maxRetryInterval": ("max_retry_interval_ms", read_integer),
    "ha": ("ha", read_boolean),
    "useTopologyForLoadBalancing": ("use_topology_for_load_balancing", read_boolean),
    "consumerWindowSize": ("consumer_window_size", read_integer),
    "consumerMaxRate": ("consumer_max_rate", read_integer),
    "producerWindowSize": ("producer_window_size", read_integer),
    "producerMaxRate": ("producer_max_rate", read_integer),
    "confirmationWindowSize": ("confirmation_window_size", read_integer),
    "minLargeMessageSize": ("min_large_message_size", read_integer),
    "maxLargeMessageBodySize": ("max_large_message_body_size", read_integer),
    "blockOnAcknowledge": ("block_on_acknowledge", read_boolean),
    "blockOnDurableSend": ("block_on_durable_send", read_boolean),
    "blockOnNonDurableSend": ("block_on_non_durable_send", read_boolean),
    "preAcknowledge": ("pre_acknowledge", read_boolean),
    "ackBatchSize": ("ack_batch_size", read_integer),
    "autoGroup": ("auto_group", read_boolean),
    "groupID": ("group_id", read_text),
    "connect-timeout-millis": ("connect_timeout_ms", read_integer),
    "dupsOKBatchSize": ("dups_ok_batch_size", read_integer),
    "transactionBatchSize": ("transaction_batch_size", read_integer),
    "compressLargeMessage": ("compress_large_message", read_boolean),
    "compressionLevel": ("compression_level", read_integer),
    "cacheLargeMessagesClient": ("cache_large_messages_client", read_boolean),
    "initialMessagePacketSize": ("initial_message_packet_size", read_integer),
    "onMessageCloseTimeout": ("on_message_close_timeout_ms", read_integer),
}

# URL name -> (field of FactorySettings, reader). With an empty field the parameter is accepted and has no effect here.
FACTORY_PARAMETERS: dict[str, tuple[str, Reader]] = {
    "connectionLoadBalancingPolicyClassName": ("policy", read_policy),
    "user": ("user", read_text),
    "password": ("password", read_text),
    "clientID": ("client_id", read_text),
    "enableSharedClientID": ("enable_shared_client_id", read_boolean),
    "type": ("type", read_factory_type),
}
_WITHOUT_CONSEQUENCE = (
    "failoverOnInitialConnection useGlobalPools threadPoolMaxSize scheduledThreadPoolMaxSize "
    "flowControlThreadPoolMaxSize ignoreJTA cacheDestinations deserializationAllowList deserializationDenyList "
    "deserializationWhiteList deserializationBlackList identity nodeID clusterConnection"
)
FACTORY_PARAMETERS |= dict.fromkeys(_WITHOUT_CONSEQUENCE.split(), ("", read_text))


def read_tls(name: str, text: str) -> bool | int | str:
    """Return the value of a parameter of TLS; errors show no values."""
    value = read_tls_parameter(name, text)
    if name == "sslEnabled":
        return bool(value)
    try:
        TLSSettings.from_parameters({name: text})
    except ValueError as error:
        raise ValueError(str(error.args[0]).replace(f"{name} must be ", "expected ")) from None
    return "" if value is None else value


# Without meaning in a client, or of Java alone.
_NO_TLS_OF_CLIENTS = {
    *("needClientAuth", "wantClientAuth", "sslContext", "useDefaultSslContext", "trustManagerFactoryPlugin")
}

TRANSPORT_PARAMETERS: dict[str, Callable[[str], bool | int | str]] = {
    "name": read_text,
    "host": read_text,
    "port": read_port,
    "localAddress": read_text,
    "localPort": read_port,
    "tcpNoDelay": read_boolean,
    "tcpSendBufferSize": read_buffer_size,
    "tcpReceiveBufferSize": read_buffer_size,
    "handshake-timeout": read_integer,
    "writeBufferLowWaterMark": read_integer,
    "writeBufferHighWaterMark": read_integer,
    "batchDelay": read_integer,
    "useGlobalWorkerPool": read_boolean,
    "useNio": read_boolean,
    "useNioGlobalWorkerPool": read_boolean,
    "remotingThreads": read_integer,
    "nioRemotingThreads": read_integer,
    "useEpoll": read_boolean,
    "useKQueue": read_boolean,
    **{name: partial(read_tls, name) for name in sorted(TLS_PARAMETERS - _NO_TLS_OF_CLIENTS)},
    # A parameter of other clients of the same brokers; Artemis' client, too, ignores it.
    "tcpKeepAlive": read_boolean,
}
# URL name -> reader, of udp:// alone. Those that Artemis has, too, and that have no effect here are listed as well.
DISCOVERY_PARAMETERS: dict[str, Callable[[str], int | str]] = {
    "localBindAddress": read_text,
    "localBindPort": read_bind_port,
    "discoveryInitialWaitTimeout": read_wait,
    "refreshTimeout": read_wait,
    "stoppingTimeout": read_wait,
    "file": read_text,
}
# Settings of all connectors that an entry of a list may override for its connector alone.
CONNECTOR_SETTINGS: dict[str, Callable[[str], bool | int | str]] = {"connect-timeout-millis": read_timeout}

# Artemis supports these and this client does not. A value without effect (`sslEnabled=false`) is accepted. Any other
# value is rejected, because to continue through the wrong proxy would be worse than an error.
_NO_CONTEXT = "contexts of Java mean nothing here; give an ssl.SSLContext as the argument tls"
_HTTP = "HTTP tunnelling is not supported by this client version"
_SOCKS = "SOCKS proxies are not supported by this client version"
_OLD_NAMES = "destination names with the prefixes of version 1.x are not supported by this client version"
_JAVA = "it names Java classes, which mean nothing here"
UNSUPPORTED: dict[str, str] = {
    "enable1xPrefixes": _OLD_NAMES,
    **dict.fromkeys(["sslContext", "useDefaultSslContext"], _NO_CONTEXT),
    "trustManagerFactoryPlugin": "it names Java classes, which mean nothing here",
    **dict.fromkeys(
        [
            "httpEnabled",
            "httpClientIdleTime",
            "httpClientIdleScanPeriod",
            "httpRequiresSessionId",
            "useServlet",
            "servletPath",
            "httpUpgradeEnabled",
            "httpUpgradeEndpoint",
            "activemqServerName",
        ],
        _HTTP,
    ),
    **dict.fromkeys(
        ["socksEnabled", "socksHost", "socksPort", "socksVersion", "socksUsername", "socksPassword", "socksRemoteDNS"],
        _SOCKS,
    ),
    **dict.fromkeys(
        ["incomingInterceptorList", "outgoingInterceptorList", "passwordCodec", "protocolManagerFactoryStr"], _JAVA
    ),
    "maskPassword": "masked passwords are not supported by this client version",
}
VM_PARAMETERS: dict[str, Callable[[str], bool | int | str]] = {
    "connectionsAllowed": read_integer,
    "securityDomain": read_text,
}

# URLs are often copied from an acceptor; Artemis' client ignores these.
ACCEPTOR_ONLY = ACCEPTOR_PARAMETERS.difference(
    LOCATOR_PARAMETERS, FACTORY_PARAMETERS, TRANSPORT_PARAMETERS, VM_PARAMETERS, UNSUPPORTED
)

SYNONYMS = {"HA": "ha", "clientId": "clientID", "groupId": "groupID", "userName": "user", "username": "user"}
SYNONYMS["compressLargeMessages"] = "compressLargeMessage"
# One page of Artemis' manual has the short name.
SYNONYMS["loadBalancingPolicyClassName"] = "connectionLoadBalancingPolicyClassName"
