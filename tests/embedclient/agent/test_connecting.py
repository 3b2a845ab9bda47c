"""First connections, with a broker that is scripted packet by packet."""

from __future__ import annotations

import gc
from itertools import chain

from embedclient.agent import (
    Agent,
    AgentState,
    BytesReceived,
    CloseConnection,
    Dial,
    Dialed,
    DialFailed,
    FirstElementPolicy,
    LocatorSettings,
    Output,
    PeerClosed,
    RoundRobinPolicy,
    SendBytes,
    SessionMode,
    Tick,
    Written,
)
from embedclient.errors import ErrorCode
from embedclient.model import IN_VM_CONNECTOR_FACTORY, Instant, TransportConfiguration
from embedclient.wire.core import (
    HANDSHAKE,
    ClusterTopologyV4,
    CreateSession,
    CreateSessionResponse,
    CreateSessionV2,
    DisconnectV3,
    ExceptionResponse,
    FrameSplitter,
    Packet,
    Ping,
    SubscribeTopologyV2,
    decode_packet,
    encode_packet,
    frame_spans,
)
from tests.embedclient.agent.node_pair import SeededEntropy, text_message

A = TransportConfiguration("a", parameters={"host": "a", "port": 1})
B = TransportConfiguration("b", parameters={"host": "b", "port": 2})
TOPOLOGY = ClusterTopologyV4(False, "node", 1, None, None, True, None, None, 136)


def at(seconds: float) -> Instant:
    return Instant(seconds, 0)


def frame(packet: Packet, channel_id: int = 0) -> bytes:
    return encode_packet(packet, channel_id, 136)


def packets_of(outputs: list[Output]) -> list[Packet]:
    data = b"".join(output.data for output in outputs if isinstance(output, SendBytes)).removeprefix(HANDSHAKE)
    buffer, headers = FrameSplitter().feed(data)
    return [decode_packet(buffer, start, end, 136, from_client=True) for start, end in frame_spans(headers)]


def make_agent(*connectors: TransportConfiguration, settings: LocatorSettings | None = None) -> Agent:
    return Agent(settings or LocatorSettings(), connectors or (A,), FirstElementPolicy(), SeededEntropy(1))


def test_a_connector_may_have_its_own_connect_timeout() -> None:
    own = TransportConfiguration("a", parameters={"host": "a", "port": 1, "connect-timeout-millis": 70})
    agent = make_agent(own, B, settings=LocatorSettings(connect_timeout_ms=900))
    agent.connect()
    assert agent.take_outputs(at(0)) == [Dial(1, own, 0.07)]
    other = make_agent(B, own, settings=LocatorSettings(connect_timeout_ms=900))
    other.connect()
    assert other.take_outputs(at(0)) == [Dial(1, B, 0.9)]


def test_the_opening_says_handshake_ping_and_subscription_in_one_write() -> None:
    agent = make_agent()
    call = agent.connect()
    (dial,) = agent.take_outputs(at(0))
    assert dial == Dial(1, A, 60.0)
    (sent,) = agent.step(Dialed(1), at(0))
    assert isinstance(sent, SendBytes)
    assert sent.data.startswith(HANDSHAKE)
    assert packets_of([sent]) == [Ping(60000), SubscribeTopologyV2(False, 136)]
    assert not call.done
    agent.step(BytesReceived(1, frame(TOPOLOGY)), at(0))
    call.value()
    assert (agent.state, agent.node_id, agent.server_version) == (AgentState.CONNECTED, "node", 136)


def test_requests_for_sessions_leave_together() -> None:
    agent = make_agent()
    first, second = agent.create_session(), agent.create_session()
    agent.take_outputs(at(0))
    agent.step(Dialed(1), at(0))
    requests = packets_of(agent.step(BytesReceived(1, frame(TOPOLOGY)), at(0)))
    assert [type(packet) for packet in requests] == [CreateSessionV2] * 2
    refusal = ExceptionResponse(int(ErrorCode.INCOMPATIBLE_CLIENT_SERVER_VERSIONS), "too new")
    # Both were refused for one version: each is offered the version before, behind what is in front of it.
    again = packets_of(agent.step(BytesReceived(1, frame(refusal, 1) * 2), at(0)))
    assert [packet.version for packet in again if isinstance(packet, CreateSessionV2)] == [135, 135]
    agent.step(BytesReceived(1, frame(CreateSessionResponse(135), 1)), at(0))
    assert first.done and not second.done
    agent.step(BytesReceived(1, frame(CreateSessionResponse(135), 1)), at(0))
    assert [session.channel.version for session in agent.sessions] == [135, 135]
    assert second.result is agent.sessions[1]


