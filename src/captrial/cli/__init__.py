"""The `captrial` command: one thin file a verb, which parses, calls the library and prints."""

from captrial.cli.app import main

__all__ = ["main"]
