"""The parameters of TLS in the URLs of acceptors and connectors.

Responsible for what only a file has: masked passwords, stores beside the file, parameters that name parts of Java. Does
not depend on the use of the settings, nor on the content of stores.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from embedclient.model import TLS_PARAMETERS, TLSSettings, read_tls_parameter

from ._document import Element
from ._findings import Findings
from ._security import Codec
from ._transport_url import TransportURL

__all__ = ["TLSParameters"]

_MASK = "maskPassword"
_PASSWORDS = ("keyStorePassword", "trustStorePassword")
_PATHS = ("keyStorePath", "trustStorePath", "crlPath")
# Ways to make a context that only Java has.
_OF_JAVA = ("sslContext", "useDefaultSslContext", "trustManagerFactoryPlugin")
_WITHOUT_EFFECT = {"sslProvider", "keyStoreProvider", "trustStoreProvider", "forceSSLParameters"}


class TLSParameters:
    """Read the parameters of TLS in one file.

    Args:
        codec: Decodes passwords.
        folder: Directory of the file. As in Artemis, a relative path may lead to a store in it.
        findings: Receives errors.
    """

    #: Parameters that have an effect where TLS is on.
    USED: ClassVar[frozenset[str]] = frozenset((TLS_PARAMETERS - _WITHOUT_EFFECT) | {_MASK})

    def __init__(self, codec: Codec, folder: Path, findings: Findings) -> None:
        self._codec = codec
        self._folder = folder
        self._findings = findings

    def is_on(self, element: Element, url: TransportURL) -> bool:
        """Return True if a URL switches TLS on."""
        try:
            return bool(read_tls_parameter("sslEnabled", url.parameters.get("sslEnabled", "false")))
        except ValueError:
            self._findings.refuse(element.place, "parameter 'sslEnabled' must be true or false")
            return False

    def of_acceptor(self, element: Element, url: TransportURL) -> TLSSettings | None:
        """Return the settings of an acceptor; None after an error."""
        settings = self._settings(element, self._changed(element, url))
        if settings is None:
            return None
        refuse, place = self._findings.refuse, element.place
        if url.parameters.get("verifyHost", "false").lower() != "false":
            refuse(place, "verifyHost=true is not supported on an acceptor: hosts of clients are not checked")
        if settings.key_store_path is None:
            refuse(place, "sslEnabled=true needs keyStorePath, a file with a private key and a certificate")
        if (settings.need_client_auth or settings.want_client_auth) and settings.trust_store_path is None:
            refuse(place, "needClientAuth and wantClientAuth need trustStorePath, the trusted authorities")
        return settings

    def of_connector(self, element: Element, url: TransportURL) -> TLSSettings | None:
        """Return the settings of a connector where they differ from its parameters; None otherwise, or after an error.

        The parameters are announced, so that they keep masks and paths.
        """
        changed = self._changed(element, url)
        settings = self._settings(element, changed)
        return settings if changed is not None and changed != dict(url.parameters) else None

    def _changed(self, element: Element, url: TransportURL) -> dict[str, str] | None:
        """Return the parameters with plain passwords and paths that lead to files; None after an error."""
        for name in _OF_JAVA:
            if url.parameters.get(name, "") not in ("", "false"):
                self._findings.refuse(
                    element.place, f"parameter {name!r} names a part of Java, which means nothing here"
                )
                return None
        parameters = dict(url.parameters)
        masked = parameters.get(_MASK, "").lower()
        for name in _PASSWORDS:
            if name in parameters:
                place = f"{element.place}, parameter {name!r}"
                password = self._codec.plain(parameters[name], place, masked == "true" if masked else None)
                if password is None:
                    return None
                parameters[name] = password
        for name in _PATHS:
            path = parameters.get(name)
            if path and not Path(path).exists() and (self._folder / path).exists():
                parameters[name] = str(self._folder / path)
        return parameters

    def _settings(self, element: Element, parameters: dict[str, str] | None) -> TLSSettings | None:
        if parameters is None:
            return None
        try:
            return TLSSettings.from_parameters(parameters)
        except ValueError as error:
            self._findings.refuse(element.place, f"TLS: {error}")
            return None