def test_inside_one_process_there_is_no_handshake() -> None:
    agent = make_agent(TransportConfiguration("vm", factory=IN_VM_CONNECTOR_FACTORY, parameters={"serverId": 0}))
    agent.connect()
    agent.take_outputs(at(0))
    (sent,) = agent.step(Dialed(1), at(0))
    assert isinstance(sent, SendBytes)
    assert not sent.data.startswith(HANDSHAKE)


def test_each_connector_gets_its_attempts_and_the_last_reason_is_told() -> None:
    settings = LocatorSettings(initial_connect_attempts=2, retry_interval_ms=1000)
    agent = Agent(settings, [A, B], RoundRobinPolicy(SeededEntropy(3)), SeededEntropy(1))
    call = agent.connect()
    dialed = []
    seconds = 0.0
    outputs = agent.take_outputs(at(seconds))
    while not call.done:
        if not outputs:
            seconds = agent.next_deadline() or 0
            outputs = agent.step(Tick(), at(seconds))
        dial = next(output for output in outputs if isinstance(output, Dial))
        dialed.append((dial.connector.name, seconds))
        outputs = agent.step(DialFailed(dial.connection, "connection refused"), at(seconds))
        outputs = [output for output in outputs if isinstance(output, Dial)]
    assert sorted(dialed) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert call.error is not None
    assert call.error.error_code == ErrorCode.NOT_CONNECTED
    assert "connection refused" in str(call.error)
    assert agent.state is AgentState.IDLE


def test_a_broker_that_never_tells_its_topology_times_out() -> None:
    agent = make_agent()
    call = agent.connect()
    agent.take_outputs(at(0))
    agent.step(Dialed(1), at(0))
    assert agent.next_deadline() == 30
    outputs = agent.step(Tick(), at(30))
    assert [type(output) for output in outputs] == [CloseConnection]
    assert call.error is not None
    assert call.error.error_code == ErrorCode.CONNECTION_TIMEDOUT


def test_garbage_from_the_broker_fails_the_connection_and_nothing_more() -> None:
    agent = make_agent()
    call = agent.connect()
    agent.take_outputs(at(0))
    agent.step(Dialed(1), at(0))
    outputs = agent.step(BytesReceived(1, b"HTTP/1.1 400 Bad Request\r\n"), at(0))
    assert [type(output) for output in outputs] == [CloseConnection]
    assert call.error is not None
    assert call.error.error_code == ErrorCode.NOT_CONNECTED


def test_inputs_about_a_connection_that_is_gone_are_ignored() -> None:
    agent = make_agent()
    agent.connect()
    agent.take_outputs(at(0))
    agent.step(DialFailed(1, "no"), at(0))
    for late in (Dialed(1), BytesReceived(1, b"x"), Written(1, 5), PeerClosed(1, "late")):
        assert agent.step(late, at(0)) == []


def test_the_output_is_announced_once_until_it_is_taken() -> None:
    agent = make_agent()
    announced: list[None] = []
    agent.on_output = lambda: announced.append(None)
    agent.connect()
    agent.connect()
    assert len(announced) == 1
    agent.take_outputs(at(0))
    agent.step(Dialed(1), at(0))
    agent.step(BytesReceived(1, frame(TOPOLOGY)), at(0))
    assert len(announced) == 1
    agent.create_session_for(SessionMode.AUTO)
    assert len(announced) == 2
    assert agent.pending_bytes > 0


def test_a_request_that_waits_for_the_failover_is_announced_although_it_sends_nothing() -> None:
    """Nothing else would arm a timer for it: the next attempt to connect may be far away."""
    settings = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=600_000, max_retry_interval_ms=600_000)
    agent = make_agent(settings=settings)
    created = agent.create_session_for(SessionMode.AUTO)
    agent.take_outputs(at(0))
    agent.step(Dialed(1), at(0))
    agent.step(BytesReceived(1, frame(TOPOLOGY)), at(0))
    agent.step(BytesReceived(1, frame(CreateSessionResponse(136), 1)), at(0))
    agent.step(PeerClosed(1, "lost"), at(0))
    agent.step(DialFailed(2, "refused"), at(0))
    announced: list[None] = []
    agent.on_output = lambda: announced.append(None)
    for request in (
        lambda: created.value().addressing.query_queue("q"),
        lambda: agent.create_session_for(SessionMode.AUTO),
    ):
        call = request()
        assert len(announced) == 1
        announced.clear()
        agent.take_outputs(at(100))
        assert agent.next_deadline() == 130
        agent.step(Tick(), at(130))
        assert call.error is not None and call.error.error_code == ErrorCode.CONNECTION_TIMEDOUT


