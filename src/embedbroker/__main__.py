"""`python -m embedbroker`: the command line where no script is installed."""

from embedbroker.cli import main

main()
