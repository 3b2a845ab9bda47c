"""Files of keys and certificates: what is accepted, and which reason and remedy an error has."""

from __future__ import annotations

import errno
import logging
import os
import re
import subprocess
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, TLSSettings
from embedclient.errors import ConnectionLostException, ResourceAllocationException
from embedclient.model import TransportConfiguration
from embedclient.tls import AcceptorTLS, TLSStoreError, _stores, connector_tls, read_key_store, read_trust_store

from .certificates import PASSWORD, Files, subject_of


def broken(path: str, password: str | None = None, kind: str | None = None, alias: str | None = None) -> str:
    with pytest.raises(TLSStoreError) as caught:
        read_key_store(path, password, kind, alias)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def untrusted(path: str, password: str | None = None) -> str:
    with pytest.raises(TLSStoreError) as caught:
        read_trust_store(path, password)
    return str(caught.value)


def test_a_key_and_its_certificates_may_stand_in_any_order(files: Files) -> None:
    own, stranger = files.sign("own"), files.sign("stranger")
    key, _, certificate = own.pem().partition(b"-----BEGIN CERTIFICATE-----")
    other = stranger.pem().partition(b"-----BEGIN CERTIFICATE-----")[2]
    begin = b"-----BEGIN CERTIFICATE-----"
    path = files.write("mixed.pem", begin + other + begin + certificate + key)
    store = read_key_store(path, None)
    subjects = [", ".join(each.subject.rfc4514_string().split(",")) for each in store.certificates]
    assert subjects == [subject_of("own"), subject_of("stranger")]
    assert store.paths == (path,)


def test_an_encrypted_key_needs_its_password(files: Files) -> None:
    path = files.write("key.pem", files.sign("own").pem(PASSWORD))
    assert read_key_store(path, PASSWORD).certificates
    assert broken(path) == f"the key store {path!r} has an encrypted key: it needs keyStorePassword"
    assert broken(path, "wrong").startswith(f"the key store {path!r} cannot be opened: keyStorePassword is wrong")


def test_a_pkcs12_file_needs_its_password_and_the_key_of_the_alias(files: Files) -> None:
    path = files.write("key.p12", files.sign("own").pkcs12(PASSWORD, "Mine"))
    assert read_key_store(path, PASSWORD, "JKS", "mine").certificates  # the content decides
    assert broken(path).endswith("cannot be opened: it needs keyStorePassword")
    assert broken(path, "wrong").endswith("cannot be opened: keyStorePassword is wrong")
    assert broken(path, PASSWORD, None, "yours") == (
        f"the key store {path!r} has the key 'Mine', not 'yours'; correct keyStoreAlias"
    )
    assert broken(files.write("cut.p12", Path(path).read_bytes()[:200]), PASSWORD).endswith(
        "no PKCS12 file, or damaged"
    )


def test_a_file_may_name_two_files(files: Files) -> None:
    key, begin, certificate = files.sign("own").pem().partition(b"-----BEGIN CERTIFICATE-----")
    one, other = files.write("own.key", key), files.write("own.crt", begin + certificate)
    path = files.write("own.pemcfg", f"# both\nsource.key={one}\nsource.cert = {other}\n".encode())
    assert read_key_store(path, None, "PEMCFG").paths == (path, one, other)
    assert "needs two lines" in broken(files.write("half.pemcfg", b"source.key=x\n"), None, "PEMCFG")


def test_files_of_java_come_with_the_command_that_converts_them(files: Files, tmp_path: Path) -> None:
    path = files.write("broker.jks", b"\xfe\xed\xfe\xed\0\0\0\2")
    command = re.search(r"convert it: (keytool .*)", broken(path))
    assert command is not None
    assert command[1] == (
        f"keytool -importkeystore -srckeystore {path} -srcstoretype JKS "
        f"-destkeystore {tmp_path}/broker.p12 -deststoretype PKCS12"
    )
    assert "is a JCEKS file" in untrusted(files.write("trust.jceks", b"\xce\xce\xce\xce\0"))