def test_a_send_that_waits_for_its_rate_is_announced_although_it_sends_nothing() -> None:
    agent = make_agent(settings=LocatorSettings(producer_max_rate=1, producer_window_size=-1))
    created = agent.create_session_for(SessionMode.AUTO)
    agent.take_outputs(at(0))
    agent.step(Dialed(1), at(0))
    agent.step(BytesReceived(1, frame(TOPOLOGY)), at(0))
    agent.step(BytesReceived(1, frame(CreateSessionResponse(136), 1)), at(0))
    producer = created.value().create_producer("q")
    message = text_message("one", "q", durable=False)
    first = producer.send(message)
    agent.take_outputs(at(0))
    assert first.done
    announced: list[None] = []
    agent.on_output = lambda: announced.append(None)
    send = producer.send(message)
    assert announced and not send.done
    agent.take_outputs(at(0.5))
    assert agent.next_deadline() == 1
    agent.step(Tick(), at(1))
    assert send.done


def test_back_pressure_holds_senders_until_the_socket_has_taken_enough() -> None:
    settings = LocatorSettings(send_high_water_bytes=1000, producer_window_size=-1)
    agent = make_agent(settings=settings)
    call = agent.create_session_for(SessionMode.AUTO)
    agent.take_outputs(at(0))
    outputs = agent.step(Dialed(1), at(0))
    outputs += agent.step(BytesReceived(1, frame(TOPOLOGY)), at(0))
    outputs += agent.step(BytesReceived(1, frame(CreateSessionResponse(136), 1)), at(0))
    written = sum(len(output.data) for output in outputs if isinstance(output, SendBytes))
    agent.step(Written(1, written), at(0))
    session = call.value()
    producer = session.create_producer("q")
    message = text_message("x" * 300, "q", durable=False)
    sends = [producer.send(message) for _ in range(4)]
    assert [send.done for send in sends] == [True, False, False, False]
    (sent,) = agent.take_outputs(at(0))
    assert isinstance(sent, SendBytes)
    agent.step(Written(1, 500), at(0))
    assert not sends[1].done
    agent.step(Written(1, len(sent.data) - 500), at(0))
    assert all(send.done for send in sends)


def test_a_redirected_client_goes_to_the_named_broker_and_gets_its_session_there() -> None:
    agent = make_agent()
    call = agent.create_session_for(SessionMode.AUTO)
    agent.take_outputs(at(0))
    agent.step(Dialed(1), at(0))
    outputs = agent.step(BytesReceived(1, frame(TOPOLOGY)), at(0))
    assert [type(packet) for packet in packets_of(outputs)] == [CreateSessionV2]
    redirect = DisconnectV3("node", 0, "other", B)
    outputs = agent.step(BytesReceived(1, frame(redirect)), at(0))
    assert [output for output in outputs if isinstance(output, Dial)] == [Dial(2, B, 60.0)]
    outputs = agent.step(Dialed(2), at(0))
    assert [type(packet) for packet in packets_of(outputs)] == [Ping, SubscribeTopologyV2, CreateSessionV2]
    agent.step(BytesReceived(2, frame(CreateSessionResponse(136), 1)), at(0))
    assert call.done
    assert agent.connector == B


def test_an_early_request_may_be_redirected_before_the_topology_comes() -> None:
    agent = make_agent()
    call = agent.create_session(early=True)
    agent.take_outputs(at(0))
    requests = packets_of(agent.step(Dialed(1), at(0)))
    assert [type(packet) for packet in requests] == [Ping, SubscribeTopologyV2, CreateSession]
    redirect = DisconnectV3("node", 0, "other", B)
    outputs = agent.step(BytesReceived(1, frame(redirect)), at(0))
    assert [output for output in outputs if isinstance(output, Dial)] == [Dial(2, B, 60.0)]
    requests = packets_of(agent.step(Dialed(2), at(0)))
    assert [type(packet) for packet in requests] == [Ping, SubscribeTopologyV2, CreateSession]
    agent.step(BytesReceived(2, frame(CreateSessionResponse(136), 1) + frame(TOPOLOGY)), at(0))
    assert (call.result, agent.connector) == (agent.sessions[0], B)


def test_redirects_before_the_topology_leave_nothing_behind() -> None:
    """As iterators in iterators they would end the process, by the depth of its stack, after some 100,000."""
    agent = make_agent()
    agent.create_session(auto_commit_sends=True, auto_commit_acks=True, early=True)
    agent.take_outputs(at(0))
    redirect, depths = frame(DisconnectV3("node", 0, "other", B)), list[int]()
    for number in range(1, 41):
        agent.step(Dialed(number), at(0))
        assert Dial(number + 1, B, 60.0) in agent.step(BytesReceived(number, redirect), at(0))
        depths.append(sum(isinstance(each, chain) for each in gc.get_objects()))
    assert depths[-1] <= depths[0]
