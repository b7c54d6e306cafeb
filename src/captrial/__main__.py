"""`python -m captrial` is the `captrial` command."""

from captrial.cli import main

main()