def test_what_cannot_be_a_store_is_named(files: Files) -> None:
    trust = files.trust
    assert broken("/nowhere/key.pem") == "the key store '/nowhere/key.pem' cannot be read: No such file or directory"
    assert "Is a directory" in broken(str(files.directory))
    assert broken(trust) == (f"the key store {trust!r} has no private key; put key and certificates into one PEM file")
    assert "is neither a PEM nor a PKCS12 file" in broken(files.write("x", b"hello"))
    assert "is neither a PEM nor a PKCS12 file" in untrusted(files.write("empty", b""))
    key = files.sign("own").pem().partition(b"-----BEGIN CERTIFICATE-----")[0]
    assert "has no certificate; put" in broken(files.write("key", key))
    assert untrusted(files.write("key", key)).endswith("has no certificate")
    wrong = key + files.authority.pem()
    assert broken(files.write("wrong", wrong)).endswith("has no certificate of its private key")
    assert "damaged" in broken(files.write("torn", key[:60] + b"\n-----END PRIVATE KEY-----\n"))


async def test_a_broker_with_files_that_cannot_be_used_does_not_start(files: Files) -> None:
    with pytest.raises(ResourceAllocationException, match=r"key store '/nowhere' cannot be read"):
        async with EmbeddedBroker(tls=TLSSettings(key_store_path="/nowhere")):
            pass
    with pytest.raises(ResourceAllocationException, match=r"an acceptor with TLS needs a private key"):
        async with EmbeddedBroker(tls=TLSSettings()):
            pass
    with pytest.raises(ResourceAllocationException, match=r"needClientAuth needs trustStorePath"):
        async with EmbeddedBroker(tls=files.serving(need_client_auth=True)):
            pass
    with pytest.raises(TypeError, match=r"tls must be TLSSettings or an ssl.SSLContext, not str"):
        EmbeddedBroker(tls="server.pem")  # type: ignore[arg-type]  # wrong on purpose


async def test_a_client_with_files_that_cannot_be_used_does_not_connect() -> None:
    with pytest.raises(ConnectionLostException, match=r"the trust store '/nowhere' cannot be read"):
        async with ConnectionFactory("tcp://127.0.0.1:1?sslEnabled=true&trustStorePath=/nowhere").connect():
            pass
    with pytest.raises(TypeError, match=r"tls must be TLSSettings or an ssl.SSLContext, not dict"):
        ConnectionFactory("tcp://h", tls={})  # type: ignore[arg-type]


# -- files that change -----------------------------------------------------------------------------------------------


