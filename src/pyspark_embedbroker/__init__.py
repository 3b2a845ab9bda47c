"""Lets Spark find the format `embedbroker`: Spark looks for a `DefaultSource` in packages named `pyspark_*`.

Does nothing else. Spark imports it in a separate process, so it loads only what the data source's class needs.
"""

from __future__ import annotations

from embedbroker.pipeline import EmbedbrokerDataSource as DefaultSource

__all__ = ["DefaultSource"]
