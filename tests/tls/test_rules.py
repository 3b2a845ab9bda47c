"""What the settings demand of a connection: versions, suites, names, revocation. Two machines, and no sockets."""

from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedclient import TLSSettings
from embedclient.tls import TLSConnection, TLSError, TLSStoreError
from embedclient.tls._contexts import make_context
from embedclient.tls._suites import openssl_names

from .certificates import Files

RSA_SUITE = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
SUITES = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")


def connect(
    serving: TLSSettings, trusting: TLSSettings, host: str = "localhost"
) -> tuple[TLSConnection, TLSConnection]:
    """Shake hands; the error is the one of the end that finds it first."""
    server = TLSConnection(make_context(serving, server_side=True)[0], server_side=True)
    client = TLSConnection(make_context(trusting, server_side=False)[0], server_side=False, host=host)
    client.start()
    while client.has_output or server.has_output:
        server.receive(client.take())
        client.receive(server.take()) if server.has_output else None
    return server, client


def suite_with(serving: TLSSettings) -> str:
    """Return the cipher suite on which a server and Python's own client agree."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    server = TLSConnection(make_context(serving, server_side=True)[0], server_side=True)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing)
    for _ in range(10):
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
            break
        server.receive(outgoing.read())
        incoming.write(server.take())
    return str(client.cipher())


def test_both_directions_carry_bytes_in_few_records(files: Files) -> None:
    server, client = connect(files.serving(), files.trusting())
    assert server.is_established and client.is_established
    assert server.version == client.version == "TLSv1.3"
    data = bytes(range(256)) * 1024
    for sender, receiver in ((client, server), (server, client)):
        sender.send(data)
        encrypted = sender.take()
        assert len(encrypted) - len(data) == 16 * 22  # header, type and tag of each record
        # A cut anywhere changes nothing.
        assert receiver.receive(encrypted[:20_000]) + receiver.receive(encrypted[20_000:]) == data
    client.close()
    assert server.receive(client.take()) == b""
    assert server.is_closed


def test_the_certificate_of_the_client_is_known(files: Files) -> None:
    serving = files.serving(want_client_auth=True, trust_store_path=files.trust)
    server, _ = connect(serving, files.trusting(key_store_path=files.key("client")))
    assert server.peer_certificate is not None
    server, _ = connect(serving, files.trusting())
    assert server.peer_certificate is None


@pytest.mark.parametrize(
    ("allowed", "version"), [("TLSv1.2", "TLSv1.2"), ("TLSv1.3", "TLSv1.3"), ("SSLv2Hello,TLSv1.2", "TLSv1.2")]
)
def test_versions_are_restricted(allowed: str, version: str, files: Files) -> None:
    server, _ = connect(files.serving(enabled_protocols=allowed), files.trusting())
    assert server.version == version


def test_versions_without_a_common_one_fail_with_advice(files: Files) -> None:
    with pytest.raises(TLSError, match=r"no TLS version in common; compare enabledProtocols of both"):
        connect(files.serving(enabled_protocols="TLSv1.3"), files.trusting(enabled_protocols="TLSv1.2"))


def test_versions_have_no_gaps(files: Files) -> None:
    with pytest.raises(TLSStoreError, match=r"must have no gaps: TLSv1.1, TLSv1.2, TLSv1.3, not TLSv1.1, TLSv1.3"):
        make_context(files.serving(enabled_protocols=("TLSv1.1", "TLSv1.3")), server_side=True)
    with pytest.raises(ValueError, match=r"enabled_protocols must be of TLSv1, .*, not 'TLSv7'"):
        TLSSettings(enabled_protocols="TLSv7")


@pytest.mark.parametrize("suite", SUITES)
def test_suites_have_the_names_of_java_and_exclude_versions_that_are_not_listed(suite: str, files: Files) -> None:
    server, _ = connect(files.serving(enabled_cipher_suites=suite), files.trusting())
    assert openssl_names([suite])[0] in suite_with(files.serving(enabled_cipher_suites=suite))
    assert server.version == "TLSv1.2"


def test_suites_of_the_newest_version_alone_exclude_the_older(files: Files) -> None:
    serving = files.serving(enabled_cipher_suites="TLS_AES_256_GCM_SHA384")
    assert connect(serving, files.trusting())[0].version == "TLSv1.3"
    with pytest.raises(TLSError, match=r"no TLS version in common"):
        connect(serving, files.trusting(enabled_protocols="TLSv1.2"))


def test_suites_without_a_common_one_fail_with_advice(files: Files) -> None:
    serving = files.serving(enabled_cipher_suites=(SUITES[0],))
    with pytest.raises(TLSError, match=r"no cipher suite in common; compare enabledCipherSuites of both"):
        connect(serving, files.trusting(enabled_cipher_suites=(SUITES[1],)))
    with pytest.raises(TLSError, match=r"no cipher suite in common.*the type of the key"):
        connect(files.serving(enabled_cipher_suites=RSA_SUITE), files.trusting())


def test_unknown_suites_are_named(files: Files) -> None:
    with pytest.raises(TLSStoreError, match=r"this system has no suite 'TLS_X_WITH_Y'"):
        make_context(files.serving(enabled_cipher_suites=f"{SUITES[0]},TLS_X_WITH_Y"), server_side=True)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        (RSA_SUITE, "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA256", "AES256-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "DHE-RSA-AES256-SHA"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_names_of_suites(java: str, openssl: str) -> None:
    assert openssl_names([java]) == [openssl]
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl)


def test_an_acceptor_serves_the_names_that_it_allows(files: Files) -> None:
    serving = files.serving(sni_host=r"(www\.)?broker\.example")
    connect(serving, files.trusting(), "broker.example")
    connect(serving, files.trusting(), "127.0.0.1")  # an address is no name, and not requested
    with pytest.raises(TLSError, match=r"sniHost"):
        connect(serving, files.trusting(), "localhost")
    with pytest.raises(TLSStoreError, match=r"sniHost of an acceptor must be a regular expression"):
        make_context(files.serving(sni_host="*.example"), server_side=True)


def test_trust_all_accepts_a_stranger_with_a_warning(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    connect(files.serving(), TLSSettings(trust_all=True), "any.example")
    assert caplog.messages == ["TLS: trustAll=true accepts every broker, also a false one; it is for tests only"]


def test_a_context_of_the_wrong_side_is_refused(files: Files) -> None:
    context = make_context(files.trusting(), server_side=False)[0]
    with pytest.raises(TLSError):
        TLSConnection(context, server_side=True)


def test_certificates_that_were_revoked_are_refused(files: Files) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    revoked, kept = files.sign("revoked"), files.sign("kept")
    now = datetime.now(UTC)
    entry = x509.RevokedCertificateBuilder().serial_number(revoked.certificates[0].serial_number).revocation_date(now)
    listed = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(files.authority.certificate.subject)
        .last_update(now - timedelta(days=1))
        .next_update(now + timedelta(days=1))
        .add_revoked_certificate(entry.build())
        .sign(files.authority.key, SHA256())
    )
    path = files.write("revoked.crl", listed.public_bytes(Encoding.PEM))
    serving = files.serving(need_client_auth=True, trust_store_path=files.trust, crl_path=path)
    connect(serving, files.trusting(key_store_path=files.write("kept.pem", kept.pem())))
    with pytest.raises(TLSError, match=r"the client's certificate is revoked"):
        connect(serving, files.trusting(key_store_path=files.write("gone.pem", revoked.pem())))
    with pytest.raises(TLSStoreError, match=r"the revocation list .* is no PEM file with one"):
        make_context(files.serving(crl_path=files.write("x.crl", b"nothing")), server_side=True)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    files = Files(tmp_path_factory.mktemp("fuzz"))
    serving = make_context(files.serving(need_client_auth=True, trust_store_path=files.trust), server_side=True)[0]
    return serving, make_context(files.trusting(key_store_path=files.key("client")), server_side=False)[0]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    turn=st.integers(0, 5),
    share=st.floats(0, 1),
    change=st.integers(1, 255),
    kind=st.sampled_from(["changed", "cut", "twice", "backwards"]),
)
def test_bytes_that_were_changed_end_with_an_error_of_tls_or_wait(
    turn: int, share: float, change: int, kind: str, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    """Of either direction, in the handshake or behind it, any byte."""
    server = TLSConnection(contexts[0], server_side=True)
    client = TLSConnection(contexts[1], server_side=False, host="localhost")
    client.start()
    plain: dict[TLSConnection, bytes] = {server: b"", client: b""}
    try:
        for number in range(8):
            for sender, receiver in ((client, server), (server, client)):
                if sender.is_established and number < 6:
                    sender.send(b"hello")
                flow = sender.take()
                if flow and number == turn // 2 and (sender is client) == (turn % 2 == 0):
                    position = int(share * (len(flow) - 1))
                    changed = flow[:position] + bytes([flow[position] ^ change]) + flow[position + 1 :]
                    flows = {"changed": changed, "cut": flow[:position], "twice": flow + flow, "backwards": flow[::-1]}
                    flow = flows[kind]
                if flow:
                    plain[receiver] += receiver.receive(flow)
    except TLSError as error:
        assert error.reason
    # Nothing but what was sent, whatever came.
    assert all(found == b"hello" * (len(found) // 5) for found in plain.values())


def test_settings_hide_their_passwords() -> None:
    hidden = TLSSettings(key_store_path="x", key_store_password="sesame", trust_store_password="sesame")
    assert "sesame" not in repr(hidden)
    assert "key_store_path='x'" in repr(hidden)
