"""The subject of a certificate as text, in the form of Java's ``getSubjectDN().getName()``.

Responsible for short names, order and quotes. Does not depend on certificates' encodings: `ssl` decodes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["subject_text"]

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "T",
    "surname": "SURNAME",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATION",
    "dnQualifier": "DNQUALIFIER",
    "serialNumber": "SERIALNUMBER",
    "domainComponent": "DC",
    "userId": "UID",
    "emailAddress": "EMAILADDRESS",
}
_SPECIAL = frozenset(',+=\n<>#;\\"')


def subject_text(certificate: Mapping[str, Any]) -> str:
    """Return the subject of a certificate that `ssl.SSLSocket.getpeercert` decoded, such as ``CN=app, O=Example``."""
    # Java shows the last part of the encoding first.
    return ", ".join(
        " + ".join(f"{_SHORT.get(name, name)}={_quoted(value)}" for name, value in part)
        for part in reversed(certificate.get("subject", ()))
    )


def _quoted(value: str) -> str:
    if value == value.strip() and "  " not in value and _SPECIAL.isdisjoint(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
