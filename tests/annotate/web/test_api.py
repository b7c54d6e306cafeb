"""Every route as OpenAPI describes it, under requests that schemathesis makes up: no crash, nothing undocumented."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, settings

from annotate.annotation_world import join
from captrial.annotate.rounds import ROUNDS
from captrial.annotate.settings import AnnotationSettings, write_settings
from captrial.annotate.web.app import create_app
from captrial.annotate.web.sessions import COOKIE
from captrial.web.security import CLIENT_HEADER

OWN = 17  # operations in the description beside those of rounds; a new one is tested for free, a lost one is noticed


@pytest.fixture
def application(directory: Path) -> Iterator[FastAPI]:
    made = create_app(directory)
    made.state.context.requests.rate = made.state.context.requests.burst = 1e9
    service = made.state.context.service
    with service.store.change() as connection:
        write_settings(service.store, connection, AnnotationSettings(judges=1))
        service.refresh_images(connection)
    with TestClient(made):
        yield made


def probe(application: FastAPI, role: str, examples: int) -> None:
    """Made-up requests by somebody with this role, to every operation."""
    with closing(TestClient(application, follow_redirects=False)) as client:
        client.get(f"/join/{join(application.state.context.service, role, role)[1]}")
        headers = {CLIENT_HEADER: "schemathesis", "Cookie": f"{COOKIE}={client.cookies[COOKIE]}"}
    schema = schemathesis.openapi.from_asgi("/openapi.json", application)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == OWN + sum(len(round_.forms) for round_ in ROUNDS.values())
    for operation in operations:
        assert set(operation.definition.raw["responses"]) >= {"200", "401", "403", "404", "409", "413", "422", "429"}
        check(operation, headers, examples)


def check(operation: schemathesis.APIOperation, headers: dict[str, str], examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @operation_cases(operation)
    def ask(case: schemathesis.Case) -> None:
        response = case.call(headers=headers)
        assert response.status_code < 500, case.as_curl_command()
        case.validate_response(
            response,
            checks=[
                schemathesis.checks.not_a_server_error,
                schemathesis.specs.openapi.checks.status_code_conformance,
                schemathesis.specs.openapi.checks.content_type_conformance,
                schemathesis.specs.openapi.checks.response_schema_conformance,
            ],
        )

    ask()


def operation_cases(operation: schemathesis.APIOperation) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """`@given` one request of this operation."""
    from hypothesis import given

    return lambda test: given(case=operation.as_strategy())(test)


@pytest.mark.slow
@pytest.mark.parametrize("role", ["lead", "annotator"])
def test_the_api_is_as_described(application: FastAPI, role: str) -> None:
    probe(application, role, examples=3)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("role", ["lead", "annotator", "inspector"])
def test_the_api_is_as_described_at_length(application: FastAPI, role: str) -> None:
    probe(application, role, examples=200)
