"""The `captrial` command line: one file per command, which parses its options, calls the library and prints."""

from captrial.cli.app import main

__all__ = ["main"]
