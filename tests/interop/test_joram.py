"""Joram's conformance suite of JMS 1.1, with its administration by management messages: each test holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.interop.brokers import BrokerUnderTest
from tests.interop.jms_matrix import JVM_OPTIONS
from tests.interop.programs import Program
from tests.interop.registry import joram_classpath

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

# Tests of each class of the suite. A class that runs none would be no proof.
TESTS = {
    "ConnectionTest": 7,
    "TopicConnectionTest": 2,
    "MessageBodyTest": 3,
    "MessageDefaultTest": 2,
    "MessageTypeTest": 14,
    "MessageHeaderTest": 9,
    "JMSXPropertyTest": 3,
    "MessagePropertyConversionTest": 71,
    "MessagePropertyTest": 15,
    "QueueBrowserTest": 2,
    "TemporaryQueueTest": 1,
    "SelectorSyntaxTest": 22,
    "SelectorTest": 14,
    "QueueSessionTest": 5,
    "SessionTest": 10,
    "TopicSessionTest": 7,
    "UnifiedSessionTest": 8,
    "TemporaryTopicTest": 1,
}


def test_the_suite_holds(broker: BrokerUnderTest, tmp_path: Path) -> None:
    command = ["java", *JVM_OPTIONS, "-cp", joram_classpath(), "joram.Suite", broker.url]
    errors = tmp_path / "errors.txt"
    with Program(command, errors_to=errors) as program:
        lines = [line.split(" ", 3) for line in program.output(seconds_max=240)]
    failures = [" ".join(words[1:]).replace("\\n", "\n") for words in lines if words[0] != "ok"]
    assert failures == [], "\n\n".join(failures)
    assert Counter(words[1] for words in lines) == TESTS
    # The suite prints an error of its administration at the end of a test, and goes on.
    assert "ManagementAdmin" not in errors.read_text()
