"""HTTP clients for addresses that come from files: they connect to public addresses only.

A list of URLs may come from somebody else. Without a check, its entries, or a redirect of a server, could reach
services on this machine or in its network (127.0.0.1, 10.0.0.0/8, 169.254.169.254 ...). `public_client` and
`public_async_client` resolve every host name themselves, refuse addresses that are not public, and connect to the
address that was checked; redirects are checked in the same way. `allow_private` turns this off, as does the environment
variable `CAPTRIAL_ALLOW_PRIVATE=1`.

Behind a proxy (`HTTPS_PROXY`), the proxy resolves names and connects: then the host of every request is checked before
it is sent, but the proxy may resolve it differently.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.request import getproxies

import httpcore
import httpx

from captrial.errors import InputError

ALLOW_PRIVATE = "CAPTRIAL_ALLOW_PRIVATE"
NAT64 = IPv6Network("64:ff9b::/96")


class PrivateAddressError(InputError):
    """A host is not reachable by a public address, and private ones are not allowed."""

    @classmethod
    def of(cls, host: str, addresses: Iterable[str]) -> PrivateAddressError:
        """The error for a host with these addresses."""
        listed = ", ".join(dict.fromkeys(addresses))
        place = host if listed == host else f"{host} ({listed})"
        return cls(f"{place} is not a public address; allow it with --allow-private or {ALLOW_PRIVATE}=1")


def is_public(address: str) -> bool:
    """Whether an IP address is reachable from everywhere: not private, loopback, link-local, shared or reserved.

    An IPv6 address that stands for an IPv4 one (mapped, 6to4, Teredo, NAT64) is public if that one is.

    >>> is_public("93.184.216.34"), is_public("127.0.0.1"), is_public("::ffff:10.0.0.1"), is_public("169.254.169.254")
    (True, False, False, False)
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(one.is_global and not one.is_multicast for one in (parsed, *_embedded(parsed)))


def _embedded(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in NAT64:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


def public_client(allow_private: bool = False, **options: Any) -> httpx.Client:
    """An `httpx.Client` that connects to public addresses only; `options` are those of `httpx.Client`."""
    if _allowed(allow_private):
        return httpx.Client(**options)
    if getproxies().keys() & {"http", "https", "all"}:
        return httpx.Client(**options, event_hooks={"request": [_check_request]})
    transport = httpx.HTTPTransport(**_transport_options(options))
    transport._pool._network_backend = _PublicNetwork()
    return httpx.Client(**options, transport=transport)


def public_async_client(allow_private: bool = False, **options: Any) -> httpx.AsyncClient:
    """An `httpx.AsyncClient` that connects to public addresses only."""
    if _allowed(allow_private):
        return httpx.AsyncClient(**options)
    if getproxies().keys() & {"http", "https", "all"}:
        return httpx.AsyncClient(**options, event_hooks={"request": [_check_async_request]})
    transport = httpx.AsyncHTTPTransport(**_transport_options(options))
    transport._pool._network_backend = _PublicAsyncNetwork()
    return httpx.AsyncClient(**options, transport=transport)


def _allowed(allow_private: bool) -> bool:
    return allow_private or os.environ.get(ALLOW_PRIVATE, "") not in ("", "0")


def _transport_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that a client would pass on to the transport that it makes itself."""
    return {name: options[name] for name in ("verify", "limits") if name in options}


def _public_addresses(host: str, found: list[Any]) -> list[str]:
    addresses = [str(entry[4][0]) for entry in found]
    public = [address for address in addresses if is_public(address)]
    if not public:
        raise PrivateAddressError.of(host, addresses)
    return list(dict.fromkeys(public))


def _check_request(request: httpx.Request) -> None:
    host = request.url.host
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return  # only the proxy knows this name
    _public_addresses(host, found)


async def _check_async_request(request: httpx.Request) -> None:
    await asyncio.to_thread(_check_request, request)


class _PublicNetwork(httpcore.SyncBackend):
    """Resolves a name, and connects to one of its public addresses."""

    def connect_tcp(self, host: str, port: int, *arguments: Any, **options: Any) -> httpcore.NetworkStream:
        """Connect to the first public address that answers."""
        try:
            addresses = _public_addresses(host, socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from None
        for address in addresses[:-1]:
            try:
                return super().connect_tcp(address, port, *arguments, **options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return super().connect_tcp(addresses[-1], port, *arguments, **options)


class _PublicAsyncNetwork(httpcore.AnyIOBackend):
    """Resolves a name, and connects to one of its public addresses."""

    async def connect_tcp(self, host: str, port: int, *arguments: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        """Connect to the first public address that answers."""
        loop = asyncio.get_running_loop()
        try:
            addresses = _public_addresses(host, await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from None
        for address in addresses[:-1]:
            try:
                return await super().connect_tcp(address, port, *arguments, **options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await super().connect_tcp(addresses[-1], port, *arguments, **options)
