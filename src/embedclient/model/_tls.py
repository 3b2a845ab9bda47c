"""Settings of TLS, for both ends of a connection, in the vocabulary of Artemis' URLs.

Responsible for the values, for their names in URLs, and for the checks that need no file. Does not depend on the
library that encrypts, nor on the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from attrs import field, frozen

from ._checks import instance, optional
from ._similar_name import did_you_mean

if TYPE_CHECKING:
    from attrs import Attribute

__all__ = ["TLS", "TLSContext", "TLSSettings", "as_tls", "read_tls_parameter", "tls_parameter_name"]

# The oldest first. Java's lists often have the last one, which names a form of the first message only.
PROTOCOLS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_IGNORED_PROTOCOLS = ("SSLv2Hello",)
STORE_TYPES = ("PKCS12", "PEM", "PEMCA", "PEMCFG", "JKS", "JCEKS")


class TLSContext(Protocol):
    """A context of Python's `ssl`; `ssl.SSLContext` is one."""

    def wrap_bio(
        self, incoming: Any, outgoing: Any, server_side: bool = False, server_hostname: str | bytes | None = None
    ) -> Any: ...


def _names(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"a list of names is needed, or a text with commas, not {value!r}")
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def _protocols(_: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    known = [name for name in value if name not in _IGNORED_PROTOCOLS]
    for name in known:
        if name not in PROTOCOLS:
            raise ValueError(f"{attribute.name} must be of {', '.join(PROTOCOLS)}, not {name!r}")
    if value and not known:
        raise ValueError(f"{attribute.name} must name one of {', '.join(PROTOCOLS)}")


def _store_type(_: object, attribute: Attribute[str | None], value: object) -> None:
    if value is not None and (not isinstance(value, str) or value.upper() not in STORE_TYPES):
        near = did_you_mean(str(value), STORE_TYPES)
        raise ValueError(f"{attribute.name} must be one of {', '.join(STORE_TYPES)}, not {value!r}{near}")


_text = optional(instance(str))
_flag = instance(bool)


@frozen(kw_only=True)
class TLSSettings:
    """How one end of a connection proves its identity with TLS, and which peers it trusts.

    A store is a PEM file or a PKCS12 file; its content decides. A JKS file is refused.

    Attributes:
        key_store_path: File with the private key and its certificates. A broker that listens needs one; a client needs
            one when the broker requires certificates of its clients. URL name: ``keyStorePath``.
        key_store_password: Password of that file, or of an encrypted key in a PEM file.
        key_store_type: Expected type of that file; the content decides between PEM and PKCS12. With ``PEMCFG`` the file
            has lines ``source.key=...`` and ``source.cert=...``.
        key_store_alias: Name that the key must have in a PKCS12 file.
        trust_store_path: File with the certificates of the trusted authorities; None: those of the system.
        trust_store_password: Password of that file.
        trust_store_type: Expected type of that file.
        crl_path: PEM file with certificate revocation lists; None: revocation is not checked.
        enabled_protocols: Allowed versions, without gaps; empty: TLSv1.2 and later.
        enabled_cipher_suites: Allowed suites, by their names in Java or in OpenSSL; empty: those of Python.
        need_client_auth: Whether a broker refuses clients without a trusted certificate. Needs a trust store.
        want_client_auth: Whether a broker requests a certificate, and accepts clients without one.
        verify_host: Whether a client requires that the broker's certificate is valid for the host it connects to.
        sni_host: Of a client: host name that is requested, in place of the host it connects to. Of a broker: regular
            expression; clients that request another name are refused.
        trust_all: Whether a client trusts every certificate, for tests only.
        auto_reload: Whether changed files apply to the next connection. URL name: ``sslAutoReload``.

    Raises:
        ValueError, TypeError: a value is out of its range; the text names the field.
    """

    key_store_path: str | None = field(default=None, validator=_text)
    key_store_password: str | None = field(default=None, validator=_text, repr=False)
    key_store_type: str | None = field(default=None, validator=_store_type)
    key_store_alias: str | None = field(default=None, validator=_text)
    trust_store_path: str | None = field(default=None, validator=_text)
    trust_store_password: str | None = field(default=None, validator=_text, repr=False)
    trust_store_type: str | None = field(default=None, validator=_store_type)
    crl_path: str | None = field(default=None, validator=_text)
    enabled_protocols: tuple[str, ...] = field(default=(), converter=_names, validator=_protocols)
    enabled_cipher_suites: tuple[str, ...] = field(default=(), converter=_names)
    need_client_auth: bool = field(default=False, validator=_flag)
    want_client_auth: bool = field(default=False, validator=_flag)
    verify_host: bool = field(default=True, validator=_flag)
    sni_host: str | None = field(default=None, validator=_text)
    trust_all: bool = field(default=False, validator=_flag)
    auto_reload: bool = field(default=True, validator=_flag)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, bool | int | str]) -> TLSSettings:
        """Return the settings that the parameters of a URL name; other parameters are left out.

        Raises:
            ValueError: a value cannot be used; the text names the parameter, and no value that may be secret.
        """
        values: dict[str, Any] = {}
        for name, attribute in URL_NAMES.items():
            if name in parameters:
                values[attribute] = read_tls_parameter(name, parameters[name])
        for name, attribute in _PROVIDERS.items():
            # Before version 2.18 the provider named the type.
            provider = str(parameters.get(name, "")).upper()
            if provider in STORE_TYPES:
                values.setdefault(attribute, provider)
        try:
            return cls(**values)
        except ValueError as error:
            # The value may be part of a password, after which a sign was lost.
            reason = str(error.args[0]).partition(", not ")[0]
            attribute, _, rest = reason.partition(" ")
            raise ValueError(f"{_IN_URLS.get(attribute, attribute)} {rest}") from None


