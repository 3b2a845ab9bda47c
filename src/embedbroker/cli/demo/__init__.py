"""The demo: a day of orders through a broker pair and Spark, a failover in its middle, and a verdict."""

from ._command import run_demo

__all__ = ["run_demo"]
