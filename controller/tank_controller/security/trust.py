"""Who is believed at a controller's gRPC port: callers that prove the cluster's secret, or all while it isn't
demanded.

It is demanded once the state says so: from the cluster's founding on where its controllers have one, else
when all members and all registered brokers have proved it to a leader (`Trust.command`). So a cluster
without one gets it by a roll of its processes, in which old and new ones believe each other.
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

from tank_controller.leader.streams import Stream
from tank_controller.raft.messages import NodeId
from tank_controller.state.state import ClusterState
from tank_protos.call_proof import Prover
from tank_protos.cluster_secret import (
    REFUSAL_KEY,
    Nonces,
    Party,
    Refusal,
    Role,
    SecretFile,
    Secrets,
    Verifier,
    carried_proof,
)
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import TrustServicer

SAID_EVERY_MS = 10_000
"""A refusal of one kind is logged so often, with how many there were."""
_MARK = "secret-demanded"
"""In the data folder: the state, which a start reads late, demands the secret."""
_OPEN = ("/tank.control.Trust/", "/grpc.health.", "/grpc.reflection.")
_ROLES = {
    "/tank.control.Controllers/": (Role.CONTROLLER,),
    "/tank.control.Brokers/": (Role.BROKER,),
    "/tank.control.Admin/": (Role.ADMIN, Role.BROKER, Role.CONTROLLER),
}
NO_SECRET = (
    "this controller has no secret: whoever reaches its port is believed; give every process of the cluster "
    "the same file with --secret-file (TANK_SECRET_FILE)"
)

_log = logging.getLogger("tank.controller")
_caller: ContextVar[Party | None] = ContextVar("caller", default=None)


def caller() -> Party | None:
    """Who makes the call that is being answered; None: it proved nothing, and needn't have."""
    return _caller.get()


def is_called_by(role: Role, number: int, disk: bytes = b"") -> bool:
    """Whether the present call is of this party; one that proved nothing may be anybody."""
    proven = _caller.get()
    return proven is None or proven == Party(role, number, disk)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def open_secret(file: Path) -> SecretFile:
    """A process' secret. SecretError, OSError."""
    return SecretFile(file.read_bytes, str(file), _monotonic_ms)


