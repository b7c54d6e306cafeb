"""Invitation links that work on other machines: the address of this one in its network, and QR codes."""

from __future__ import annotations

import socket

import segno


def network_address(host: str) -> str:
    """The address under which others reach a server that listens on `host`: of all interfaces, that of the network."""
    if host not in ("0.0.0.0", "::", ""):
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only chooses the interface
            return str(probe.getsockname()[0])
        except OSError:  # no network
            return "127.0.0.1"


def base_url(host: str, port: int, https: bool = False) -> str:
    """The address of a server, as links begin with it.

    >>> base_url("192.168.1.7", 8765), base_url("::1", 8765)
    ('http://192.168.1.7:8765', 'http://[::1]:8765')
    """
    name = network_address(host)
    return f"{'https' if https else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def qr_url(link: str) -> str:
    """The QR code of a link as an image in a `data:` URL."""
    return str(segno.make(link, micro=False).svg_data_uri(scale=4, border=2, light="#fff"))


def qr_text(link: str) -> str:
    """The QR code of a link for a terminal, two rows of it a line."""
    rows = [[bool(cell) for cell in row] for row in segno.make(link, micro=False).matrix_iter(border=2)]
    if len(rows) % 2:
        rows.append([False] * len(rows[0]))
    signs = {(False, False): "█", (False, True): "▀", (True, False): "▄", (True, True): " "}  # light on dark
    return "\n".join(
        "".join(signs[pair] for pair in zip(upper, lower, strict=True))
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    )
