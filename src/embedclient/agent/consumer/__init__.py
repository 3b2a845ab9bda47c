"""Consumers of the agent: credit, prefetch and acknowledgements."""
