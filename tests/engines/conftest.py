"""One Ray cluster of two workers for all tests that need one: it takes seconds to start."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator

import pytest

CLUSTER = """
import logging, sys, ray
ray.init(num_cpus=2, object_store_memory=128 << 20, include_dashboard=False, logging_level=logging.ERROR)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
"""


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """The address of a running cluster: processes of its own, as a real one, that end with the tests."""
    paths = os.pathsep.join(path for path in sys.path if path)  # workers find src and tests
    line = [sys.executable, "-c", CLUSTER]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # the cluster's, and of all that join it
        patch.setenv("RAY_worker_niceness", "0")  # on a busy machine its workers are to come round as others do
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        environment = {**os.environ, "PYTHONPATH": paths}
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as made:
            assert made.stdout is not None
            yield made.stdout.readline().strip()
            made.communicate(timeout=60)
