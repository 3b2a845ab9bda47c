"""Configuration files as values: Artemis' broker.xml, with properties and the environment, as a `BrokerConfig`."""

from ._findings import ConfigFileError
from ._load import load_config

__all__ = ["ConfigFileError", "load_config"]
