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
"""How long a controller may take for its challenge; a live one answers at once."""


class Prover(NamedTuple):
    """The secret and the identity with which a process proves itself."""

    secrets: Callable[[], Secrets | None]
    """None: the process has no secret, and proves nothing."""
    caller: Callable[[], Party]
    random_bytes: Callable[[int], bytes]
    demanded: Callable[[], bool] = lambda: False
    """Whether the cluster is known to demand the secret: then controllers that can't prove it are not
    called.
    """

    def question(self, method: str) -> Question | None:
        """The caller's side of one call's proof; None: nothing is proved."""
        secrets = self.secrets()
        if secrets is None:
            return None
        return Question(secrets, self.caller(), method, self.random_bytes(NONCE_BYTES))


NO_PROOF = Prover(lambda: None, lambda: Party(0), bytes)  # type: ignore[arg-type]
"""The prover of a process without a secret."""


class ChannelProofs:
    """Proofs for the calls of one channel of grpc.aio."""

    def __init__(self, channel: grpc.aio.Channel, prover: Prover, ordinal: int | None = None) -> None:
        """`ordinal`: that of the controller at the other end of the channel, if it is known."""
        self._prover = prover
        self._ordinal = ordinal
        self._ask = channel.unary_unary(
            CHALLENGE,
            request_serializer=pb.ChallengeRequest.SerializeToString,
            response_deserializer=pb.ChallengeAnswer.FromString,
        )

    async def metadata(self, method: str, timeout_s: float | None = None) -> list[tuple[str, bytes]]:
        """Returns the metadata that proves a call. Raises AioRpcError when the controller doesn't answer, or
        can't prove itself.
        """
        question = self._prover.question(method)
        if question is None:
            return []
        answer: pb.ChallengeAnswer | None = None
        try:
            answer = await self._ask(question.request, timeout=min(timeout_s or CHALLENGE_S, CHALLENGE_S))
        except grpc.aio.AioRpcError as error:
            if (
                error.code() is not grpc.StatusCode.UNIMPLEMENTED
            ):  # the answer of a controller whose version doesn't know secrets
                raise
        try:
            proof = question.proof(answer, demanded=self._prover.demanded(), ordinal=self._ordinal)
        except UnprovenError as error:
            raise grpc.aio.AioRpcError(
                grpc.StatusCode.UNAUTHENTICATED, grpc.aio.Metadata(), grpc.aio.Metadata(), str(error)
            ) from None
        return [(PROOF_KEY, proof)] if proof else []


class ProvenCalls:
    """Proves the calls of a generated stub: passed to it in place of a grpc.aio channel."""

    def __init__(self, channel: grpc.aio.Channel, prover: Prover, ordinal: int | None = None) -> None:
        """`ordinal`: as in ChannelProofs."""
        self._channel = channel
        self._proofs = ChannelProofs(channel, prover, ordinal)

    def unary_unary(self, method: str, **codecs: Any) -> Callable[..., Any]:
        """As in grpc.aio.Channel."""
        call = self._channel.unary_unary(method, **codecs)

        async def proved(request: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - as gRPC has it
            metadata = await self._proofs.metadata(method, timeout)
            return await call(request, timeout=timeout, metadata=metadata)

        return proved

    def unary_stream(self, method: str, **codecs: Any) -> Callable[..., Any]:
        """As in grpc.aio.Channel; the result is an async generator."""
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
        """As in grpc.aio.Channel; the caller adds the metadata that proves the stream (`proofs`)."""
        return self._channel.stream_unary(method, **codecs)

    def stream_stream(self, method: str, **codecs: Any) -> Callable[..., Any]:
        """As `stream_unary`."""
        return self._channel.stream_stream(method, **codecs)

    @property
    def proofs(self) -> ChannelProofs:
        """The proofs for calls with a stream of requests."""
        return self._proofs


class ProvingInterceptor(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Proves every call of a channel of grpc without asyncio."""

    def __init__(self, channel: grpc.Channel, prover: Prover) -> None:
        self._prover = prover
        self._ask = channel.unary_unary(
            CHALLENGE,
            request_serializer=pb.ChallengeRequest.SerializeToString,
            response_deserializer=pb.ChallengeAnswer.FromString,
        )

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """Implements grpc's interceptor."""
        return continuation(self._with_proof(details), request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        """Implements grpc's interceptor."""
        return continuation(self._with_proof(details), request)

    def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
        """Implements grpc's interceptor."""
        return continuation(self._with_proof(details), requests)

    def _with_proof(self, details: Any) -> Any:
        """The call's details with the proof added. Raises grpc.RpcError, UnprovenError."""
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
