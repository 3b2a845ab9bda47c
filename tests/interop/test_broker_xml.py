"""Our reading of broker.xml beside Artemis': its schema's names, and the files that its own command writes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from embedbroker.config import HAPolicy, PrimaryOnly, ReplicationBackup, ReplicationPrimary, SharedStorePrimary
from embedbroker.configfile import load_config
from embedbroker.configfile._names import places
from tests.interop.registry import artemis_home

XSD = "{http://www.w3.org/2001/XMLSchema}"
GROUPS = {f"{XSD}{name}" for name in ("sequence", "choice", "all", "complexContent", "simpleContent", "complexType")}


class Schema:
    """The places that Artemis' own schema has."""

    def __init__(self, file: Path) -> None:
        root = ElementTree.parse(file).getroot()
        self.types = {each.get("name"): each for each in root if each.tag == f"{XSD}complexType"}
        self.elements = {each.get("name"): each for each in root if each.tag == f"{XSD}element"}

    def places(self) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Each path below the outermost element, and whether the name may be repeated there."""
        yield from self._below(self.types["configurationType"], ("core",), repeats=False)

    def _below(
        self, node: ElementTree.Element, path: tuple[str, ...], *, repeats: bool
    ) -> Iterator[tuple[tuple[str, ...], bool]]:
        for child in node:
            often = repeats or child.get("maxOccurs") not in (None, "1", "0")
            if child.tag == f"{XSD}attribute":
                yield (*path, f"@{child.get('name')}"), False
            elif child.tag == f"{XSD}element":
                yield from self._element(child, path, repeats=often)
            elif child.tag == f"{XSD}extension":
                extended = self.types.get(child.get("base"))
                if extended is not None:
                    yield from self._below(extended, path, repeats=repeats)
                yield from self._below(child, path, repeats=repeats)
            elif child.tag in GROUPS:
                yield from self._below(child, path, repeats=often)

    def _element(
        self, element: ElementTree.Element, path: tuple[str, ...], *, repeats: bool
    ) -> Iterator[tuple[tuple[str, ...], bool]]:
        found = self.elements[element.get("ref")] if element.get("ref") else element
        stand_ins = [each for each in self.elements.values() if each.get("substitutionGroup") == found.get("name")]
        for each in stand_ins or [found]:
            below = (*path, str(each.get("name")))
            yield below, repeats
            kind = self.types.get(each.get("type"))
            yield from self._below(each if kind is None else kind, below, repeats=False)


def test_our_names_are_those_of_the_schema() -> None:
    theirs = dict(Schema(artemis_home() / "schema" / "artemis-configuration.xsd").places())
    found = {path: child for path, child in places() if path[0] == "core" and len(path) > 1}
    former = [path for path, child in found.items() if child.former]
    ours = {path: child.repeats for path, child in found.items() if all(path[: len(each)] != each for each in former)}
    assert ours == theirs


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ("", PrimaryOnly()),
        ("--clustered --cluster-user a --cluster-password b --host localhost", PrimaryOnly()),
        (
            "--replicated --clustered --cluster-user a --cluster-password b --host localhost --max-hops 1",
            ReplicationPrimary(vote_on_replication_failure=True),
        ),
        (
            "--replicated --slave --clustered --cluster-user a --cluster-password b --host localhost "
            "--static-cluster tcp://localhost:61617",
            ReplicationBackup(),
        ),
        ("--shared-store --clustered --cluster-user a --cluster-password b --host localhost", SharedStorePrimary()),
        (
            "--shared-store --failover-on-shutdown --clustered --cluster-user a --cluster-password b --host localhost "
            "--journal-retention 7 --paging --require-login --global-max-size 1G",
            SharedStorePrimary(True),
        ),
        ("--jdbc --no-autocreate --blocking --disable-persistence --security-manager basic", PrimaryOnly()),
    ],
)
def test_a_file_that_artemis_creates_loads(options: str, policy: HAPolicy, tmp_path: Path) -> None:
    instance = tmp_path / "instance"
    always = ["--no-web", "--silent", "--allow-anonymous", "--user", "u", "--password", "p", "--nio", "--no-fsync"]
    command: list[str | Path] = [artemis_home() / "bin" / "artemis", "create", instance, *always, *options.split()]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    warnings: list[str] = []
    config = load_config(instance / "etc" / "broker.xml", on_warning=warnings.append)
    assert config.ha_policy == policy
    assert config.port == 61616
    assert (config.cluster_connection is not None) == ("--clustered" in options)
    assert len(warnings) == len(set(warnings))
