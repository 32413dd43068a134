"""A cut link swallows what goes over it: a network that doesn't is not taken, and the run says why."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

TRIED = """
import sys
from tests.chaos.network import Namespaces, make

exec(sys.argv[1])
network, why = make(2, namespaces=None)
print(network.name)
print(why)
network.close()
"""
"""In a process of its own: it moves into another namespace."""


def tried(change: str = "") -> list[str]:
    """What network is made, and why it is no other, after a change of the code."""
    command = [sys.executable, "-c", TRIED, change]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    name, why = tried()
    if name == "loopback":
        pytest.skip(why)


def test_a_link_that_is_cut_and_mended_is_tried_before_anything_is_shown_with_it() -> None:
    assert tried() == ["network namespaces", ""]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("Namespaces._rule = lambda *_: None", "a link that is cut lets everything through"),
        ("Namespaces.mend = lambda _: None", "a link that was mended lets nothing through"),
    ],
)
def test_a_network_that_does_not_cut_or_mend_is_not_taken(change: str, why: str) -> None:
    assert tried(change) == ["loopback", f"namespaces can't be made here: {why}"]
