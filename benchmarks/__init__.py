"""Our broker and client beside Apache Artemis, in one run, as ratios: `nox -s bench`."""
