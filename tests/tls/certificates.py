"""Certificates for tests, made by trustme: an authority, and the files that brokers and clients need.

They are not made by `embedbroker cert`, so that a mistake of it is not at both ends of a handshake.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from attrs import frozen
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509 import Certificate, load_pem_x509_certificate

from embedclient import TLSSettings

HOSTS = ("127.0.0.1", "localhost", "broker.example")
PASSWORD = "sesame"


def subject_of(name: str) -> str:
    """The subject of a certificate in the form in which Java prints it, with which users are found."""
    return f"CN={name}, OU=Tests, O=Example"


def _key_of(pem: trustme.Blob) -> EllipticCurvePrivateKey:
    key = load_pem_private_key(pem.bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    return key


@frozen
class Signed:
    """A key and the certificates that prove it, its own first."""

    leaf: trustme.LeafCert

    @property
    def certificates(self) -> list[Certificate]:
        return [load_pem_x509_certificate(each.bytes()) for each in self.leaf.cert_chain_pems]

    def pem(self, password: str | None = None) -> bytes:
        """Key and certificates as the content of one PEM file."""
        if password is None:
            return self.leaf.private_key_and_cert_chain_pem.bytes()
        encryption = BestAvailableEncryption(password.encode())
        key = _key_of(self.leaf.private_key_pem).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        return key + b"".join(each.bytes() for each in self.leaf.cert_chain_pems)

    def pkcs12(self, password: str, name: str) -> bytes:
        """Key and certificates as the content of a PKCS12 file."""
        own, *others = self.certificates
        return serialize_key_and_certificates(
            name.encode(), _key_of(self.leaf.private_key_pem), own, others, BestAvailableEncryption(password.encode())
        )


@frozen
class Authority:
    """An authority: one that signs itself, or one that another authority signed."""

    issuer: trustme.CA

    @property
    def certificate(self) -> Certificate:
        return load_pem_x509_certificate(self.pem())

    @property
    def key(self) -> EllipticCurvePrivateKey:
        return _key_of(self.issuer.private_key_pem)

    def intermediate(self) -> Authority:
        """Another authority, which this one signed."""
        return Authority(self.issuer.create_child_ca())

    def sign(self, name: str, hosts: tuple[str, ...] = (), *, days_ago: int = 0, days: int = 10) -> Signed:
        starts = datetime.now(UTC) - timedelta(days=days_ago, hours=1)
        # Java refuses a certificate with an empty list of names.
        names = hosts or (f"{name}@client.example",)
        leaf = self.issuer.issue_cert(
            *names,
            common_name=name,
            organization_name="Example",
            organization_unit_name="Tests",
            not_before=starts,
            not_after=starts + timedelta(days=days),
        )
        return Signed(leaf)

    def pem(self) -> bytes:
        """The certificate of the authority as the content of a PEM file: a trust store."""
        return self.issuer.cert_pem.bytes()

    def pkcs12(self, password: str) -> bytes:
        """The certificate of the authority as a trust store for Java."""
        trusted = [PKCS12Certificate(self.certificate, b"authority")]
        return serialize_java_truststore(trusted, BestAvailableEncryption(password.encode()))


class Files:
    """Files of one authority in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(trustme.CA())
        self.trust = self.write("ca.pem", self.authority.pem())
        self.server = self.key("server", HOSTS)

    def write(self, name: str, content: bytes) -> str:
        path = self.directory / name
        path.write_bytes(content)
        return str(path)

    def sign(self, name: str, hosts: tuple[str, ...] = (), **times: int) -> Signed:
        return self.authority.sign(name, hosts, **times)

    def key(self, name: str, hosts: tuple[str, ...] = (), **times: int) -> str:
        return self.write(f"{name}.pem", self.sign(name, hosts, **times).pem())

    def serving(self, **changes: object) -> TLSSettings:
        return TLSSettings(**{"key_store_path": self.server, **changes})  # type: ignore[arg-type]

    def trusting(self, **changes: object) -> TLSSettings:
        return TLSSettings(**{"trust_store_path": self.trust, **changes})  # type: ignore[arg-type]