def test_files_that_changed_apply_to_the_next_connection(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    acceptor = AcceptorTLS(files.serving())
    first = acceptor.context()
    assert acceptor.context() is first
    files.key("server", ("new.example",))
    second = acceptor.context()
    assert second is not first
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_files_that_became_unusable_leave_the_context_and_one_line(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    acceptor = AcceptorTLS(files.serving())
    first = acceptor.context()
    files.write("server.pem", b"half a fi")
    assert [acceptor.context(), acceptor.context()] == [first, first]
    (line,) = caplog.messages
    assert line.startswith("TLS: the certificates stay as they were: the key store")
    Path(files.server).unlink()
    assert acceptor.context() is first
    files.key("server", ("new.example",))
    assert acceptor.context() is not first


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
def test_a_shortage_while_files_are_read_again_is_one_line_and_no_end(
    code: int, files: Files, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    acceptor = AcceptorTLS(files.serving())
    first = acceptor.context()
    files.key("server", ("new.example",))
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkstemp", Mock(side_effect=OSError(code, os.strerror(code))))
        assert [acceptor.context(), acceptor.context()] == [first, first]
    (line,) = caplog.messages
    assert line.startswith("TLS: the certificates stay as they were until the shortage is over: the key store")
    assert os.strerror(code) in line
    assert acceptor.context() is not first, "the new files apply without another change"


def test_files_that_prove_wrong_after_a_shortage_are_one_more_line(
    files: Files, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    acceptor = AcceptorTLS(files.serving())
    first = acceptor.context()
    files.write("server.pem", b"half a fi")
    with monkeypatch.context() as patched:
        patched.setattr(_stores, "open", Mock(side_effect=OSError(errno.EMFILE, "x")), raising=False)
        assert acceptor.context() is first
    assert [acceptor.context(), acceptor.context()] == [first, first]
    shortage, wrong = caplog.messages
    assert "until the shortage is over" in shortage and "until the shortage is over" not in wrong
    files.key("server", ("new.example",))
    assert acceptor.context() is not first


async def test_a_client_whose_key_cannot_be_loaded_for_a_shortage_gets_a_jms_exception(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = files.trusting(key_store_path=files.key("client"))
    shortage = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(tempfile, "mkstemp", shortage)
    with pytest.raises(ConnectionLostException, match=r"needs a temporary file for a moment: No space left"):
        async with ConnectionFactory("tcp://127.0.0.1:1", tls=tls).connect():
            pass


def test_reloading_can_be_switched_off(files: Files) -> None:
    acceptor = AcceptorTLS(files.serving(auto_reload=False))
    first = acceptor.context()
    files.key("server", ("new.example",))
    assert acceptor.context() is first


def test_a_client_reads_its_files_again_when_they_changed(files: Files) -> None:
    parameters = {"sslEnabled": "true", "trustStorePath": files.trust}
    connector = TransportConfiguration("a", parameters=parameters)
    first = connector_tls(connector)
    assert first == connector_tls(TransportConfiguration("b", parameters=parameters))
    files.write("ca.pem", files.authority.pem() * 2)
    assert first != connector_tls(connector)


async def test_a_broker_with_new_certificates_keeps_its_connections(files: Files) -> None:
    async with EmbeddedBroker(tls=files.serving()) as broker:
        url = f"tcp://127.0.0.1:{broker.port}"
        async with (
            ConnectionFactory(url, tls=files.trusting()).connect() as connection,
            connection.session() as session,
        ):
            files.key("server", ("elsewhere.example",))
            with pytest.raises(ConnectionLostException, match=r"is not valid for host"):
                async with ConnectionFactory(url, tls=files.trusting()).connect():
                    pass
            files.key("server", ("127.0.0.1",))
            async with ConnectionFactory(url, tls=files.trusting()).connect():
                pass
            await session.create_producer("orders").send("still here")


# -- the command -----------------------------------------------------------------------------------------------------


def cert(*arguments: str) -> subprocess.CompletedProcess[str]:
    import sys

    command = [sys.executable, "-m", "embedbroker", "cert", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


async def test_the_command_makes_what_a_broker_and_its_clients_need(tmp_path: Path) -> None:
    directory = tmp_path / "certificates"
    made = cert(str(directory), "--host", "127.0.0.1", "--client", "shop", "--password", PASSWORD)
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines() == [
        "ca.pem: trustStorePath of clients, and of a broker that checks clients",
        "ca.p12: the same for Java",
        "server.pem: keyStorePath of the broker",
        "server.p12: the same for Java",
        "shop.pem: keyStorePath of the client 'shop'",
        "shop.p12: the same for Java",
    ]
    assert {path.name: path.stat().st_mode & 0o077 for path in directory.iterdir()} == dict.fromkeys(
        ["ca-key.pem", "ca.pem", "ca.p12", "server.pem", "server.p12", "shop.pem", "shop.p12"], 0
    )
    authority = str(directory / "ca.p12")
    serving = TLSSettings(
        key_store_path=str(directory / "server.p12"),
        key_store_password=PASSWORD,
        trust_store_path=authority,
        trust_store_password=PASSWORD,
        need_client_auth=True,
    )
    shop = TLSSettings(key_store_path=str(directory / "shop.pem"), trust_store_path=str(directory / "ca.pem"))
    async with EmbeddedBroker(tls=serving) as broker:
        async with ConnectionFactory(broker.url, tls=shop).connect():
            pass
        again = cert(str(directory), "--host", "127.0.0.1", "--password", PASSWORD)
        assert again.returncode == 0
        async with ConnectionFactory(broker.url, tls=shop).connect():  # of the same authority as before
            pass


@pytest.mark.parametrize("name", ["../x", "server", "ca", "", ".."])
def test_a_client_needs_a_name_that_a_file_can_have(name: str, tmp_path: Path) -> None:
    refused = cert(str(tmp_path), "--client", name)
    assert refused.returncode == 2
    assert "cannot be the name of a file" in refused.stderr


def test_an_authority_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "ca-key.pem").write_text("nonsense")
    refused = cert(str(tmp_path))
    assert refused.returncode == 6
    assert re.fullmatch(r"embedbroker: .*ca-key.pem cannot be used, remove it: .*\n", refused.stderr)
