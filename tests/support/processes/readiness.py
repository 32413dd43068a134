"""Reads a process's readiness and metrics over HTTP."""

import json
import urllib.error
import urllib.request
from typing import Any

from tests.support.patience import patient

PATIENCE_S = patient(20.0)


def facts_of(http: str) -> dict[str, Any]:
    """What /readyz at host:port says, ready or not; empty when nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{http}/readyz", timeout=PATIENCE_S) as answer:
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        found = json.load(error)
    except (OSError, ValueError):
        return {}
    return found


def samples_of(http: str) -> dict[str, float]:
    """What /metrics at host:port says, by name with labels. URLError when nobody answers."""
    with urllib.request.urlopen(f"http://{http}/metrics", timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}
