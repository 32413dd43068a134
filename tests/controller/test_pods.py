"""A pod's name by its host's, and only where it is one."""

import pytest

from tank_controller.pods import pod_of, shown


@pytest.mark.parametrize(
    ("number", "host", "first", "pod"),
    [
        (4, "tank-broker-3.tank-broker.data.svc.cluster.local", 1, "tank-broker-3"),
        (0, "log-controller-0.log-controller.data.svc.example.org", 0, "log-controller-0"),
        (4, "tank-broker-4.tank-broker.data.svc.cluster.local", 1, ""),
        (4, "broker-3", 1, ""),
        (4, "localhost", 1, ""),
        (1, "10.0.0.1", 1, ""),
        (4, "", 1, ""),
        (13, "a.b-12.c", 1, ""),
    ],
)
def test_a_pods_host_names_it(number: int, host: str, first: int, pod: str) -> None:
    assert pod_of(number, host, first) == pod
    assert shown("Broker", number, host, first) == (
        f"Broker {number} (pod {pod})" if pod else f"Broker {number}"
    )
