"""`captrial studio`: a local web page to compare captioners and open competitions."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import console
from captrial.vision.registry import DEFAULT_DETECTOR, detector_usages


def studio(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; no other machine is let in.")] = 8770,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A captioner in addition to the shipped ones, as for `captrial caption`; can be repeated."),
    ] = None,
    competition: Annotated[
        list[Path] | None, typer.Option(help="A competition's directory, to open its ranking; can be repeated.")
    ] = None,
    regions: Annotated[
        str, typer.Option("--regions", help=f"Detector for labelled regions: {detector_usages()}.")
    ] = DEFAULT_DETECTOR,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Caption images, compare two captioners word by word and open rankings, in the browser and on this machine only.

    captrial studio --model runs/mine --competition trial
    """
    import webbrowser

    import uvicorn

    from captrial.studio.app import create_app
    from captrial.web.server import listen

    application = create_app(model or [], competition or [], regions)
    with listen(port) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        console.print(f"The studio is at {address} (Ctrl+C stops it)", soft_wrap=True, highlight=False)
        if open_:
            webbrowser.open(address)
        server = uvicorn.Server(uvicorn.Config(application, log_level="warning", server_header=False))
        with suppress(KeyboardInterrupt):  # the usual way to stop it
            server.run([listening])
