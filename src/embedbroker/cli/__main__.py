"""`python -m embedbroker.cli`: the command line where no script is installed."""

from . import main

main()
