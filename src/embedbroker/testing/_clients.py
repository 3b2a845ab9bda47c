"""A simulated client: one host that drives the real client agent over the simulated network, and runs its scripts.

It is the counterpart of the client's trio edge: it moves bytes and outputs and arms one timer. Scripts contain the
behaviour of users; the agent decides on its own behaviour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from embedclient.agent import (
    Agent,
    AgentState,
    BytesReceived,
    CloseConnection,
    Dial,
    Dialed,
    DialFailed,
    FailoverCompleted,
    FirstElementPolicy,
    Input,
    LocatorSettings,
    Notification,
    Output,
    PeerClosed,
    RoundRobinPolicy,
    SendBytes,
    Tick,
    Written,
)
from embedclient.model import TransportConfiguration

from ._commits import CommitCount
from ._network import Network, SimulatedLink
from ._scripts import Script, Steps

__all__ = ["ClientHost", "connector_to"]

_CONNECTIONS_PER_AGENT = 1_000_000
_TCP_FACTORY = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"


def connector_to(broker: str) -> TransportConfiguration:
    """Return the connector that names a simulated broker."""
    return TransportConfiguration(broker, _TCP_FACTORY, {"host": broker, "port": 61616})


class ClientHost:
    """One client process: at most one agent at a time, any number of scripts."""

    def __init__(self, network: Network, name: str, brokers: Sequence[str], settings: LocatorSettings) -> None:
        self.name = name
        self.network = network
        self.world = network.world
        self.settings = settings
        self.failovers = 0  # reconnects after which sessions were rebuilt
        self.reattachments = 0  # reconnects after which every session continued
        self.commits = CommitCount()
        self.on_notification: list[Callable[[Notification], None]] = []
        self._brokers = brokers
        self._agent: Agent | None = None
        self._agents = 0
        self._links: dict[int, SimulatedLink] = {}
        self._scripts: dict[Script, None] = {}
        self._ready: deque[Script] = deque()
        # A step or a round of scripts is under way: whatever becomes ready runs at its end.
        self._busy = False
        self._armed: float | None = None

    def agent(self) -> Agent:
        """Return the agent in use; a new one if no agent exists, or the last one is closed."""
        agent = self._agent
        if agent is None or agent.state is AgentState.CLOSED:
            self._drop_links("replaced")
            self._agents += 1
            self.world.note(self.name, "new agent", self._agents)
            entropy = self.world.entropy()
            policy = RoundRobinPolicy(entropy) if len(self._brokers) > 1 else FirstElementPolicy()
            agent = Agent(self.settings, [connector_to(each) for each in self._brokers], policy, entropy)
            agent.on_notification = self._notify
            self._agent = agent
        return agent

    def run(self, name: str, steps: Steps) -> Script:
        """Start a script; it takes its first step in a separate event."""
        script = Script(self.world, f"{self.name}/{name}", steps, self._resume_soon)
        self._scripts[script] = None
        self._ready.append(script)
        self.world.after(0.0, self, None)
        return script

    def leave(self) -> None:
        """End the process in order: it closes its connection."""
        if self._agent is not None:
            self.run("leave", self._close(self._agent))

    def _close(self, agent: Agent) -> Steps:
        yield agent.close()

    def crash(self, *, silently: bool) -> None:
        """Remove the process, and with it its scripts, its agent and its side of every connection.

        ``silently``: its machine is gone, too, and the other ends are not notified.
        """
        self.world.note(self.name, "crashes")
        self._agent = None
        self._ready.clear()
        for script in list(self._scripts):
            script.stop()
        self._scripts.clear()
        self.on_notification.clear()
        for link in self._links.values():
            if silently:
                link.fall_silent(self, "connection reset")
            else:
                link.vanish(self, "connection reset")
        self._links.clear()

    @property
    def idle(self) -> bool:
        """True if every script has come to its end."""
        return not self._scripts

    # The network's side

    def on_dialed(self, connection: int, link: SimulatedLink) -> None:
        if self._agent is None:
            link.vanish(self, "connection reset")
            return
        self._links[connection] = link
        self._step(connection, Dialed(self._local(connection)))

    def on_dial_failed(self, connection: int, reason: str) -> None:
        self._step(connection, DialFailed(self._local(connection), reason))

    def on_bytes(self, connection: int, data: bytes) -> None:
        if self._links.get(connection) is not None:
            self.world.trace.add_bytes(self.world.now, self.name, "receives", data)
            self._step(connection, BytesReceived(self._local(connection), data))

    def on_closed(self, connection: int, reason: str) -> None:
        if self._links.pop(connection, None) is not None:
            self.world.note(self.name, "connection lost", reason)
            self._step(connection, PeerClosed(self._local(connection), reason))

    def on_written(self, connection: int, count: int) -> None:
        if self._links.get(connection) is not None:
            self._step(connection, Written(self._local(connection), count))

    def on_event(self, event: object) -> None:
        """Handle the timer, or scripts that are ready."""
        if event is None:
            self._settle()
        elif event == self._armed:
            self._armed = None
            if self._agent is not None:
                self._step_agent(Tick())

    # Inside

    # Connections of successive agents of one host must not be mixed up: the network uses a wider number for them.
    def _wide(self, connection: int) -> int:
        return self._agents * _CONNECTIONS_PER_AGENT + connection

    def _local(self, connection: int) -> int:
        return connection % _CONNECTIONS_PER_AGENT

    def _step(self, connection: int, event: Input) -> None:
        if self._agent is None or connection // _CONNECTIONS_PER_AGENT != self._agents:
            return
        self._step_agent(event)

    def _step_agent(self, event: Input) -> None:
        assert self._agent is not None, "an agent takes the input"
        self._busy = True
        outputs = self._agent.step(event, self.world.instant)
        if outputs:
            self._carry_out(outputs)
        self._busy = False
        self._settle()

    def _carry_out(self, outputs: list[Output]) -> None:
        """Carry out the agent's outputs, in order, and then report what the connections took."""
        agent = self._agent
        assert agent is not None, "outputs come from an agent"
        while outputs:
            written = self._do(outputs)
            outputs = []
            for each in written:
                outputs += agent.step(each, self.world.instant)

    def _do(self, outputs: list[Output]) -> list[Written]:
        written: list[Written] = []
        for output in outputs:
            match output:
                case SendBytes(connection, data):
                    link = self._links.get(self._wide(connection))
                    # The agent cannot detect bytes that a connection does not take because it is lost in this moment.
                    self.commits.take(data)
                    taken = link.send(self, data) if link is not None else 0
                    if taken:
                        written.append(Written(connection, taken))
                case CloseConnection(connection, reason):
                    link = self._links.pop(self._wide(connection), None)
                    self.world.note(self.name, "closes connection", reason)
                    if link is not None:
                        link.close(self)
                case Dial(connection, configuration, timeout_s):
                    self.world.note(self.name, "dials", configuration.name)
                    self.network.dial(self, self._wide(connection), configuration.name, timeout_s)
        return written

    def _settle(self) -> None:
        """Run scripts and send their requests through the agent, until nothing is left to do now."""
        self._busy = True
        while self._ready or self._take_outputs():
            if self._ready:
                script = self._ready.popleft()
                if not script.done:
                    script.advance()
                if script.done:
                    self._scripts.pop(script, None)
        self._busy = False
        self._arm()

    def _take_outputs(self) -> bool:
        """Carry out the agent's waiting outputs. Return True if that made a script ready."""
        if self._agent is not None:
            outputs = self._agent.take_outputs(self.world.instant)
            if outputs:
                self._carry_out(outputs)
        return bool(self._ready)

    def _arm(self) -> None:
        deadline = self._agent.next_deadline() if self._agent is not None else None
        if deadline is not None:
            armed, now = self._armed, self.world.now
            if armed is None or deadline < armed or armed <= now:
                self._armed = armed = deadline if deadline > now else now
                self.world.at(armed, self, armed)

    def _resume_soon(self, script: Script) -> None:
        self._ready.append(script)
        if not self._busy:
            self._settle()

    def _notify(self, notification: Notification) -> None:
        self.world.note(self.name, type(notification).__name__)
        if isinstance(notification, FailoverCompleted) and self._agent is not None and self._agent.sessions:
            self.failovers += not notification.reattached
            self.reattachments += notification.reattached
        for listener in self.on_notification:
            listener(notification)

    def _drop_links(self, reason: str) -> None:
        for link in self._links.values():
            link.close(self)
        self._links.clear()
