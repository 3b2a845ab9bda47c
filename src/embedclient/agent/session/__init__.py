"""Sessions of the agent: channel, requests, transactions and XA."""
