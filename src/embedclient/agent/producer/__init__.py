"""Producers of the agent: credit and sends in flight."""
