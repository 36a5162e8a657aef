"""The nine properties of the law at their full length, and faults at ten thousand (conformance, G3)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.chaos.conftest import ROOT


@pytest.mark.chaos
def test_g3_the_properties_hold_for_a_hundred_thousand_requests() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "tests/property/test_law.py"]
    environment = {**os.environ, "LAW_REQUESTS": "100000"}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]  # of the run that this one is a part of
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout[-4000:]
