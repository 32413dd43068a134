"""Authentication at a controller's gRPC port: callers prove the cluster's secret; until the secret is
demanded, callers without proof are accepted, too.

The state says that the secret is demanded: from the cluster's founding on if its controllers have one, else
when all members and all registered brokers have proved it to a leader (`Trust.command`). So a cluster without
a secret gets one by a rolling restart, during which processes with and without it accept each other.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio

from tank_controller.leader.brokers.streams import Stream
from tank_controller.raft.messages import NodeId
from tank_controller.state.state import ClusterState
from tank_protos.call_proof import Prover
from tank_protos.cluster_secret import (
    REFUSAL_KEY,
    Nonces,
    Party,
    PartyRole,
    SecretFile,
    SecretRefusal,
    Secrets,
    Verifier,
    carried_proof,
)
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import TrustServicer

SAID_EVERY_MS = 10_000
"""The pause between two log lines about refusals of one kind; a line has their number."""
_MARK = "secret-demanded"
"""A file in the data folder that says that the secret is demanded, because a start reads the state late."""
_OPEN = ("/tank.control.Trust/", "/grpc.health.", "/grpc.reflection.")
_ROLES = {
    "/tank.control.Controllers/": (PartyRole.CONTROLLER,),
    "/tank.control.Brokers/": (PartyRole.BROKER,),
    "/tank.control.Admin/": (PartyRole.ADMIN, PartyRole.BROKER, PartyRole.CONTROLLER),
}
NO_SECRET = (
    "this controller has no secret: every caller that reaches its port is trusted; give every process of "
    "the cluster "
    "the same file with --secret-file (TANK_SECRET_FILE)"
)

_log = logging.getLogger("tank.controller")
_caller: ContextVar[Party | None] = ContextVar("caller", default=None)


def caller() -> Party | None:
    """The caller of the present call; None when it proved nothing, and no proof was demanded."""
    return _caller.get()


def is_called_by(role: PartyRole, number: int, disk: bytes = b"") -> bool:
    """Whether this party may be the caller of the present call; a caller that proved nothing may be any
    party.
    """
    proven = _caller.get()
    return proven is None or proven == Party(role, number, disk)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def open_secret(file: Path) -> SecretFile:
    """Opens the file with the secret of this process. Raises SecretError, OSError."""
    return SecretFile(file.read_bytes, str(file), _monotonic_ms)


class Trust:
    """Judges the callers of one controller."""

    def __init__(self, own: NodeId, folder: Path, file: SecretFile | None) -> None:
        """`folder`: the controller's data folder. `file`: the file with its secret; None: it has no
        secret.
        """
        self.refused: Counter[str] = Counter()
        """The number of refused calls, by reason."""
        self.unproven = 0
        """The number of calls that proved nothing and were accepted, because the secret isn't demanded
        yet.
        """
        self.demanded = False
        self._own = Party(PartyRole.CONTROLLER, own.ordinal, own.disk)
        self._file = file
        self._mark = folder / _MARK
        self.demanded = self._is_marked = self._mark.exists()
        self._is_born = False
        """Whether the controller belongs to a cluster. Before that, a controller with a secret accepts only
        callers that prove it.
        """
        self._proven: Counter[NodeId] = Counter()
        """The open streams of other controllers that have proved the secret."""
        self._said_ms: dict[str, int] = {}
        self._unsaid: Counter[str] = Counter()
        self.verifier = Verifier(self._own, Nonces(os.urandom, _monotonic_ms))
        self.prover = Prover(
            self.secrets, lambda: self._own, os.urandom, lambda: self.demanded or not self._is_born
        )

    @property
    def has_secret(self) -> bool:
        return self._file is not None

    def secrets(self) -> Secrets | None:
        """The present content of the secret's file; None without a file."""
        if self._file is None:
            return None
        found = self._file.current()
        if self._file.problem:
            self._say("unreadable", f"{self._file.problem}: the secret that was read before is used")
        return found

    @property
    def standing(self) -> str:
        """Whether the secret is demanded, in a word, for /readyz."""
        return "demanded" if self.demanded else "offered" if self.has_secret else "none"

    def founded(self) -> None:
        """Demands the secret, because this controller founds a cluster with others that have proved it."""
        if self.has_secret:
            self._demand()

    def look(self, state: ClusterState) -> None:
        """Takes the state of the cluster that the controller belongs to: demands the secret if the state says
        so.
        """
        self._is_born = True
        if state.demands_secret and not self._is_marked:
            self._demand()

    def _demand(self) -> None:
        """Demands the secret from now on, and writes the file that makes the next start demand it, too. A
        failed write is tried again.
        """
        if not self.demanded:
            self.demanded = True
            _log.info("the cluster demands its secret of every process from now on")
        try:
            self._mark.touch()
            self._is_marked = True
        except OSError as error:
            self._say("unmarked", f"{self._mark} can't be written ({error}): the controller tries again")

    # --- calls ---

    def judge(self, method: str, metadata: Sequence[tuple[str, str | bytes]]) -> Party | SecretRefusal | None:
        """The caller, or the reason for a refusal; None for a caller without proof that is accepted."""
        if method.startswith(_OPEN):
            return None
        secrets = self.secrets()
        if secrets is None:
            return SecretRefusal.NONE_HERE if self.demanded else None
        found = self.verifier.judge(method, carried_proof(metadata), secrets)
        if isinstance(found, Party):
            roles = next((each for prefix, each in _ROLES.items() if method.startswith(prefix)), ())
            return found if found.role in roles else SecretRefusal.NOT_MEANT
        if found is SecretRefusal.MISSING and not self.demanded and self._is_born:
            self.unproven += 1
            return None
        return found

    def refuse(self, method: str, why: SecretRefusal) -> None:
        """Counts a refused call, and logs it if the last line is not too recent."""
        self.refused[why.value] += 1
        self._say(why.value, f"a call of {method.rpartition('/')[2]} was refused: {why.sentence}")

    def _say(self, kind: str, text: str) -> None:
        now_ms = _monotonic_ms()
        if now_ms - self._said_ms.get(kind, -SAID_EVERY_MS) < SAID_EVERY_MS:
            self._unsaid[kind] += 1
            return
        self._said_ms[kind] = now_ms
        more = self._unsaid.pop(kind, 0)
        _log.warning("%s%s", text, f" ({more} more of these since the last line)" if more else "")

    # --- the proofs of other processes ---

    def opened(self, node: NodeId) -> None:
        """Notes that another controller has opened a stream, and has proved the secret."""
        self._proven[node] += 1

    def closed(self, node: NodeId) -> None:
        """Notes that such a stream has ended."""
        self._proven[node] -= 1
        if not self._proven[node]:
            del self._proven[node]

    def controllers_unproven(self, members: Sequence[NodeId]) -> list[int]:
        """The ordinals of the members that have not proved the secret."""
        own = NodeId(self._own.number, self._own.disk)
        return sorted(each.ordinal for each in members if each != own and each not in self._proven)

    def command(
        self, state: ClusterState, streams: Mapping[int, Stream], members: Sequence[NodeId]
    ) -> pb.Command | None:
        """The leader's command to demand the secret, once all processes have proved it; else None."""
        if state.demands_secret or not self.has_secret or not state.peer_key:
            return None
        if self.controllers_unproven(members) or brokers_unproven(state, streams):
            return None
        return pb.Command(found_cluster=pb.FoundCluster(peer_key=state.peer_key, demands_secret=True))

    def report(
        self, answer: pb.OverviewAnswer, state: ClusterState, streams: Mapping[int, Stream],
        members: Sequence[NodeId],
    ) -> None:  # fmt: skip
        """Adds the state of the secret to an operator's answer."""
        if state.demands_secret:
            answer.secret = pb.OverviewAnswer.DEMANDED
        elif not self.has_secret:
            answer.secret = pb.OverviewAnswer.NO_SECRET
        else:
            answer.secret = pb.OverviewAnswer.OFFERED
            answer.brokers_unproven.extend(brokers_unproven(state, streams))
            answer.controllers_unproven.extend(self.controllers_unproven(members))


