"""`captrial studio`: a local web page to look at captioners and competitions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import console

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
    """Drop a picture, compare two captioners word by word, open rankings: all in the browser, all on this machine.

    captrial studio --model runs/mine --competition trial
    """
    import webbrowser

    import uvicorn

    from captrial.studio.app import create_app

    application = create_app(model or [], competition or [], regions)
    console.print(f"The studio is at http://{HOST}:{port}/ (Ctrl+C stops it)", soft_wrap=True)
    if open_:
        webbrowser.open(f"http://{HOST}:{port}/")
    uvicorn.run(application, host=HOST, port=port, log_level="warning", server_header=False)
