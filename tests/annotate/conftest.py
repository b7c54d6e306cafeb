"""Fixtures of the annotation service."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from annotate.annotation_world import Clock, join, make_competition
from annotate.postgres_server import create_database, postgres_server
from captrial.annotate.database.transactions import Store
from captrial.annotate.service import AnnotationService
from captrial.annotate.web.app import create_app
from captrial.web.security import CLIENT_HEADER


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A competition, made once; its images are shared by all tests."""
    return make_competition(tmp_path_factory.mktemp("made"))


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "competition"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """A PostgreSQL server for this session."""
    with postgres_server() as address:
        yield address


@pytest.fixture
def postgres(postgres_address: str) -> str:
    """The URL of a new database; use with `@pytest.mark.needs("postgres")`."""
    return create_database(postgres_address, f"test_{uuid.uuid4().hex[:12]}")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgres"))])
def database(request: pytest.FixtureRequest, directory: Path) -> str:
    """The URL of an empty database, of either kind."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres"))
    return f"sqlite:///{directory / 'annotations.sqlite'}"


@pytest.fixture
def service(directory: Path, clock: Clock, database: str) -> Iterator[AnnotationService]:
    made = AnnotationService(directory, Store(database, clock))
    yield made
    made.close()


SignIn = Callable[[str, str], TestClient]


@pytest.fixture
def site(directory: Path) -> Iterator[tuple[AnnotationService, SignIn]]:
    """The application and a way to sign somebody in: `client = sign_in("ann", "annotator")`."""
    with signing_in(create_app(directory)) as found:
        yield found


@contextmanager
def signing_in(application: FastAPI) -> Iterator[tuple[AnnotationService, SignIn]]:
    """The running application: all clients share its event loop, as they would share a server's, and are closed."""
    service: AnnotationService = application.state.context.service
    with TestClient(application) as running, ExitStack() as clients:

        def sign_in(name: str, role: str) -> TestClient:
            client = TestClient(application, headers={CLIENT_HEADER: "test"}, follow_redirects=False)
            client.portal = running.portal
            clients.callback(client.close)
            if role != "stranger":
                _, token = join(service, name, role)
                assert client.get(f"/join/{token}").status_code == 303
            return client

        yield service, sign_in
