"""Logins by the certificate of a TLS client, and the form of its subject."""

from __future__ import annotations

import pytest

from embedbroker import EmbeddedBroker
from embedbroker.config import User
from embedclient import ConnectionFactory, Queue
from embedclient.errors import JMSSecurityException
from embedclient.tls._subject import subject_text

from .certificates import Files, subject_of


def broker(files: Files, user: User, **rules: object) -> EmbeddedBroker:
    rules = {"need_client_auth": True, **rules}
    tls = files.serving(trust_store_path=files.trust, **rules)
    return EmbeddedBroker(tls=tls, users=[user], populate_validated_user=True)


async def test_a_client_is_the_user_that_its_certificate_names(files: Files) -> None:
    client = files.trusting(key_store_path=files.key("app"))
    async with (
        broker(files, User("orders-app", roles=["amq"], certificate=subject_of("app"))) as served,
        ConnectionFactory(served.url, tls=client).connect() as connection,
        connection.session() as session,
        session.create_consumer(Queue("orders")) as consumer,
    ):
        await session.create_producer(Queue("orders")).send("one")
        message = await consumer.receive(timeout=60)
    assert message is not None and message.properties["JMSXUserID"] == "orders-app"


async def test_a_certificate_that_names_no_user_and_a_missing_one_get_no_session(files: Files) -> None:
    user = User("orders-app", roles=["amq"], certificate=subject_of("app"))
    other = files.trusting(key_store_path=files.key("other"))
    async with broker(files, user, need_client_auth=False, want_client_auth=True) as served:
        for client in (other, files.trusting()):
            with pytest.raises(JMSSecurityException, match="AMQ229031"):
                async with ConnectionFactory(served.url, tls=client).connect():
                    pass


async def test_a_certificate_that_was_not_verified_names_nobody(files: Files) -> None:
    user = User("orders-app", roles=["amq"], certificate=subject_of("app"))
    client = files.trusting(key_store_path=files.key("app"))
    async with EmbeddedBroker(tls=files.serving(), users=[user]) as served:
        with pytest.raises(JMSSecurityException, match="AMQ229031"):
            async with ConnectionFactory(served.url, tls=client).connect():
                pass


def test_a_subject_has_the_form_of_java() -> None:
    # As `keytool -dname 'CN=a, OU=b, O="c, d", C=US'` makes it: the encoding begins with the country.
    decoded = {
        "subject": (
            (("countryName", "US"),),
            (("organizationName", "c, d"),),
            (("organizationalUnitName", "b"),),
            (("commonName", "a"), ("emailAddress", "a@b")),
        )
    }
    assert subject_text(decoded) == 'CN=a + EMAILADDRESS=a@b, OU=b, O="c, d", C=US'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a", "CN=a"),
        ("a, O=b", 'CN="a, O=b"'),
        ('a"b\\', 'CN="a\\"b\\\\"'),
        (" a", 'CN=" a"'),
        ("a  b", 'CN="a  b"'),
        ("", "CN="),
    ],
)
def test_what_looks_like_another_part_is_quoted(value: str, shown: str) -> None:
    assert subject_text({"subject": ((("commonName", value),),)}) == shown
