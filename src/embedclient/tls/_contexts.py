"""Contexts of `ssl` made of settings, and made again when their files change.

Responsible for the meaning of each setting, and for the time at which files are read: when the first connection needs
them, and when they have changed since. Does not depend on connections.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import ssl
import tempfile
import warnings
from collections import OrderedDict
from datetime import UTC, datetime

from embedclient.model import IN_VM_CONNECTOR_FACTORY, TLS, TLSContext, TLSSettings, TransportConfiguration

from ._connection import TLSConnection, TLSError
from ._stores import KeyStore, TLSStoreError, read_file, read_key_store, read_trust_store, store_error
from ._suites import openssl_names, splits_versions

__all__ = ["AcceptorTLS", "TLSStoreError", "connector_tls", "log_as"]

_CONTEXTS_MAX = 64
_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_Stamp = tuple[int, int, int] | None
_log = logging.getLogger("embedclient.tls")


def log_as(logger: logging.Logger) -> None:
    """Send warnings about certificates to another logger."""
    global _log
    _log = logger


class _CurrentContext:
    """The context of one end, made again when a file of it has changed."""

    def __init__(self, settings: TLSSettings, *, server_side: bool) -> None:
        self._settings = settings
        self._server_side = server_side
        self._context: ssl.SSLContext | None = None
        self._paths: tuple[str, ...] = ()
        self._stamps: list[_Stamp] = []
        # The files of the last failure, and whether it passes: it is reported once for each change.
        self._reported: tuple[list[_Stamp], bool] | None = None

    def get(self) -> ssl.SSLContext:
        """Return the context of the files as they are now.

        Files that cannot be used after a change leave the present context in force; the log names the reason once.
        After a shortage of the system, the next connection reads them again.

        Raises:
            TLSStoreError: there is no context yet, and the files cannot be used.
        """
        context = self._context
        if context is None:
            return self._load()
        if self._settings.auto_reload:
            stamps = [_stamp(path) for path in self._paths]
            if stamps != self._stamps:
                try:
                    context = self._load()
                    _log.info("TLS: the changed files %s apply to new connections", ", ".join(self._paths))
                except TLSStoreError as error:
                    if not error.passes:
                        self._stamps = stamps
                    if (stamps, error.passes) != self._reported:
                        self._reported = stamps, error.passes
                        when = " until the shortage is over" if error.passes else ""
                        _log.error("TLS: the certificates stay as they were%s: %s", when, error)
        return context

    def reload(self) -> None:
        """Read the files now.

        Raises:
            TLSStoreError: the files cannot be used, and the present context stays in force.
        """
        self._load()

    def _load(self) -> ssl.SSLContext:
        settings = self._settings
        named = (settings.key_store_path, settings.trust_store_path, settings.crl_path)
        paths = tuple(path for path in named if path is not None)
        # Before the files are read: a change meanwhile counts as one.
        stamps = [_stamp(path) for path in paths]
        context, more = make_context(settings, server_side=self._server_side)
        added = [path for path in more if path not in paths]
        self._paths, self._stamps = (*paths, *added), [*stamps, *map(_stamp, added)]
        self._context = context
        return context


class AcceptorTLS:
    """The context of a broker that accepts connections."""

    def __init__(self, tls: TLS) -> None:
        self._current = _CurrentContext(tls, server_side=True) if isinstance(tls, TLSSettings) else None
        self._given = None if isinstance(tls, TLSSettings) else tls

    def check(self) -> None:
        """Read the files, and try the context.

        Raises:
            TLSStoreError: no connection could be accepted.
        """
        try:
            TLSConnection(self.context(), server_side=True)
        except TLSError as error:
            raise TLSStoreError(error.reason) from error

    def reload(self) -> None:
        """Read the files again, for the next connection. A context that the program made stays.

        Raises:
            TLSStoreError: the files cannot be used, and the present context stays in force.
        """
        if self._current is not None:
            self._current.reload()

    def context(self) -> TLSContext:
        """Return the context for the next connection.

        Raises:
            TLSStoreError: the files cannot be used.
        """
        if self._current is not None:
            return self._current.get()
        assert self._given is not None
        return self._given


# Contexts of connectors by their settings, the one used last at the end. A context takes milliseconds to make, and a
# client that reconnects needs the same again.
_connectors: OrderedDict[TLSSettings, _CurrentContext] = OrderedDict()


def connector_tls(configuration: TransportConfiguration) -> tuple[TLSContext, str] | None:
    """Return the context for a connector and the host name to request; None for a connector without TLS.

    Raises:
        TLSStoreError: the files cannot be used, or a parameter has a wrong value.
    """
    if configuration.factory == IN_VM_CONNECTOR_FACTORY or not configuration.is_secure:
        return None
    try:
        tls = configuration.tls or TLSSettings.from_parameters(configuration.parameters)
    except (ValueError, TypeError) as error:
        raise TLSStoreError(f"connector {configuration.name!r}: {error.args[0]}") from error
    host = str(configuration.parameters.get("sniHost") or configuration.host)
    if not isinstance(tls, TLSSettings):
        return tls, host
    current = _connectors.pop(tls, None) or _CurrentContext(tls, server_side=False)
    _connectors[tls] = current
    if len(_connectors) > _CONTEXTS_MAX:
        _connectors.popitem(last=False)
    return current.get(), tls.sni_host or host


def make_context(settings: TLSSettings, *, server_side: bool) -> tuple[ssl.SSLContext, tuple[str, ...]]:
    """Make a context for one end. Return it with the files that were read.

    Raises:
        TLSStoreError: a file cannot be used, or a setting means nothing to this system.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if server_side:
        # A ticket follows the handshake, and is unread by a client that only sends: when that closes, the system resets
        # the connection, and the last bytes may be lost.
        context.num_tickets = 0
    _restrict(context, settings)
    paths: list[str] = []
    if settings.key_store_path is not None:
        store = read_key_store(
            settings.key_store_path, settings.key_store_password, settings.key_store_type, settings.key_store_alias
        )
        _warn_of_dates(store, settings.key_store_path)
        _load_key(context, store)
        paths += store.paths
    elif server_side:
        raise TLSStoreError("an acceptor with TLS needs a private key and a certificate; set keyStorePath")
    if server_side:
        _verify_clients(context, settings)
    else:
        _verify_broker(context, settings)
    if settings.crl_path is not None:
        read_file(settings.crl_path, "revocation list")
        try:
            context.load_verify_locations(settings.crl_path)
        except ssl.SSLError as error:
            raise TLSStoreError(f"the revocation list {settings.crl_path!r} is no PEM file with one") from error
        except OSError as error:
            raise store_error(f"the revocation list {settings.crl_path!r} cannot be read", error) from error
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        paths.append(settings.crl_path)
    return context, tuple(paths)


