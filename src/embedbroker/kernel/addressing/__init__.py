"""Addresses, the queues bound to them, and their settings."""
