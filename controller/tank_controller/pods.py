"""Names of the pods in which brokers and controllers run, derived from host names, for messages to operators.
Pure.
"""

import re

_POD = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?-(\d{1,5}))\.[a-z0-9.-]+")
FIRST_BROKER = 1
"""The id of the broker in pod 0: ids are counted from 1, pods and controllers from 0."""


def pod_of(number: int, host: str, first: int) -> str:
    """The pod's name, if the host has a name of a StatefulSet's headless Service; else empty. `first`: the
    broker's or controller's number in pod 0.
    """
    match = _POD.fullmatch(host)
    return match[1] if match is not None and int(match[3]) + first == number else ""


def shown(kind: str, number: int, host: str, first: int) -> str:
    """`broker 4 (pod tank-broker-3)`, or without the pod where there is none."""
    pod = pod_of(number, host, first)
    return f"{kind} {number} (pod {pod})" if pod else f"{kind} {number}"
