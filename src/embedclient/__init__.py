"""A JMS-like client for Apache Artemis and embedbroker."""
