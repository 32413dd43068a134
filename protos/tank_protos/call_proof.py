"""gRPC calls to controllers that prove the cluster's secret: a challenge before each, on the same channel."""

from collections.abc import Callable
from typing import Any, NamedTuple

import grpc
import grpc.aio

from tank_protos.cluster_secret import (
    CHALLENGE,
    NONCE_BYTES,
    PROOF_KEY,
    Party,
    Question,
    Secrets,
    UnprovenError,
)
from tank_protos.generated import control_pb2 as pb

CHALLENGE_S = 2.0
"""A controller that answers at all answers at once."""


class Prover(NamedTuple):
    """What a process proves with."""

    secrets: Callable[[], Secrets | None]
    """None: it has none, and proves nothing."""
    caller: Callable[[], Party]
    random_bytes: Callable[[int], bytes]
    demanded: Callable[[], bool] = lambda: False
    """Whether the cluster is known to demand it: nobody who can't prove it is called then."""

    def question(self, method: str) -> Question | None:
        """For one call; None: nothing is proved."""
        secrets = self.secrets()
        if secrets is None:
            return None
        return Question(secrets, self.caller(), method, self.random_bytes(NONCE_BYTES))


NO_PROOF = Prover(lambda: None, lambda: Party(0), bytes)  # type: ignore[arg-type]
"""Of a process without a secret."""


class ChannelProofs:
    """Proofs for the calls of one channel of grpc.aio."""

    def __init__(self, channel: grpc.aio.Channel, prover: Prover, ordinal: int | None = None) -> None:
        """ordinal: of the controller at its other end, where that is known."""
        self._prover = prover
        self._ordinal = ordinal
        self._ask = channel.unary_unary(
            CHALLENGE,
            request_serializer=pb.ChallengeRequest.SerializeToString,
            response_deserializer=pb.ChallengeAnswer.FromString,
        )

    async def metadata(self, method: str, timeout_s: float | None = None) -> list[tuple[str, bytes]]:
        """What a call has to carry. AioRpcError: no answer, or one of a controller that isn't believed."""
        question = self._prover.question(method)
        if question is None:
            return []
        answer: pb.ChallengeAnswer | None = None
        try:
            answer = await self._ask(question.request, timeout=min(timeout_s or CHALLENGE_S, CHALLENGE_S))
        except grpc.aio.AioRpcError as error:
            if (
                error.code() is not grpc.StatusCode.UNIMPLEMENTED
            ):  # so answers one of before there was a secret
                raise
        try:
            proof = question.proof(answer, demanded=self._prover.demanded(), ordinal=self._ordinal)
        except UnprovenError as error:
            raise grpc.aio.AioRpcError(
                grpc.StatusCode.UNAUTHENTICATED, grpc.aio.Metadata(), grpc.aio.Metadata(), str(error)
            ) from None
        return [(PROOF_KEY, proof)] if proof else []


class ProvenCalls:
    """Calls with one request each on a channel of grpc.aio, proved: for a generated stub, in its place."""

    def __init__(self, channel: grpc.aio.Channel, prover: Prover, ordinal: int | None = None) -> None:
        """ordinal: as ChannelProofs."""
        self._channel = channel
        self._proofs = ChannelProofs(channel, prover, ordinal)

    def unary_unary(self, method: str, **codecs: Any) -> Callable[..., Any]:
        """As grpc.aio.Channel has it."""
        call = self._channel.unary_unary(method, **codecs)

        async def proved(request: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - as gRPC has it
            metadata = await self._proofs.metadata(method, timeout)
            return await call(request, timeout=timeout, metadata=metadata)

        return proved

    def unary_stream(self, method: str, **codecs: Any) -> Callable[..., Any]:
        """As grpc.aio.Channel has it; the answer is an async generator."""
        call = self._channel.unary_stream(method, **codecs)

        async def proved(request: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - as gRPC has it
            metadata = await self._proofs.metadata(method, timeout)
            parts = call(request, timeout=timeout, metadata=metadata)
            try:
                async for part in parts:
                    yield part
            finally:
                parts.cancel()

        return proved

    def stream_unary(self, method: str, **codecs: Any) -> Callable[..., Any]:
        """As grpc.aio.Channel has it: whoever opens the stream says what proves it (`proofs`)."""
        return self._channel.stream_unary(method, **codecs)

    def stream_stream(self, method: str, **codecs: Any) -> Callable[..., Any]:
        """The same."""
        return self._channel.stream_stream(method, **codecs)

    @property
    def proofs(self) -> ChannelProofs:
        """For streams of requests."""
        return self._proofs


class ProvingInterceptor(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """For grpc without asyncio: proves every call of a channel."""

    def __init__(self, channel: grpc.Channel, prover: Prover) -> None:
        self._prover = prover
        self._ask = channel.unary_unary(
            CHALLENGE,
            request_serializer=pb.ChallengeRequest.SerializeToString,
            response_deserializer=pb.ChallengeAnswer.FromString,
        )

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """As grpc has it."""
        return continuation(self._with_proof(details), request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        """As grpc has it."""
        return continuation(self._with_proof(details), request)

    def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
        """As grpc has it."""
        return continuation(self._with_proof(details), requests)

    def _with_proof(self, details: Any) -> Any:
        """grpc.RpcError; UnprovenError."""
        question = self._prover.question(details.method)
        if question is None:
            return details
        answer: pb.ChallengeAnswer | None = None
        try:
            answer = self._ask(question.request, timeout=min(details.timeout or CHALLENGE_S, CHALLENGE_S))
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
        proof = question.proof(answer, demanded=self._prover.demanded())
        if not proof:
            return details
        return _Details(details.method, details.timeout, [*(details.metadata or ()), (PROOF_KEY, proof)])


class _Details(NamedTuple):
    method: str
    timeout: float | None
    metadata: list[tuple[str, str | bytes]]
    credentials: None = None
    wait_for_ready: bool | None = None
    compression: None = None