def _verify_clients(context: ssl.SSLContext, settings: TLSSettings) -> None:
    if settings.need_client_auth or settings.want_client_auth:
        if settings.trust_store_path is None:
            name = "needClientAuth" if settings.need_client_auth else "wantClientAuth"
            raise TLSStoreError(f"{name} needs trustStorePath, the authorities that sign certificates of clients")
        _trust(context, settings.trust_store_path, settings.trust_store_password)
        context.verify_mode = ssl.CERT_REQUIRED if settings.need_client_auth else ssl.CERT_OPTIONAL
    if settings.sni_host is not None:
        try:
            allowed = re.compile(settings.sni_host, re.IGNORECASE)
        except re.error as error:
            raise TLSStoreError(f"sniHost of an acceptor must be a regular expression: {error}") from error

        def check(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> int | None:
            is_allowed = name is None or allowed.fullmatch(name) is not None
            return None if is_allowed else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

        context.sni_callback = check


def _verify_broker(context: ssl.SSLContext, settings: TLSSettings) -> None:
    if settings.trust_all:
        _log.warning("TLS: trustAll=true accepts every broker, also a false one; it is for tests only")
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return
    context.check_hostname = settings.verify_host
    if settings.trust_store_path is not None:
        _trust(context, settings.trust_store_path, settings.trust_store_password)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)


def _trust(context: ssl.SSLContext, path: str, password: str | None) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    content = b"".join(each.public_bytes(Encoding.DER) for each in read_trust_store(path, password))
    try:
        context.load_verify_locations(cadata=content)
    except ssl.SSLError as error:
        raise TLSStoreError(
            f"the trust store {path!r} has a certificate that cannot be used: {error.reason}"
        ) from error


def _load_key(context: ssl.SSLContext, store: KeyStore) -> None:
    """Give a key to a context, which reads keys from files only: the file is encrypted, and removed at once."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    password = secrets.token_bytes(16).hex()
    content = store.key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
    ) + b"".join(each.public_bytes(Encoding.PEM) for each in store.certificates)
    path = None
    try:
        descriptor, path = tempfile.mkstemp(prefix="embedclient-tls-")
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
        context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        raise TLSStoreError(f"the key store {store.paths[0]!r} cannot be used: {error.reason or error}") from error
    except OSError as error:
        raise store_error(f"the key store {store.paths[0]!r} needs a temporary file for a moment", error) from error
    finally:
        if path is not None:
            os.unlink(path)


def _restrict(context: ssl.SSLContext, settings: TLSSettings) -> None:
    allowed = [name for name in _VERSIONS if name in settings.enabled_protocols]
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if allowed:
        with warnings.catch_warnings():
            # The old versions are deprecated, and the choice of the user.
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = _VERSIONS[allowed[0]]
            context.maximum_version = _VERSIONS[allowed[-1]]
        ordered = list(_VERSIONS)
        between = ordered[ordered.index(allowed[0]) : ordered.index(allowed[-1]) + 1]
        if between != allowed:
            raise TLSStoreError(f"enabledProtocols must have no gaps: {', '.join(between)}, not {', '.join(allowed)}")
    if not settings.enabled_cipher_suites:
        return
    older, newest = splits_versions(settings.enabled_cipher_suites)
    if older:
        names = openssl_names(older)
        for suite, name in zip(older, names, strict=True):
            try:
                context.set_ciphers(name)
            except ssl.SSLError as error:
                raise TLSStoreError(f"enabledCipherSuites: this system has no suite {suite!r}") from error
        context.set_ciphers(":".join(names))
    # The suites of TLSv1.3 cannot be chosen, so that a list without them excludes that version, and the reverse.
    if not newest and context.minimum_version < ssl.TLSVersion.TLSv1_3:
        context.maximum_version = min(_highest(context), ssl.TLSVersion.TLSv1_2)
    if not older and _highest(context) >= ssl.TLSVersion.TLSv1_3:
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def _highest(context: ssl.SSLContext) -> ssl.TLSVersion:
    highest = context.maximum_version
    return ssl.TLSVersion.TLSv1_3 if highest == ssl.TLSVersion.MAXIMUM_SUPPORTED else highest


def _warn_of_dates(store: KeyStore, path: str) -> None:
    own = store.certificates[0]
    now = datetime.now(UTC)
    if own.not_valid_after_utc < now:
        _log.warning("TLS: the certificate in %r has expired on %s", path, own.not_valid_after_utc.date())
    elif own.not_valid_before_utc > now:
        _log.warning("TLS: the certificate in %r is not valid before %s", path, own.not_valid_before_utc)


def _stamp(path: str) -> _Stamp:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
