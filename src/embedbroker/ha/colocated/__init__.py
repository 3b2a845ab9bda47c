"""Colocated backups: a broker requests that another one hosts a backup of it, and hosts backups of others."""

from ._hosting import BackupHosting
from ._requester import BackupRequester

__all__ = ["BackupHosting", "BackupRequester"]
