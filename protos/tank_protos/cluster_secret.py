"""The cluster's secret: how processes that share it prove to each other that they know it. Pure.

A caller asks the controller for a challenge, and proves one call by an HMAC-SHA256 under the secret, over
both sides' random bytes, caller, controller and method. The controller proves itself first, over the same.
The secret itself is never sent, and a proof is good for one call: not for another method, another controller
or another caller, and not a second time. The content of the call is not protected: that takes TLS.

The secret is a file of one line. With several lines the first is used to prove, and all are accepted: so the
secret can be changed while processes accept each other at every moment (docs/operations.md).
"""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from hashlib import sha256
from struct import Struct
from typing import Final, NamedTuple

from tank_protos.generated import control_pb2 as pb

MIN_CHARS: Final = 16
"""The least length of a secret: any caller can get a challenge, and test guesses on it without limit."""
MAX_BYTES: Final = 4096
"""The greatest size of the file."""
MAX_LINES: Final = 4
NONCE_BYTES: Final = 32
PROOF_KEY: Final = "tank-proof-bin"
"""The metadata of a call that carries its CallProof."""
REFUSAL_KEY: Final = "tank-refusal"
"""The metadata of a refused call: a SecretRefusal's value."""
CHALLENGE: Final = "/tank.control.Trust/Challenge"
_CONTEXT: Final = b"tank cluster secret 1"
_number = Struct("<I").pack
_nonce = Struct("<Q16s32s")


class SecretError(ValueError):
    """A file that holds no secret; the message says what to do."""


class PartyRole(IntEnum):
    """The role of a process in its cluster."""

    ADMIN = 1
    """An operator's command."""
    BROKER = 2
    CONTROLLER = 3


class SecretRefusal(Enum):
    """Why a call is refused, and a sentence that says what to do."""

    MISSING = "missing"
    WRONG = "wrong"
    STALE = "stale"
    NOT_MEANT = "not_meant"
    NONE_HERE = "none_here"

    @property
    def sentence(self) -> str:
        """The reason and the remedy, for the caller's operator."""
        return _SENTENCES[self]


_SENTENCES: Final = {
    SecretRefusal.MISSING: "the cluster demands its secret, and this call proves none: start with "
    "--secret-file FILE (TANK_SECRET_FILE), a file that holds the same line as the controllers'",
    SecretRefusal.WRONG: "the secret is not the cluster's: put the line of the controllers' secret file into "
    "the file of this process",
    SecretRefusal.STALE: "the proof is too old, or was used before: try again",
    SecretRefusal.NOT_MEANT: "the proof is for another call, or for another controller: try again",
    SecretRefusal.NONE_HERE: "the cluster demands its secret, and this controller was started without: start "
    "it with --secret-file FILE (TANK_SECRET_FILE)",
}


class Party(NamedTuple):
    """One end of a call."""

    role: PartyRole
    number: int = 0
    """A broker's id, or a controller's ordinal."""
    disk: bytes = b""
    """The UUID of a controller's disk: the same ordinal with another disk is another node."""

    def message(self) -> pb.TrustParty:
        """The party as a protobuf message."""
        return pb.TrustParty(role=self.role, number=self.number, disk=self.disk)

    @property
    def text(self) -> str:
        """The party in words."""
        name = self.role.name.lower()
        return name if self.role is PartyRole.ADMIN else f"{name} {self.number}"


def party_of(message: pb.TrustParty) -> Party | None:
    """Reads a party; None for a role that this version doesn't know."""
    if message.role not in set(PartyRole):
        return None
    return Party(PartyRole(message.role), message.number, message.disk)


@dataclass(slots=True, frozen=True, repr=False)
class Secrets:
    """The secrets in a file, one per line. Neither repr nor errors show them."""

    lines: tuple[bytes, ...]
    """At least one; the first is used to prove."""

    def __repr__(self) -> str:
        return "Secrets(***)"


