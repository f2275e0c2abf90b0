"""Here tf_disc is on, and compiling is waited for."""

import pytest

import tf_disc


@pytest.fixture(autouse=True, scope="session")
def _enabled():
    tf_disc.enable(mode="sync")
    yield
    tf_disc.disable()
