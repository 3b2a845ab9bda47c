"""JMS selectors become filters: headers renamed, literals kept, no-local joined."""

from __future__ import annotations

import pytest

from embedclient.errors import InvalidSelectorException
from embedclient.model._jms_selector import filter_for_selector

TABLE = [
    ("JMSPriority > 3", "AMQPriority > 3"),
    ("JMSDeliveryMode = 'PERSISTENT'", "AMQDurable = 'DURABLE'"),
    ("JMSDeliveryMode='NON_PERSISTENT'", "AMQDurable='NON_DURABLE'"),
    ("JMSDeliveryMode IN ('PERSISTENT', 'x')", "AMQDurable IN ('DURABLE', 'x')"),
    ("JMSTimestamp<JMSExpiration", "AMQTimestamp<AMQExpiration"),
    ("JMSMessageID = 'ID:1'", "AMQUserID = 'ID:1'"),
    ("JMSXGroupID IS NULL", "AMQGroupID IS NULL"),
    ("JMSCorrelationID = 'a' AND JMSType = 'b'", "JMSCorrelationID = 'a' AND JMSType = 'b'"),
    ("a = 'JMSPriority'", "a = 'JMSPriority'"),
    ("a = 'it''s JMSPriority' AND JMSPriority = 1", "a = 'it''s JMSPriority' AND AMQPriority = 1"),
    ("a = '''' AND JMSPriority = 1", "a = '''' AND AMQPriority = 1"),
    ('"JMSPriority" = 1', '"JMSPriority" = 1'),
    ("aJMSPriority = 1 AND JMSPriorityA = 1 AND $JMSPriority = 1 AND JMSPriority_ = 1",) * 2,
    ("(JMSPriority)=JMSPriority+JMSPriority", "(AMQPriority)=AMQPriority+AMQPriority"),
    ("color = 'PERSISTENT'", "color = 'PERSISTENT'"),
    ("jmspriority = 1", "jmspriority = 1"),
    (
        "hyphenated_props:JMSPriority-x = 1 AND JMSPriority = 1",
        "hyphenated_props:JMSPriority-x = 1 AND AMQPriority = 1",
    ),
    ("no_hyphenated_props:JMSPriority-1 = 1", "no_hyphenated_props:AMQPriority-1 = 1"),
    ("a = 'never closed JMSPriority", "a = 'never closed AMQPriority"),
]


@pytest.mark.parametrize(("selector", "expected"), TABLE)
def test_header_names_become_filter_names(selector: str, expected: str) -> None:
    assert filter_for_selector(selector) == expected


@pytest.mark.parametrize("selector", [None, "", "  \n"])
def test_no_selector_is_no_filter(selector: str | None) -> None:
    assert filter_for_selector(selector) is None
    assert filter_for_selector(selector, no_local_id="me") == "__AMQ_CID<>'me'"


JOINED = [
    ("a = 1", "a = 1 AND __AMQ_CID<>'me'"),
    ("a = 'x OR y' AND order = 1", "a = 'x OR y' AND order = 1 AND __AMQ_CID<>'me'"),
    ("a = 1 or JMSPriority = 2", "(a = 1 or AMQPriority = 2) AND __AMQ_CID<>'me'"),
    ("hyphenated_props:a-b = 1", "hyphenated_props:a-b = 1 AND __AMQ_CID<>'me'"),
    ("hyphenated_props:a-b = 1 OR c", "hyphenated_props:(a-b = 1 OR c) AND __AMQ_CID<>'me'"),
    (" convert_string_expressions:a OR b", " convert_string_expressions:(a OR b) AND __AMQ_CID<>'me'"),
]


@pytest.mark.parametrize(("selector", "expected"), JOINED)
def test_no_local_is_one_more_condition(selector: str, expected: str) -> None:
    assert filter_for_selector(selector, no_local_id="me") == expected


def test_a_quote_in_a_client_id_stays_inside_the_literal() -> None:
    assert filter_for_selector(None, no_local_id="it's") == "__AMQ_CID<>'it''s'"


@pytest.mark.parametrize("selector", [5, b"a = 1", ("a = 1",), 0, False])
def test_what_is_no_text_is_refused_by_name(selector: object) -> None:
    with pytest.raises(InvalidSelectorException, match=r"a selector is a str .*, not ") as refused:
        filter_for_selector(selector)  # type: ignore[arg-type]  # wrong on purpose
    assert str(refused.value).endswith(repr(selector))