def parse(content: bytes, place: str) -> Secrets:
    """Reads the secrets in a file's content. Raises SecretError."""
    how = f"write one line of at least {MIN_CHARS} signs without spaces into it (`openssl rand -hex 32`)"
    if len(content) > MAX_BYTES:
        raise SecretError(f"{place} holds more than {MAX_BYTES} bytes, and is no secret: {how}")
    lines = tuple(line.strip() for line in content.splitlines() if line.strip())
    if not lines:
        raise SecretError(f"{place} holds no secret: {how}")
    if len(lines) > MAX_LINES:
        raise SecretError(f"{place} has {len(lines)} lines, and at most {MAX_LINES} secrets are taken")
    for line in lines:
        if len(line) < MIN_CHARS or any(not 0x21 <= sign <= 0x7E for sign in line):
            raise SecretError(f"a line of {place} is no secret: {how}")
    return Secrets(lines)


@dataclass(slots=True, frozen=True)
class Call:
    """The facts about one call that both sides' proofs cover."""

    method: str
    """The method's full name, such as /tank.control.Admin/Change."""
    caller: Party
    answerer: Party
    asked: bytes
    """The caller's random bytes."""
    answered: bytes
    """The controller's."""

    def proof(self, secret: bytes, *, by_caller: bool) -> bytes:
        """The proof that one side knows the secret; each side has a different proof."""
        parts = [
            _CONTEXT, b"caller" if by_caller else b"answerer", self.method.encode(),
            *_parts(self.caller), *_parts(self.answerer), self.asked, self.answered,
        ]  # fmt: skip
        framed = b"".join(_number(len(part)) + part for part in parts)
        return hmac.new(secret, framed, sha256).digest()

    def is_proven(self, proof: bytes, secrets: Secrets, *, by_caller: bool) -> bool:
        """Whether the proof was made with one of these secrets; each is compared, in constant time."""
        found = [hmac.compare_digest(self.proof(line, by_caller=by_caller), proof) for line in secrets.lines]
        return any(found)


def _parts(party: Party) -> tuple[bytes, bytes, bytes]:
    return _number(party.role), _number(party.number), party.disk


class Nonces:
    """A controller's random bytes for challenges. Given nonces are not stored, so that many requests cost no
    memory: a nonce contains its time, and a seal that only this process can make.
    """

    LIFE_MS: Final = 10_000
    """The longest time between the challenge and the call, by the controller's clock."""

    def __init__(self, random_bytes: Callable[[int], bytes], monotonic_ms: Callable[[], int]) -> None:
        self._random_bytes = random_bytes
        self._monotonic_ms = monotonic_ms
        self._key = random_bytes(32)
        self.used: dict[bytes, int] = {}
        """Used nonces, with the time at which they were given, so that none is used twice. Bounded by the
        calls, in LIFE_MS, of callers that know the secret.
        """

    def give(self) -> bytes:
        """Returns a new nonce."""
        now_ms, drawn = self._monotonic_ms(), self._random_bytes(16)
        return _nonce.pack(now_ms, drawn, self._seal(now_ms, drawn))

    def is_fresh(self, nonce: bytes) -> bool:
        """Whether the nonce was given less than LIFE_MS ago, and was not used yet."""
        if len(nonce) != _nonce.size:
            return False
        given_ms, drawn, seal = _nonce.unpack(nonce)
        is_own = hmac.compare_digest(self._seal(given_ms, drawn), seal)
        return is_own and self._monotonic_ms() - given_ms <= self.LIFE_MS and nonce not in self.used

    def use(self, nonce: bytes) -> None:
        """Notes that the nonce was used, so that it can't be used again."""
        now_ms = self._monotonic_ms()
        for old, given_ms in list(self.used.items()):
            if now_ms - given_ms <= self.LIFE_MS:
                break
            del self.used[old]
        self.used[nonce] = now_ms

    def _seal(self, given_ms: int, drawn: bytes) -> bytes:
        return hmac.new(self._key, given_ms.to_bytes(8, "little") + drawn, sha256).digest()


