"""Scripts wait for calls, for time and for messages, and end where a test ends them."""

from __future__ import annotations

import pytest

from embedbroker.testing._scripts import Script, Steps
from embedbroker.testing._world import World
from embedclient.agent import Call, done_call, failed_call
from embedclient.errors import JMSException


class Host:
    """Runs scripts as soon as they are ready."""

    def __init__(self) -> None:
        self.world = World(1)
        self.log: list[object] = []

    def run(self, steps: Steps) -> Script:
        script = Script(self.world, "script", steps, lambda ready: ready.advance())
        script.advance()
        return script


def test_a_script_sleeps_in_virtual_time() -> None:
    host = Host()

    def steps() -> Steps:
        host.log.append(host.world.now)
        yield 2.5
        host.log.append(host.world.now)

    script = host.run(steps())
    assert (host.log, script.done) == ([0.0], False)
    host.world.run(10.0)
    assert (host.log, script.done) == ([0.0, 2.5], True)


def test_a_script_gets_the_result_or_the_error_of_a_call() -> None:
    host = Host()

    def steps() -> Steps:
        host.log.append((yield done_call("at once")))
        try:
            yield failed_call(JMSException("no"))
        except JMSException as error:
            host.log.append(str(error))
        host.log.append((yield later))

    later: Call[str] = Call(None)
    script = host.run(steps())
    assert host.log == ["at once", "no"]
    assert later.on_done is not None
    tell, later.on_done = later.on_done, None
    later.succeed("later")
    tell(later)
    assert (host.log[-1], script.done) == ("later", True)


def test_a_stopped_script_cleans_up_and_hears_nothing_any_more() -> None:
    host = Host()

    def steps() -> Steps:
        try:
            yield 1.0
            host.log.append("woke up")
        finally:
            host.log.append("cleaned up")

    script = host.run(steps())
    script.stop()
    script.stop()
    host.world.run(5.0)
    assert (host.log, script.done) == (["cleaned up"], True)


def test_a_script_that_never_waits_is_an_error() -> None:
    def steps() -> Steps:
        while True:
            yield done_call(None)

    with pytest.raises(AssertionError, match="goes on for ever"):
        Host().run(steps())
