"""A PostgreSQL server of our own, in a temporary folder, on a socket that nobody else can see."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _binary(name: str) -> str:
    found = [*sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))]
    return str(found[-1]) if found else str(shutil.which(name))


def _as_somebody() -> tuple[list[str], int | None]:
    """PostgreSQL refuses to run as root: then run it as `postgres`, or as `nobody`."""
    if os.getuid() != 0:
        return [], None
    users = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    name = "postgres" if "postgres" in users else "nobody"
    return ["runuser", "-u", name, "--"], users[name]


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[str]:
    """Start a server; yields the address of it without a database's name: `postgresql://captrial@/{name}?host=...`.

    Only a `durable` one survives the machine's death; ours dies by itself at most.
    """
    runner, user = _as_somebody()
    with tempfile.TemporaryDirectory(prefix="captrial-postgres-") as folder:
        if user is not None:
            os.chown(folder, user, -1)
        data = f"{folder}/data"
        make = [_binary("initdb"), "-D", data, "-A", "trust", "-U", "captrial", "--no-sync", "-E", "UTF8"]
        subprocess.run([*runner, *make], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        settings = ["listen_addresses=", f"fsync={'on' if durable else 'off'}"]
        start = [_binary("postgres"), "-D", data, "-k", folder, *(word for one in settings for word in ("-c", one))]
        with Path(folder, "log").open("wb") as log:
            server = subprocess.Popen([*runner, *start], stdout=subprocess.DEVNULL, stderr=log, cwd=folder)
        try:
            _wait(folder, server)
            yield f"postgresql://captrial@/{{name}}?host={folder}&connect_timeout=1000"  # a busy machine is no failure
        finally:
            if server.poll() is None:
                os.kill(int(Path(data, "postmaster.pid").read_text().split()[0]), signal.SIGINT)  # fast shutdown
            server.wait(300)


def _wait(folder: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(3000):
        if subprocess.run([_binary("pg_isready"), "-h", folder, "-q"], check=False).returncode == 0:
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(Path(folder, "log").read_text())


def create_database(address: str, name: str) -> str:
    """A new, empty database; returns its URL."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(address.format(name="postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return address.format(name=name)