#: What switches TLS on at one end: settings with files, or a context that the program made.
TLS: TypeAlias = TLSSettings | TLSContext

# URL name -> field
URL_NAMES = {
    "keyStorePath": "key_store_path",
    "keyStorePassword": "key_store_password",
    "keyStoreType": "key_store_type",
    "keyStoreAlias": "key_store_alias",
    "trustStorePath": "trust_store_path",
    "trustStorePassword": "trust_store_password",
    "trustStoreType": "trust_store_type",
    "crlPath": "crl_path",
    "enabledProtocols": "enabled_protocols",
    "enabledCipherSuites": "enabled_cipher_suites",
    "needClientAuth": "need_client_auth",
    "wantClientAuth": "want_client_auth",
    "verifyHost": "verify_host",
    "sniHost": "sni_host",
    "trustAll": "trust_all",
    "sslAutoReload": "auto_reload",
}
_IN_URLS = {attribute: name for name, attribute in URL_NAMES.items()}
_PROVIDERS = {"keyStoreProvider": "key_store_type", "trustStoreProvider": "trust_store_type"}
_FLAGS = frozenset(
    ("sslEnabled", "needClientAuth", "wantClientAuth", "verifyHost", "trustAll", "sslAutoReload", "forceSSLParameters")
)


def read_tls_parameter(name: str, value: bool | int | str) -> bool | str | None:
    """Return the value of one TLS parameter of a URL; None for an empty text.

    Raises:
        ValueError: a flag is neither true nor false; the text names the parameter.
    """
    if name not in _FLAGS:
        return str(value) if value != "" else None
    if isinstance(value, bool):
        return value
    lowered = str(value).lower()
    if lowered not in ("true", "false"):
        raise ValueError(f"{name} must be true or false")
    return lowered == "true"


def as_tls(_: object, attribute: Attribute[Any], value: object) -> None:
    """Check a value that switches TLS on: `TLSSettings`, a context of `ssl`, or None."""
    if value is not None and not isinstance(value, TLSSettings) and not callable(getattr(value, "wrap_bio", None)):
        raise TypeError(f"{attribute.name} must be TLSSettings or an ssl.SSLContext, not {type(value).__name__}")


def tls_parameter_name(field_name: str) -> str:
    """Return the name that a field of `TLSSettings` has in URLs."""
    return _IN_URLS[field_name]
