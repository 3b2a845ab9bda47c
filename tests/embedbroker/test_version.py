"""The version that the broker reports is the version of the package."""

from importlib.metadata import version

from embedbroker.management import VERSION


def test_the_broker_names_the_version_of_the_package() -> None:
    assert version("embedbroker") == VERSION
