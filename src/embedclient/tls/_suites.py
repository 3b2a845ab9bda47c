"""Names of cipher suites: those of Java, which are the registered ones, as those of OpenSSL.

Does not depend on the suites that a system has.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["openssl_names", "splits_versions"]

_TLS13 = ("TLS_AES_", "TLS_CHACHA20_")


def splits_versions(suites: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the suites of TLSv1.2 and older, and those of TLSv1.3."""
    older: list[str] = []
    newest: list[str] = []
    for suite in suites:
        (newest if suite.upper().startswith(_TLS13) else older).append(suite)
    return older, newest


def openssl_names(suites: Iterable[str]) -> list[str]:
    """Return the names in OpenSSL: ``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`` is ``ECDHE-RSA-AES128-GCM-SHA256``."""
    return [_openssl_name(suite) for suite in suites]


def _openssl_name(suite: str) -> str:
    exchange, with_, cipher = suite.upper().partition("_WITH_")
    if not with_:
        return suite
    exchange = exchange.removeprefix("TLS_").removeprefix("SSL_").replace("_", "-")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305").replace("3DES_EDE_CBC", "DES-CBC3")
    cipher = cipher.replace("_CBC", "").replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange}-{cipher}"
