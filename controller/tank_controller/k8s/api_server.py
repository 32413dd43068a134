"""Requests to Kubernetes' API server.

Only this file imports the package `kubernetes`, and only in a pod, because the package takes half as much
memory as a controller.
"""

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from tank_controller.k8s.watch import MalformedAnswerError

WATCH_S = 60
"""The server ends a watch after so long; it is begun again."""
CONNECT_S = 3.0
READ_S = 3.0
MAX_LINE_BYTES = 4 * 1024 * 1024
"""The longest line of a watch; an object has at most 1.5 MiB in etcd."""
CONFLICT = 409


class KubernetesError(OSError):
    """Kubernetes can't be used: this is no pod, or the package is missing; the message says what to do."""


class ApiServer(Protocol):
    """The calls of the API server. They block, and raise RequestError or the exceptions of sockets."""

    def read_set(self, name: str) -> bytes: ...
    def list_sets(self, name: str) -> bytes: ...
    def watch_sets(self, name: str, version: str) -> Iterator[bytes]: ...
    def write_event(
        self, name: str, body: dict[str, object], again: Callable[[], dict[str, object]]
    ) -> None: ...


class ControllerSet(Protocol):
    """The StatefulSet of the controllers; `tank_controller.k8s.client.Kubernetes` implements it."""

    def wanted_controllers(self) -> Awaitable[int | None]:
        """How many controllers Kubernetes is to run; None when that is not known."""

    def report_controller(self, ordinal: int, text: str) -> None:
        """Writes an event about a controller on this controller's own pod."""


class RequestError(OSError):
    """The API server answered with an error, or not at all."""

    def __init__(self, status: int | None, message: str) -> None:
        super().__init__(message)
        self.status = status


class PackageApiServer:
    """Implements ApiServer with the package `kubernetes`."""

    def __init__(self, namespace: str, configure: "Callable[[Any], None] | None" = None) -> None:
        """Raises KubernetesError. `configure` fills the package's configuration; by default as in a pod."""
        try:
            import urllib3
            from kubernetes import client, config
        except ImportError as error:
            raise KubernetesError(
                "the package kubernetes is missing: pip install 'tank-cluster[kubernetes]'"
            ) from error
        self._failures = urllib3.exceptions.HTTPError
        self._timeout = urllib3.Timeout
        self._configuration = configuration = client.Configuration()
        configuration.retries = False  # one attempt: the caller decides about retries
        configuration.proxy = None  # the machine's proxies are not for the API server
        try:
            (configure or config.load_incluster_config)(configuration)
        except config.ConfigException as error:
            raise KubernetesError(f"this is no pod that may ask Kubernetes: {error}") from error
        # The package's classes for kinds of objects are not used: they take as much memory as the rest of a
        # controller.
        self._pool = client.ApiClient(configuration).rest_client.pool_manager
        self._sets = f"/apis/apps/v1/namespaces/{quote(namespace)}/statefulsets"
        self._events = f"/api/v1/namespaces/{quote(namespace)}/events"

    def read_set(self, name: str) -> bytes:
        """One set as JSON."""
        return self._body("GET", f"{self._sets}/{quote(name)}")

    def list_sets(self, name: str) -> bytes:
        """The list of the sets of this name, as JSON."""
        return self._body("GET", f"{self._sets}?{urlencode({'fieldSelector': f'metadata.name={name}'})}")

    def watch_sets(self, name: str, version: str) -> Iterator[bytes]:
        """Changes of these sets as lines of JSON, until the server ends the watch."""
        query = {
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": version,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        answer = self._ask("GET", f"{self._sets}?{urlencode(query)}", read_s=WATCH_S + READ_S)
        pending = b""
        try:
            for piece in answer.stream(amt=None, decode_content=False):
                *lines, pending = (pending + piece).split(b"\n")
                yield from (line for line in lines if line)
                if len(pending) > MAX_LINE_BYTES:
                    raise MalformedAnswerError("a change of a set is longer than an object can be")
        finally:
            answer.close()

    def request(self, method: str, path: str, body: dict[str, object] | None = None) -> bytes:
        """Sends any other request, with a JSON body. Returns the answer's bytes. Raises RequestError."""
        return self._body(method, path, body, "application/json")

    def write_event(self, name: str, body: dict[str, object], again: Callable[[], dict[str, object]]) -> None:
        """Creates an event; if one of this name exists, changes it by `again`."""
        try:
            self._body("POST", self._events, body, "application/json")
        except RequestError as error:
            if error.status != CONFLICT:
                raise
            self._body("PATCH", f"{self._events}/{quote(name)}", again(), "application/merge-patch+json")

    def _body(self, method: str, path: str, body: dict[str, object] | None = None, kind: str = "") -> bytes:
        answer = self._ask(method, path, body, kind)
        try:
            found = answer.data
        except self._failures as error:
            raise RequestError(None, f"the API server's answer ended: {error}") from None
        assert isinstance(found, bytes)
        return found

    def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, object] | None = None,
        kind: str = "",
        read_s: float = READ_S,
    ) -> Any:
        """Sends a request; returns the answer, whose body is not read yet. Raises RequestError."""
        headers = {"Accept": "application/json"}
        token = self._configuration.auth_settings().get("BearerToken")  # the token changes about every hour
        if token is not None:
            headers["Authorization"] = str(token["value"])
        if body is not None:
            headers["Content-Type"] = kind
        try:
            answer = self._pool.request(
                method,
                f"{self._configuration.host}{path}",
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=self._timeout(connect=CONNECT_S, read=read_s),
                preload_content=False,
            )
        except self._failures as error:
            raise RequestError(None, f"the API server can't be reached: {error}") from None
        if not 200 <= answer.status < 300:
            answer.drain_conn()
            raise RequestError(answer.status, f"{answer.status} {answer.reason}")
        return answer
