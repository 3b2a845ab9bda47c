"""Lets Spark find the format `embedbroker`: it asks packages whose names begin with `pyspark_` for a `DefaultSource`.

Refuses to do anything else. Spark imports it in a process of its own, so it loads what the data source's class needs
and no more.
"""

from __future__ import annotations

from embedbroker.pipeline import EmbedbrokerDataSource as DefaultSource

__all__ = ["DefaultSource"]
