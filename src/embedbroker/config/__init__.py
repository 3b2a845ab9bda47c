"""Frozen configuration values of one broker, validated once."""

from ._address_settings import AddressFullPolicy, AddressSettings, AddressSettingsRepository
from ._broker import BrokerConfig, MemoryShares

__all__ = ["AddressFullPolicy", "AddressSettings", "AddressSettingsRepository", "BrokerConfig", "MemoryShares"]
