"""The CORE protocol of Apache Artemis as bytes and values."""
