"""CORE, the protocol of Artemis."""