class Verifier:
    """The controller's side: answers requests for challenges, and checks calls."""

    def __init__(self, own: Party, nonces: Nonces) -> None:
        self.own = own
        self._nonces = nonces

    def answer(self, request: pb.ChallengeRequest, secrets: Secrets | None) -> pb.ChallengeAnswer:
        """The answer to a request for a challenge; without a proof when this controller has no secret, or the
        request is malformed.
        """
        answer = pb.ChallengeAnswer(answerer=self.own.message(), nonce=self._nonces.give())
        caller = party_of(request.caller)
        if secrets is not None and caller is not None and len(request.nonce) == NONCE_BYTES:
            call = Call(request.method, caller, self.own, request.nonce, answer.nonce)
            answer.proof = call.proof(secrets.lines[0], by_caller=False)
        return answer

    def judge(self, method: str, carried: bytes | None, secrets: Secrets) -> Party | SecretRefusal:
        """Returns the caller that a CallProof's bytes prove, or the reason for a refusal."""
        if not carried:
            return SecretRefusal.MISSING
        try:
            given = pb.CallProof.FromString(carried)
        except Exception:  # the runtimes of protobuf raise different types
            return SecretRefusal.NOT_MEANT
        caller = party_of(given.caller)
        if caller is None or party_of(given.answerer) != self.own or len(given.asked) != NONCE_BYTES:
            return SecretRefusal.NOT_MEANT
        if not self._nonces.is_fresh(given.answered):
            return SecretRefusal.STALE
        call = Call(method, caller, self.own, given.asked, given.answered)
        if not call.is_proven(given.proof, secrets, by_caller=True):
            return SecretRefusal.WRONG
        self._nonces.use(given.answered)
        return caller


class UnprovenError(Exception):
    """A controller didn't prove that it knows the cluster's secret; the message says what to do."""


class Question:
    """The caller's side of one call: requests the challenge, checks the answer, makes the proof."""

    def __init__(self, secrets: Secrets, caller: Party, method: str, asked: bytes) -> None:
        self._secrets = secrets
        self.request = pb.ChallengeRequest(caller=caller.message(), method=method, nonce=asked)
        self._caller, self._method, self._asked = caller, method, asked

    def proof(
        self, answer: pb.ChallengeAnswer | None, *, demanded: bool, ordinal: int | None = None
    ) -> bytes:
        """Returns the CallProof's bytes; empty for a controller without a secret. `answer` None: the
        controller doesn't know challenges. `ordinal`: that of the intended controller, if it is known. Raises
        UnprovenError when the controller proves another secret, proves none although the cluster demands it,
        or is another controller.
        """
        answerer = None if answer is None else party_of(answer.answerer)
        if answer is None or answerer is None or not answer.proof:
            if demanded:
                raise UnprovenError(
                    "it doesn't prove that it knows the cluster's secret: start it with --secret-file"
                )
            return b""
        call = Call(self._method, self._caller, answerer, self._asked, answer.nonce)
        if not call.is_proven(answer.proof, self._secrets, by_caller=False):
            raise UnprovenError(f"it knows another secret than this process: {SecretRefusal.WRONG.sentence}")
        if ordinal is not None and (answerer.role, answerer.number) != (PartyRole.CONTROLLER, ordinal):
            raise UnprovenError(f"controller {ordinal} was meant, and {answerer.text} is there")
        return pb.CallProof(
            caller=self._caller.message(),
            answerer=answer.answerer,
            asked=self._asked,
            answered=answer.nonce,
            proof=call.proof(self._secrets.lines[0], by_caller=True),
        ).SerializeToString()


def carried_proof(metadata: Sequence[tuple[str, str | bytes]]) -> bytes | None:
    """The bytes of a call's CallProof, from its metadata."""
    for key, value in metadata:
        if key == PROOF_KEY and isinstance(value, bytes):
            return value
    return None


class SecretFile:
    """The file with a process' secret, which may change while the process runs: it is read again, at most
    once a second.
    """

    AGAIN_MS: Final = 1000

    def __init__(self, read: Callable[[], bytes], place: str, monotonic_ms: Callable[[], int]) -> None:
        """Reads the file; raises SecretError, OSError. `place`: the file's name, for messages."""
        self._read = read
        self._place = place
        self._monotonic_ms = monotonic_ms
        self.problem = ""
        """Why the last reading failed, so that the earlier secret is used; empty when it succeeded."""
        self._secrets = parse(read(), place)
        self._read_ms = monotonic_ms()

    def current(self) -> Secrets:
        """The present secrets of the file; the earlier ones when it can't be read or has none."""
        now_ms = self._monotonic_ms()
        if now_ms - self._read_ms >= self.AGAIN_MS:
            self._read_ms = now_ms
            try:
                self._secrets, self.problem = parse(self._read(), self._place), ""
            except (SecretError, OSError) as error:
                self.problem = str(error)
        return self._secrets