class Trust:
    """One controller's."""

    def __init__(self, own: NodeId, folder: Path, file: SecretFile | None) -> None:
        """`folder`: its data. `file`: its secret; None: it has none."""
        self.refused: Counter[str] = Counter()
        """Calls that were not taken, by reason."""
        self.unproven = 0
        """Calls that proved nothing and were taken, because the secret isn't demanded yet."""
        self.demanded = False
        self._own = Party(Role.CONTROLLER, own.ordinal, own.disk)
        self._file = file
        self._mark = folder / _MARK
        self.demanded = self._is_marked = self._mark.exists()
        self._is_born = False
        """It belongs to a cluster. Before, with a secret, it believes nobody who doesn't prove it."""
        self._proven: Counter[NodeId] = Counter()
        """Open streams of other controllers that have proved the secret."""
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
        """What its file holds now."""
        if self._file is None:
            return None
        found = self._file.current()
        if self._file.problem:
            self._say("unreadable", f"{self._file.problem}: what was read before is used")
        return found

    @property
    def standing(self) -> str:
        """For /readyz."""
        return "demanded" if self.demanded else "offered" if self.has_secret else "none"

    def founded(self) -> None:
        """This controller founds a cluster, with others that have proved the secret: it is demanded."""
        if self.has_secret:
            self._demand()

    def look(self, state: ClusterState) -> None:
        """It belongs to a cluster with this state."""
        self._is_born = True
        if state.demands_secret and not self._is_marked:
            self._demand()

    def _demand(self) -> None:
        """From now on, and, where the disk takes a file, from the next start on. It is tried again."""
        if not self.demanded:
            self.demanded = True
            _log.info("the cluster demands its secret of every process from now on")
        try:
            self._mark.touch()
            self._is_marked = True
        except OSError as error:
            self._say("unmarked", f"{self._mark} can't be written ({error}): it is tried again")

    # --- calls ---

    def judge(self, method: str, metadata: Sequence[tuple[str, str | bytes]]) -> Party | Refusal | None:
        """Who calls; why it is refused; None: it proved nothing, and is taken all the same."""
        if method.startswith(_OPEN):
            return None
        secrets = self.secrets()
        if secrets is None:
            return Refusal.NONE_HERE if self.demanded else None
        found = self.verifier.judge(method, carried_proof(metadata), secrets)
        if isinstance(found, Party):
            roles = next((each for prefix, each in _ROLES.items() if method.startswith(prefix)), ())
            return found if found.role in roles else Refusal.NOT_MEANT
        if found is Refusal.MISSING and not self.demanded and self._is_born:
            self.unproven += 1
            return None
        return found

    def refuse(self, method: str, why: Refusal) -> None:
        """Counts it and says so, now and then."""
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

    # --- who has proved it ---

    def opened(self, node: NodeId) -> None:
        """A stream of this controller is open, and has proved the secret."""
        self._proven[node] += 1

    def closed(self, node: NodeId) -> None:
        """It ended."""
        self._proven[node] -= 1
        if not self._proven[node]:
            del self._proven[node]

    def controllers_unproven(self, members: Sequence[NodeId]) -> list[int]:
        """The ordinals of the members that have not."""
        own = NodeId(self._own.number, self._own.disk)
        return sorted(each.ordinal for each in members if each != own and each not in self._proven)

    def command(
        self, state: ClusterState, streams: Mapping[int, Stream], members: Sequence[NodeId]
    ) -> pb.Command | None:
        """Of a leader: to demand the secret, when all have proved it."""
        if state.demands_secret or not self.has_secret or not state.peer_key:
            return None
        if self.controllers_unproven(members) or brokers_unproven(state, streams):
            return None
        return pb.Command(found_cluster=pb.FoundCluster(peer_key=state.peer_key, demands_secret=True))

    def tell(
        self, answer: pb.OverviewAnswer, state: ClusterState, streams: Mapping[int, Stream],
        members: Sequence[NodeId],
    ) -> None:  # fmt: skip
        """How it stands, to people who ask the leader."""
        if state.demands_secret:
            answer.secret = pb.OverviewAnswer.DEMANDED
        elif not self.has_secret:
            answer.secret = pb.OverviewAnswer.NO_SECRET
        else:
            answer.secret = pb.OverviewAnswer.OFFERED
            answer.brokers_unproven.extend(brokers_unproven(state, streams))
            answer.controllers_unproven.extend(self.controllers_unproven(members))


def brokers_unproven(state: ClusterState, streams: Mapping[int, Stream]) -> list[int]:
    """Those of which no process that is there now has proved the secret."""
    return sorted(
        broker_id
        for broker_id, broker in state.brokers.items()
        if (stream := streams.get(broker_id)) is None or stream.epoch != broker.epoch or not stream.has_proved
    )


NO_TRUST = Trust(NodeId(0, b""), Path("/nonexistent"), None)
"""Of a process that has not begun."""


class TrustService(TrustServicer):
    """Challenges; whoever reaches the port may ask for one."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust

    async def Challenge(self, request: pb.ChallengeRequest, context: object) -> pb.ChallengeAnswer:
        """For one call."""
        return self._trust.verifier.answer(request, self._trust.secrets())


Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"


class Gate(grpc.aio.ServerInterceptor):
    """Judges every call before its service hears of it; it answers a refused one itself."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """As grpc.aio has it. It runs in the call's own task, so that services see its caller."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        found = self._trust.judge(method, list(handler_call_details.invocation_metadata))
        if not isinstance(found, Refusal):
            _caller.set(found)
            return handler
        self._trust.refuse(method, found)
        return None if handler is None else _refusing(handler, found)


def _refusing(handler: "grpc.RpcMethodHandler[Any, Any]", why: Refusal) -> Handler:
    """A handler of the same shape, which only says no."""

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