def brokers_unproven(state: ClusterState, streams: Mapping[int, Stream]) -> list[int]:
    """The brokers whose connected process has not proved the secret, or that have none."""
    return sorted(
        broker_id
        for broker_id, broker in state.brokers.items()
        if (stream := streams.get(broker_id)) is None or stream.epoch != broker.epoch or not stream.has_proved
    )


NO_TRUST = Trust(NodeId(0, b""), Path("/nonexistent"), None)
"""The epoch of a broker process that has not registered."""


class TrustService(TrustServicer):
    """The service that gives challenges, which need no proof."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust

    async def Challenge(self, request: pb.ChallengeRequest, context: object) -> pb.ChallengeAnswer:
        """Gives a challenge for one call."""
        return self._trust.verifier.answer(request, self._trust.secrets())


Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"


class SecretGate(grpc.aio.ServerInterceptor):
    """Judges every call before its service gets it, and answers refused calls itself."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Implements grpc.aio's interceptor. Runs in the call's own task, so that `caller` works in the
        service.
        """
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        found = self._trust.judge(method, list(handler_call_details.invocation_metadata))
        if not isinstance(found, SecretRefusal):
            _caller.set(found)
            return handler
        self._trust.refuse(method, found)
        return None if handler is None else _refusing(handler, found)


def _refusing(handler: "grpc.RpcMethodHandler[Any, Any]", why: SecretRefusal) -> Handler:
    """A handler of the same kind, which refuses every call."""

    async def abort(context: Any) -> None:
        metadata = ((REFUSAL_KEY, why.value),)
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, why.sentence, metadata)

    async def answer(request: Any, context: Any) -> None:
        await abort(context)

    async def answer_in_parts(request: Any, context: Any) -> Any:
        await abort(context)
        yield None

    made = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    does = answer_in_parts if handler.response_streaming else answer
    return made(does, handler.request_deserializer, handler.response_serializer)
