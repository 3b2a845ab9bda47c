"""The names of parameters that Artemis reads in the URLs of acceptors and connectors.

Responsible for the names only: they distinguish a typing error from a parameter that has no effect here. Artemis
ignores every other name.
"""

from __future__ import annotations

__all__ = ["ACCEPTOR_PARAMETERS", "CONNECTOR_PARAMETERS", "TLS_PARAMETERS"]

_BOTH = """
    scheme host port sslEnabled sslContext keyStoreProvider keyStoreType keyStorePath keyStorePassword keyStoreAlias
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
# Parameters of encryption, and of the peers that a broker or client trusts.
TLS_PARAMETERS = frozenset(
    [
        *("sslEnabled", "sslProvider", "sslAutoReload", "sslContext", "useDefaultSslContext", "forceSSLParameters"),
        *("keyStoreProvider", "keyStoreType", "keyStorePath", "keyStorePassword", "keyStoreAlias"),
        *("trustStoreProvider", "trustStoreType", "trustStorePath", "trustStorePassword", "trustManagerFactoryPlugin"),
        *("crlPath", "enabledCipherSuites", "enabledProtocols", "needClientAuth", "wantClientAuth", "verifyHost"),
        *("trustAll", "sniHost"),
    ]
)
