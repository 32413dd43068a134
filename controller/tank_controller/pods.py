"""Which pod a broker or a controller is, by its host's name: so Kubernetes' people know them. Pure."""

import re

_POD = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?-(\d{1,5}))\.[a-z0-9.-]+")
FIRST_BROKER = 1
"""The id of the broker in pod 0: ids are counted from 1, pods and controllers from 0."""


def pod_of(number: int, host: str, first: int) -> str:
    """The pod's name, where its host is called as a StatefulSet's headless Service calls it; else empty.
    `first`: the number of the one in pod 0."""
    match = _POD.fullmatch(host)
    return match[1] if match is not None and int(match[3]) + first == number else ""


def shown(kind: str, number: int, host: str, first: int) -> str:
    """`broker 4 (pod tank-broker-3)`, or without the pod where there is none."""
    pod = pod_of(number, host, first)
    return f"{kind} {number} (pod {pod})" if pod else f"{kind} {number}"
