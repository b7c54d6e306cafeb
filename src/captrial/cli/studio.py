"""`captrial studio`: a local web page to look at captioners and competitions."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import console
from captrial.errors import InputError

HOST = "127.0.0.1"


def studio(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; no other machine is let in.")] = 8770,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A captioner besides the shipped ones, as for `captrial caption`; can be repeated."),
    ] = None,
    competition: Annotated[
        list[Path] | None, typer.Option(help="A competition's directory, to open its ranking; can be repeated.")
    ] = None,
    regions: Annotated[
        str, typer.Option("--regions", help="Detector for labelled regions: localiser, onnx:FILE, detr:MODEL.")
    ] = "localiser",
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Drop an image, compare two captioners word by word, open rankings: all in the browser, all on this machine.

    captrial studio --model runs/mine --competition trial
    """
    import webbrowser

    import uvicorn

    from captrial.studio.app import create_app

    application = create_app(model or [], competition or [], regions)
    with _listen(port) as listening:
        address = f"http://{HOST}:{listening.getsockname()[1]}/"
        console.print(f"The studio is at {address} (Ctrl+C stops it)", soft_wrap=True, highlight=False)
        if open_:
            webbrowser.open(address)
        server = uvicorn.Server(uvicorn.Config(application, log_level="warning", server_header=False))
        with suppress(KeyboardInterrupt):  # the usual way to end it
            server.run([listening])


def _listen(port: int) -> socket.socket:
    """A socket on this machine only; 0 is any free port."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        raise InputError(f"--port {port} cannot be used ({error.strerror}); choose another, or 0 for any") from None
    return listening
