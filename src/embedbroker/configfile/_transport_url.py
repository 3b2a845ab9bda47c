"""The URLs of acceptors and connectors: ``tcp://host:port?name=value;name=value``.

Responsible for their grammar and for which parameters Artemis knows, so that a typing error is told from one that has
no effect here. Refuses to know what a parameter does.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from attrs import frozen

from embedclient.model import did_you_mean

from ._values import WrongValue

__all__ = ["ACCEPTOR_PARAMETERS", "CONNECTOR_PARAMETERS", "TransportURL", "parse_transport_url"]

DEFAULT_PORT = 61616

_BOTH = """
    scheme host port sslEnabled keyStoreProvider keyStoreType keyStorePath keyStorePassword keyStoreAlias
    trustStoreProvider trustStoreType trustStorePath trustStorePassword crlPath enabledCipherSuites enabledProtocols
    verifyHost sniHost sslProvider trustManagerFactoryPlugin maskPassword passwordCodec httpUpgradeEnabled useNio
    useEpoll useKQueue tcpNoDelay tcpSendBufferSize tcpReceiveBufferSize writeBufferLowWaterMark
    writeBufferHighWaterMark nioRemotingThreads remotingThreads batchDelay handshake-timeout
"""
ACCEPTOR_PARAMETERS = frozenset(
    f"""
    {_BOTH} sslAutoReload needClientAuth wantClientAuth protocol protocols anycastPrefix multicastPrefix securityDomain
    useInvm directDeliver clusterConnection backlog connectionTtl connectionTtlMin connectionTtlMax
    heartBeatToConnectionTtlModifier connectionsAllowed shutdownTimeout quietPeriod autoStart router
    proxyProtocolEnabled httpResponseTime httpServerScanPeriod stompConsumerCredits stompConsumerWindowSize
    stompMinLargeMessageSize stomp-min-large-message-size stompEnableMessageId stomp-enable-message-id
    stompMaxFramePayloadLength disableStompServerHeader webSocketMaxFramePayloadLength webSocketEncoderType
    webSocketCompressionSupported amqpCredits amqpLowCredits amqpMinLargeMessageSize amqpDuplicateDetection
    amqpIdleTimeout amqpUseModifiedForTransientDeliveryErrors amqpTreatRejectAsUnmodifiedDeliveryFailed
    amqpDrainOnTransientDeliveryErrors amqpLinkQuiesceTimeout ackManagerFlushTimeout mirrorMaxPendingAcks pubSubPrefix
    maxFrameSize initialRemoteMaxFrameSize saslMechanisms saslLoginConfigScope defaultMqttSessionExpiryInterval
    topicAliasMaximum receiveMaximum maximumPacketSize serverKeepAlive
    closeMqttConnectionOnPublishAuthorizationFailure allowLinkStealing defaultMaximumInFlightPublishMessages
    openwireMaxPacketChunkSize openwireUseDuplicateDetectionOnFailover actorThresholdBytes rebalanceClusterClients
    updateClusterClients updateClusterClientsOnRemove brokerName useKeepAlive maxInactivityDuration
    maxInactivityDurationInitalDelay supportAdvisory suppressInternalManagementObjects openWireDestinationCacheSize
    virtualTopicConsumerWildcards virtualTopicConsumerLruCacheMax
""".split()
)
CONNECTOR_PARAMETERS = frozenset(
    f"""
    {_BOTH} activemqServerName httpEnabled httpClientIdleTime httpClientIdleScanPeriod httpRequiresSessionId
    httpUpgradeEndpoint useServlet servletPath useNioGlobalWorkerPool useGlobalWorkerPool localAddress localPort
    trustAll forceSSLParameters useDefaultSslContext socksEnabled socksHost socksPort socksVersion socksUsername
    socksPassword socksRemoteDNS connect-timeout-millis
""".split()
)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[^?#]*)(?:\?(?P<query>[^#]*))?", re.DOTALL)
# Leading zeros are fine; Python refuses to count thousands of digits.
_DIGITS = re.compile(r"[0-9]{1,30}", re.ASCII)


@frozen
class TransportURL:
    """One URL. ``host`` of a ``vm`` URL is the broker's name, and its port means nothing."""

    scheme: str
    host: str
    port: int
    parameters: dict[str, str]


def parse_transport_url(text: str, known: frozenset[str]) -> TransportURL:
    """Read one URL; raises WrongValue, which shows no parameter's value: one may be a password."""
    matched = _URL.fullmatch(text)
    if matched is None:
        raise WrongValue("is no URL of one broker such as tcp://host:61616?name=value;name=value")
    scheme = matched["scheme"].lower()
    if scheme not in ("tcp", "vm"):
        raise WrongValue(f"has the scheme {scheme!r}; tcp:// and vm:// are known")
    parameters = _parameters(matched["query"] or "", known)
    place = matched["place"].rstrip("/")
    if scheme == "vm":
        if not place:
            raise WrongValue("has no name; write vm://name")
        return TransportURL(scheme, unquote(place), DEFAULT_PORT, parameters)
    host, port = _host_and_port(place)
    host = parameters.pop("host", host)
    if not host:
        raise WrongValue("has an empty host")
    return TransportURL(scheme, host, _port(parameters.pop("port", port)), parameters)


def _parameters(query: str, known: frozenset[str]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for item in re.split("[&;]", query):
        if not item.strip():
            continue
        name, separator, value = (part.strip() for part in item.partition("="))
        name = unquote(name)
        if name not in known:
            raise WrongValue(f"has an unknown parameter {name!r}{did_you_mean(name, known)}")
        if not separator:
            raise WrongValue(f"has a parameter {name!r} without a value")
        if name in parameters:
            raise WrongValue(f"has the parameter {name!r} twice")
        parameters[name] = unquote(value)
    return parameters


def _host_and_port(place: str) -> tuple[str, str]:
    if "@" in place or "," in place:
        raise WrongValue(f"has {place!r} where one host and port are expected")
    if place.startswith("["):
        host, closed, rest = place[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise WrongValue("has a wrong IPv6 address; write tcp://[::1]:61616")
        return host, rest[1:] or str(DEFAULT_PORT)
    if place.count(":") > 1:
        raise WrongValue("has an IPv6 address without brackets; write tcp://[::1]:61616")
    host, _, port = place.partition(":")
    return unquote(host) or "localhost", port or str(DEFAULT_PORT)


def _port(text: str) -> int:
    if not _DIGITS.fullmatch(text) or int(text) > 65_535:
        raise WrongValue(f"has the port {text!r}, which is no number from 0 to 65535")
    return int(text)
