"""Certificates for development and tests: an authority, and what it signs.

Responsible for keys, certificates and the files that hold them. Does not depend on the command line.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, GeneralName, KeyUsage, Name

__all__ = ["Authority", "MissingFeature", "Signed"]

_DAYS = 825
# Clocks of two machines differ.
_BACKDATED = timedelta(hours=1)


@frozen
class Signed:
    """A key and the certificates that prove it, its own first."""

    key: EllipticCurvePrivateKey
    certificates: tuple[Certificate, ...]

    def pem(self, password: str | None = None) -> bytes:
        """Return key and certificates as the content of one PEM file."""
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        return key + b"".join(each.public_bytes(Encoding.PEM) for each in self.certificates)

    def pkcs12(self, password: str, name: str) -> bytes:
        """Return key and certificates as the content of a PKCS12 file, which Java reads, too."""
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
        from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

        own, *others = self.certificates
        return serialize_key_and_certificates(
            name.encode(), self.key, own, others, BestAvailableEncryption(password.encode())
        )


class MissingFeature(Exception):
    """The installed library cannot do what was requested; the text names the version that can."""


class Authority:
    """A certificate authority whose key is in memory or in a directory."""

    def __init__(self, signed: Signed) -> None:
        self._signed = signed
        self.certificate = signed.certificates[0]

    @classmethod
    def make(cls, name: str = "embedbroker development CA", days: int = 3650) -> Authority:
        """Make an authority with a new key."""
        key = _new_key()
        return cls(Signed(key, (_certificate(_name(name), key, None, days, authority=True),)))

    @classmethod
    def load(cls, path: Path) -> Authority:
        """Read an authority from the PEM file that `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not such a file.
        """
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509 import load_pem_x509_certificate

        content = path.read_bytes()
        key = load_pem_private_key(content, None)
        if not isinstance(key, EllipticCurvePrivateKey):
            raise ValueError(f"{path} has no key of an authority")
        return cls(Signed(key, (load_pem_x509_certificate(content[content.index(b"-----BEGIN CERTIFICATE") :]),)))

    def save(self, path: Path) -> None:
        """Write key and certificate, for `load`."""
        write_private(path, self._signed.pem())

    def sign(
        self, name: str, hosts: Iterable[str] = (), days: int = _DAYS, *, starts: datetime | None = None
    ) -> Signed:
        """Make a key and its certificate.

        Args:
            name: common name of the owner.
            hosts: host names and addresses that a server has; a client has none.
            days: days until the certificate expires.
            starts: first moment of its life; None is now.
        """
        key = _new_key()
        certificate = _certificate(_name(name), key, self._signed, days, hosts=tuple(hosts), starts=starts)
        return Signed(key, (certificate,))

    def pem(self) -> bytes:
        """Return the certificate of the authority as the content of a PEM file: a trust store."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.certificate.public_bytes(Encoding.PEM)

    def pkcs12(self, password: str) -> bytes:
        """Return the certificate of the authority as a PKCS12 trust store, which Java reads, too.

        Raises:
            MissingFeature: the library is too old.
        """
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

        try:
            from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
        except ImportError:
            raise MissingFeature("trust stores of Java need cryptography 45 or later") from None

        return serialize_java_truststore(
            [PKCS12Certificate(self.certificate, b"authority")], BestAvailableEncryption(password.encode())
        )


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(text: str) -> Name:
    from cryptography.x509 import Name, NameAttribute
    from cryptography.x509.oid import NameOID

    return Name([NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: Name,
    key: EllipticCurvePrivateKey,
    issuer: Signed | None,
    days: int,
    *,
    hosts: Sequence[str] = (),
    authority: bool = False,
    starts: datetime | None = None,
) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import ExtendedKeyUsageOID

    signer = key if issuer is None else issuer.key
    begins = datetime.now(UTC) - _BACKDATED if starts is None else starts
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificates[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(authority=authority), critical=True)
    )
    if not authority:
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    if hosts:
        names = [_host(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, SHA256())


def _usage(*, authority: bool) -> KeyUsage:
    from cryptography.x509 import KeyUsage

    return KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> GeneralName:
    from cryptography.x509 import DNSName, IPAddress

    try:
        return IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return DNSName(host)
