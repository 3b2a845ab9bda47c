"""The version that the broker reports is that of the package, behind the last release; the Pythons are those tested."""

import re
import tomllib
from pathlib import Path

from embedbroker.management import VERSION

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_broker_names_the_version_of_the_package() -> None:
    assert PROJECT["version"] == VERSION


def test_the_version_is_behind_the_newest_release_of_the_changelog() -> None:
    released = re.search(r"^## (\d+)\.(\d+)\.(\d+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(\.dev\d+)?", VERSION)
    assert released is not None and version is not None
    newest, own = (tuple(int(number) for number in found.groups()[:3]) for found in (released, version))
    # Between two releases it is a development version of the next one; at a release it is that one.
    assert own == newest if version[4] is None else own > newest


def test_the_versions_of_python_that_are_advertised_are_those_that_are_tested() -> None:
    advertised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    tested = re.search(r"^PYTHONS = (\[.*?\])", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    newer = re.search(r'^export newer_versions="(.*)"$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert tested is not None and newer is not None
    assert re.findall(r"[\d.]+", tested[1]) == advertised
    assert newer[1].split() == advertised[:0:-1]  # newest first, without the oldest, which runs everything
