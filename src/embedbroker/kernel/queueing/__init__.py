"""Queues: order of messages, consumers, credit and back-pressure."""
