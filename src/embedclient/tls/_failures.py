"""Texts for failures of TLS: what is wrong, and what to do.

Responsible for the translation of OpenSSL's reasons. Does not depend on the state of a connection.
"""

from __future__ import annotations

import ssl

__all__ = ["explain"]

# Codes of OpenSSL's check of a certificate chain.
_NOT_YET_VALID, _EXPIRED = (9, 11), (10, 12)
_UNKNOWN_CA = (2, 18, 19, 20, 21)
_REVOKED, _NO_CRL = (23,), (3,)
_WRONG_NAME = (62, 64)
_WRONG_PURPOSE = (26,)

# What the peer refused: its alert, by OpenSSL's name, and what to do at this end.
_ALERTS = {
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the authority of this end's certificate; add the authority to its "
    "trustStorePath",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this end's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept this end's certificate; check its trustStorePath, and the "
    "host name in the certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this end's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "this end's certificate is revoked",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "this end's certificate is for another purpose",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires a certificate of this end; set keyStorePath",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it allows none of the TLS versions of this end; compare enabledProtocols of both",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the two ends have no cipher suite in common, or a certificate is missing; "
    "compare enabledCipherSuites of both, and set keyStorePath if it requires a certificate",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": "it requires stronger cipher suites; compare enabledCipherSuites of both",
    "TLSV1_UNRECOGNIZED_NAME": "it does not serve the requested host name; check sniHost of both",
    "TLSV1_ALERT_INTERNAL_ERROR": "it reports an internal error",
    "TLSV1_ALERT_DECRYPT_ERROR": "a signature of the handshake is wrong",
    "SSLV3_ALERT_UNEXPECTED_MESSAGE": "the messages of the handshake have the wrong order",
}
# What this end refused.
_REASONS = {
    "WRONG_VERSION_NUMBER": "the peer's bytes are not TLS; compare sslEnabled of both",
    "HTTP_REQUEST": "the peer's bytes are HTTP",
    "HTTPS_PROXY_REQUEST": "the peer's bytes are HTTP",
    "UNSUPPORTED_PROTOCOL": "the two ends have no TLS version in common; compare enabledProtocols of both",
    "NO_PROTOCOLS_AVAILABLE": "enabledProtocols allows no version that this system has",
    "NO_SHARED_CIPHER": "the two ends have no cipher suite in common; compare enabledCipherSuites of both, and the "
    "type of the key",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, and needClientAuth requires one; set "
    "keyStorePath at the client",
    "CALLBACK_FAILED": "the requested host name is not served here; compare sniHost of both",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "the key does not fit to the peer's signature algorithms",
    "EE_KEY_TOO_SMALL": "the key of a certificate is too short",
    "CA_MD_TOO_WEAK": "a certificate is signed with a weak digest",
    "UNEXPECTED_EOF_WHILE_READING": "the peer closed the connection",
}


def explain(error: ssl.SSLError, *, server_side: bool, host: str) -> str:
    """Return the reason of a failure as a sentence about the peer, with a remedy where one is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate_text(error, server_side=server_side, host=host)
    reason = error.reason or ""
    if reason in _ALERTS:
        return f"the {'client' if server_side else 'broker'} refused the TLS handshake: {_ALERTS[reason]}"
    if reason in _REASONS:
        return f"TLS failed: {_REASONS[reason]}"
    detail = reason.lower().replace("_", " ") or str(error.args[-1] if error.args else error)
    return f"TLS failed: {detail}"


def _certificate_text(error: ssl.SSLCertVerificationError, *, server_side: bool, host: str) -> str:
    whose = "the client's certificate" if server_side else "the broker's certificate"
    code = error.verify_code
    if code in _EXPIRED:
        return f"{whose} has expired; it must be renewed, or a clock is wrong"
    if code in _NOT_YET_VALID:
        return f"{whose} is not valid yet; a clock is wrong"
    if code in _WRONG_NAME:
        return (
            f"{whose} is not valid for host {host!r}; connect by a name that the certificate has, or set "
            "verifyHost=false to accept any name"
        )
    if code in _UNKNOWN_CA:
        return f"{whose} is not signed by a trusted authority; name the authority's certificate with trustStorePath"
    if code in _REVOKED:
        return f"{whose} is revoked"
    if code in _NO_CRL:
        return f"{whose} has an authority without a revocation list in crlPath"
    if code in _WRONG_PURPOSE:
        return f"{whose} is for another purpose"
    return f"{whose} is not accepted: {error.verify_message}"
