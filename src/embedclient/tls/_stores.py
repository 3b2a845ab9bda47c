"""Key stores and trust stores: PEM and PKCS12 files, as `cryptography` reads them.

Responsible for the kinds of files, which their content decides, and for errors that name the file and the remedy. Does
not depend on the use of what is read.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

__all__ = ["KeyStore", "TLSStoreError", "read_file", "read_key_store", "read_trust_store", "store_error"]

# The system ran out of something that others give back.
_SHORTAGES = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.ESTALE, errno.ENOSPC, errno.EDQUOT}
)
_JKS, _JCEKS = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_PEM = b"-----BEGIN "
_CERTIFICATES = re.compile(rb"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----.*?-----END [A-Z0-9 ]*-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----.*?-----END [A-Z0-9 ]*PRIVATE KEY-----", re.DOTALL)
_PEM_SOURCE = re.compile(r"^\s*source\.(?P<kind>key|cert)\s*[=:]\s*(?P<path>.+?)\s*$", re.MULTILINE)


class TLSStoreError(Exception):
    """A file of certificates or keys cannot be used; the text names the file, the reason and the remedy.

    ``passes``: the system was short of something, and the same file may be usable a moment later.
    """

    def __init__(self, text: str, *, passes: bool = False) -> None:
        super().__init__(text)
        self.passes = passes


def store_error(text: str, error: OSError) -> TLSStoreError:
    """Return the error about a file for which the system refused a call."""
    return TLSStoreError(f"{text}: {error.strerror or error}", passes=error.errno in _SHORTAGES)


@frozen
class KeyStore:
    """A private key, and its certificates, the key's own first. ``paths`` are the files that were read."""

    key: PrivateKeyTypes = field(repr=False)
    certificates: list[Certificate]
    paths: tuple[str, ...]


def read_file(path: str, what: str) -> bytes:
    """Return the content of a file that a setting names.

    Raises:
        TLSStoreError: the file cannot be read.
    """
    try:
        with open(path, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise store_error(f"the {what} {path!r} cannot be read", error) from error
    except ValueError as error:  # a path with a NUL
        raise TLSStoreError(f"the {what} {path!r} cannot be read: it is no path") from error


def read_key_store(path: str, password: str | None, kind: str | None = None, alias: str | None = None) -> KeyStore:
    """Read a private key and its certificates.

    Raises:
        TLSStoreError: the file is missing or of another kind, the password is wrong, or no certificate fits to the key.
    """
    content = read_file(path, "key store")
    paths: tuple[str, ...] = (path,)
    if (kind or "").upper() == "PEMCFG" and not content.lstrip().startswith(_PEM):
        sources = dict.fromkeys(("key", "cert"), "")
        sources.update((match["kind"], match["path"]) for match in _PEM_SOURCE.finditer(content.decode("latin-1")))
        if not all(sources.values()):
            raise TLSStoreError(f"the key store {path!r} needs two lines, source.key=... and source.cert=...")
        paths = (path, *sources.values())
        content = b"\n".join(read_file(source, "key store") for source in sources.values())
    _refuse_jks(path, "key store", content)
    key: PrivateKeyTypes
    if _PEM in content:
        key, certificates = _pem_key(path, content, password)
    else:
        opened = _open_pkcs12(path, "key store", content, password)
        if opened.key is None or opened.cert is None:
            raise TLSStoreError(f"the key store {path!r} has no private key with a certificate")
        name = (opened.cert.friendly_name or b"").decode("utf-8", "replace")
        if alias is not None and name.lower() != alias.lower():
            raise TLSStoreError(f"the key store {path!r} has the key {name!r}, not {alias!r}; correct keyStoreAlias")
        key = opened.key
        certificates = [opened.cert.certificate, *(each.certificate for each in opened.additional_certs)]
    return KeyStore(key, _own_first(path, key, certificates), paths)


def read_trust_store(path: str, password: str | None) -> list[Certificate]:
    """Read certificates of authorities.

    Raises:
        TLSStoreError: the file is missing or of another kind, the password is wrong, or there is no certificate.
    """
    content = read_file(path, "trust store")
    _refuse_jks(path, "trust store", content)
    if _PEM in content:
        found = _pem_certificates(path, "trust store", content)
    else:
        opened = _open_pkcs12(path, "trust store", content, password)
        entries = [*([opened.cert] if opened.cert is not None else []), *opened.additional_certs]
        found = [entry.certificate for entry in entries]
    if not found:
        raise TLSStoreError(f"the trust store {path!r} has no certificate")
    return found


def _refuse_jks(path: str, what: str, content: bytes) -> None:
    kind = {_JKS: "JKS", _JCEKS: "JCEKS"}.get(content[:4])
    if kind is None:
        return
    stem = path.rpartition(".")[0] or path
    raise TLSStoreError(
        f"the {what} {path!r} is a {kind} file, which only Java reads; convert it: keytool -importkeystore "
        f"-srckeystore {path} -srcstoretype {kind} -destkeystore {stem}.p12 -deststoretype PKCS12"
    )


def _open_pkcs12(path: str, what: str, content: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    setting = "keyStorePassword" if what == "key store" else "trustStorePassword"
    if not content.startswith(b"\x30"):
        raise TLSStoreError(f"the {what} {path!r} is neither a PEM nor a PKCS12 file")
    try:
        return load_pkcs12(content, None if password is None else password.encode())
    except ValueError as error:
        if "password" in str(error).lower():
            reason = f"{setting} is wrong" if password is not None else f"it needs {setting}"
        else:
            reason = "it is no PKCS12 file, or damaged"
        raise TLSStoreError(f"the {what} {path!r} cannot be opened: {reason}") from error
    except (UnsupportedAlgorithm, TypeError) as error:
        raise TLSStoreError(f"the {what} {path!r} cannot be opened: {error}") from error


def _pem_key(path: str, content: bytes, password: str | None) -> tuple[PrivateKeyTypes, list[Certificate]]:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    found = _KEY.search(content)
    if found is None:
        raise TLSStoreError(f"the key store {path!r} has no private key; put key and certificates into one PEM file")
    is_encrypted = b"ENCRYPTED" in found[0][:200]
    if is_encrypted and password is None:
        raise TLSStoreError(f"the key store {path!r} has an encrypted key: it needs keyStorePassword")
    try:
        key = load_pem_private_key(found[0], password.encode() if is_encrypted and password is not None else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        reason = "keyStorePassword is wrong, or the key is damaged" if is_encrypted else "its private key is damaged"
        raise TLSStoreError(f"the key store {path!r} cannot be opened: {reason}") from error
    return key, _pem_certificates(path, "key store", content)


def _pem_certificates(path: str, what: str, content: bytes) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificate

    try:
        return [load_pem_x509_certificate(match[0]) for match in _CERTIFICATES.finditer(content)]
    except ValueError as error:
        raise TLSStoreError(f"the {what} {path!r} has a certificate that is damaged") from error


def _own_first(path: str, key: PrivateKeyTypes, certificates: list[Certificate]) -> list[Certificate]:
    if not certificates:
        raise TLSStoreError(f"the key store {path!r} has no certificate; put key and certificates into one PEM file")
    public = key.public_key()
    own = next((each for each in certificates if each.public_key() == public), None)
    if own is None:
        raise TLSStoreError(f"the key store {path!r} has no certificate of its private key")
    return [own, *(each for each in certificates if each is not own)]
