"""A broker's rack from Kubernetes: the zone label of the machine (node) that the broker's pod runs on.

For Kubernetes before 1.35, which doesn't copy that label into pods. One request at the start, with the
standard library, because a broker has no other use for the package `kubernetes`.
"""

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder in which a pod finds the token of its service account, and the API server's certificate."""
ASK_S: Final = 10.0
MOST_BYTES: Final = 16 * 1024 * 1024
"""The most bytes read of an answer; the API server keeps a node's description below 2 MiB."""


class NodeZoneError(RuntimeError):
    """The zone can't be found out. The message is a sentence that says what to do."""


def zone_of_node(
    node_name: str,
    environment: Mapping[str, str] = os.environ,
    account: Path = ACCOUNT,
    scheme: str = "https",
) -> str:
    """Asks the API server for the zone of a node; empty when it has none. Blocks for 10 s at most. Raises
    NodeZoneError. The pod's service account needs the right to get nodes.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise NodeZoneError("this process is in no pod, so Kubernetes can't tell its zone: set --rack")
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/api/v1/nodes/{quote(node_name, safe='')}"
    try:
        token = (account / "token").read_text().strip()
        trust = ssl.create_default_context(cafile=str(account / "ca.crt")) if scheme == "https" else None
    except OSError as error:
        raise NodeZoneError(
            f"the token of this pod's service account can't be read ({error}): mount it, or set --rack"
        ) from error
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    # The API server must not be reached through the machine's proxies.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if trust is not None:
        handlers.append(urllib.request.HTTPSHandler(context=trust))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=ASK_S) as answer:
            return read_zone(answer.read(MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise NodeZoneError(
            f"Kubernetes doesn't tell the labels of node {node_name} ({error.code} {error.reason}): let this "
            "pod's service account get nodes (the chart's rackFromNode.enabled), or set --rack"
        ) from error
    except OSError as error:
        raise NodeZoneError(
            f"Kubernetes can't be asked for the labels of node {node_name} "
            f"({getattr(error, 'reason', error)}): check the API server, or set --rack"
        ) from error


def read_zone(body: bytes) -> str:
    """The zone in a node's description from the API server; empty when it has none. Raises NodeZoneError."""
    try:
        zone = json.loads(body)["metadata"].get("labels", {}).get(ZONE_LABEL, "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NodeZoneError("what Kubernetes answered is not a node's description") from error
    if not isinstance(zone, str):
        raise NodeZoneError("what Kubernetes answered is not a node's description")
    return zone
