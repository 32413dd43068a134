"""The cluster's secret: how processes that share it prove to each other that they know it. Pure.

A caller asks the controller that it calls for a challenge, and proves for one call, by HMAC-SHA256 under the
secret, over both sides' random bytes, who calls whom, and the method. The controller proves first, over the
same. The secret itself is never sent, and a proof is good for one call: not for another method, another
controller or another caller, and not a second time. What is said in the call is not covered: that takes TLS.

The secret is a file of one line. With several lines the first is used to prove, and all are accepted: so it
is changed without a moment at which two processes don't understand each other (docs/operations.md).
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
"""Of a line: whoever asks for a challenge can try guesses on it without end."""
MAX_BYTES: Final = 4096
"""Of the file."""
MAX_LINES: Final = 4
NONCE_BYTES: Final = 32
PROOF_KEY: Final = "tank-proof-bin"
"""The metadata of a call that carries its CallProof."""
REFUSAL_KEY: Final = "tank-refusal"
"""The metadata of a refused call: a Refusal's value."""
CHALLENGE: Final = "/tank.control.Trust/Challenge"
_CONTEXT: Final = b"tank cluster secret 1"
_number = Struct("<I").pack
_nonce = Struct("<Q16s32s")


class SecretError(ValueError):
    """A file that holds no secret; the message says what to do."""


class Role(IntEnum):
    """What a process is to its cluster."""

    ADMIN = 1
    """A person's command."""
    BROKER = 2
    CONTROLLER = 3


class Refusal(Enum):
    """Why a call is not taken, and a sentence that says what to do."""

    MISSING = "missing"
    WRONG = "wrong"
    STALE = "stale"
    NOT_MEANT = "not_meant"
    NONE_HERE = "none_here"

    @property
    def sentence(self) -> str:
        """For the caller's people."""
        return _SENTENCES[self]


_SENTENCES: Final = {
    Refusal.MISSING: "the cluster demands its secret, and this call proves none: start with --secret-file "
    "FILE (TANK_SECRET_FILE), a file that holds the same line as the controllers'",
    Refusal.WRONG: "the secret is not the cluster's: put the line of the controllers' secret file into the "
    "file of this process",
    Refusal.STALE: "the proof is too old, or was used before: try again",
    Refusal.NOT_MEANT: "the proof is for another call, or for another controller: try again",
    Refusal.NONE_HERE: "the cluster demands its secret, and this controller was started without: start it "
    "with --secret-file FILE (TANK_SECRET_FILE)",
}


class Party(NamedTuple):
    """One end of a call."""

    role: Role
    number: int = 0
    """A broker's id, a controller's ordinal."""
    disk: bytes = b""
    """A controller's: its number with another disk is another node."""

    def message(self) -> pb.TrustParty:
        """For the wire."""
        return pb.TrustParty(role=self.role, number=self.number, disk=self.disk)

    @property
    def text(self) -> str:
        """For people."""
        name = self.role.name.lower()
        return name if self.role is Role.ADMIN else f"{name} {self.number}"


def party_of(message: pb.TrustParty) -> Party | None:
    """None: it is of no kind that this version knows."""
    if message.role not in set(Role):
        return None
    return Party(Role(message.role), message.number, message.disk)


@dataclass(slots=True, frozen=True, repr=False)
class Secrets:
    """The lines of a file. Never shown: not by repr, not in an error."""

    lines: tuple[bytes, ...]
    """At least one; the first is used to prove."""

    def __repr__(self) -> str:
        return "Secrets(***)"


def parse(content: bytes, place: str) -> Secrets:
    """The secrets of a file's content. SecretError."""
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
    """What both sides prove for: one call."""

    method: str
    """Its whole name, such as /tank.control.Admin/Change."""
    caller: Party
    answerer: Party
    asked: bytes
    """The caller's random bytes."""
    answered: bytes
    """The controller's."""

    def proof(self, secret: bytes, *, by_caller: bool) -> bytes:
        """That the one side knows the secret; the other side's is another."""
        parts = [
            _CONTEXT, b"caller" if by_caller else b"answerer", self.method.encode(),
            *_parts(self.caller), *_parts(self.answerer), self.asked, self.answered,
        ]  # fmt: skip
        framed = b"".join(_number(len(part)) + part for part in parts)
        return hmac.new(secret, framed, sha256).digest()

    def is_proven(self, proof: bytes, secrets: Secrets, *, by_caller: bool) -> bool:
        """Whether the proof is made with one of these; each is compared, in constant time."""
        found = [hmac.compare_digest(self.proof(line, by_caller=by_caller), proof) for line in secrets.lines]
        return any(found)


def _parts(party: Party) -> tuple[bytes, bytes, bytes]:
    return _number(party.role), _number(party.number), party.disk


class Nonces:
    """A controller's random bytes for challenges. Nothing is kept of those that are given away, so that
    asking for many costs no memory: they carry their time, and a seal that this process alone can make."""

    LIFE_MS: Final = 10_000
    """Between the challenge and the call; by the controller's own clock."""

    def __init__(self, random_bytes: Callable[[int], bytes], monotonic_ms: Callable[[], int]) -> None:
        self._random_bytes = random_bytes
        self._monotonic_ms = monotonic_ms
        self._key = random_bytes(32)
        self._used: dict[bytes, int] = {}
        """Those that proved something, with the time at which they were given: no other can be used again.
        Bounded by the calls of callers that know the secret in LIFE_MS."""

    def give(self) -> bytes:
        """The next one."""
        now_ms, drawn = self._monotonic_ms(), self._random_bytes(16)
        return _nonce.pack(now_ms, drawn, self._seal(now_ms, drawn))

    def is_fresh(self, nonce: bytes) -> bool:
        """Whether it was given a short while ago, and proved nothing yet."""
        if len(nonce) != _nonce.size:
            return False
        given_ms, drawn, seal = _nonce.unpack(nonce)
        is_own = hmac.compare_digest(self._seal(given_ms, drawn), seal)
        return is_own and self._monotonic_ms() - given_ms <= self.LIFE_MS and nonce not in self._used

    def use(self, nonce: bytes) -> None:
        """It has proved something: never again."""
        now_ms = self._monotonic_ms()
        for old, given_ms in list(self._used.items()):
            if now_ms - given_ms <= self.LIFE_MS:
                break
            del self._used[old]
        self._used[nonce] = now_ms

    def _seal(self, given_ms: int, drawn: bytes) -> bytes:
        return hmac.new(self._key, given_ms.to_bytes(8, "little") + drawn, sha256).digest()


class Verifier:
    """A controller's side: answers challenges, and judges calls."""

    def __init__(self, own: Party, nonces: Nonces) -> None:
        self.own = own
        self._nonces = nonces

    def answer(self, request: pb.ChallengeRequest, secrets: Secrets | None) -> pb.ChallengeAnswer:
        """To a question; without a proof where there is no secret here, or the question makes no sense."""
        answer = pb.ChallengeAnswer(answerer=self.own.message(), nonce=self._nonces.give())
        caller = party_of(request.caller)
        if secrets is not None and caller is not None and len(request.nonce) == NONCE_BYTES:
            call = Call(request.method, caller, self.own, request.nonce, answer.nonce)
            answer.proof = call.proof(secrets.lines[0], by_caller=False)
        return answer

    def judge(self, method: str, carried: bytes | None, secrets: Secrets) -> Party | Refusal:
        """Who calls, by the bytes of its CallProof; or why it is not taken."""
        if not carried:
            return Refusal.MISSING
        try:
            given = pb.CallProof.FromString(carried)
        except Exception:  # the runtimes of protobuf raise different types
            return Refusal.NOT_MEANT
        caller = party_of(given.caller)
        if caller is None or party_of(given.answerer) != self.own or len(given.asked) != NONCE_BYTES:
            return Refusal.NOT_MEANT
        if not self._nonces.is_fresh(given.answered):
            return Refusal.STALE
        call = Call(method, caller, self.own, given.asked, given.answered)
        if not call.is_proven(given.proof, secrets, by_caller=True):
            return Refusal.WRONG
        self._nonces.use(given.answered)
        return caller


class UnprovenError(Exception):
    """A controller that doesn't prove that it knows the cluster's secret; the message says what to do."""


class Question:
    """A caller's side of one call: asks for the challenge, judges the answer, proves."""

    def __init__(self, secrets: Secrets, caller: Party, method: str, asked: bytes) -> None:
        self._secrets = secrets
        self.request = pb.ChallengeRequest(caller=caller.message(), method=method, nonce=asked)
        self._caller, self._method, self._asked = caller, method, asked

    def proof(
        self, answer: pb.ChallengeAnswer | None, *, demanded: bool, ordinal: int | None = None
    ) -> bytes:
        """The CallProof's bytes; none for a controller without a secret. `answer` None: it knows no
        challenges. `ordinal`: of the controller that is meant, where that is known. UnprovenError: it proves
        another secret, or none and the cluster demands it, or is another controller."""
        answerer = None if answer is None else party_of(answer.answerer)
        if answer is None or answerer is None or not answer.proof:
            if demanded:
                raise UnprovenError(
                    "it doesn't prove that it knows the cluster's secret: start it with --secret-file"
                )
            return b""
        call = Call(self._method, self._caller, answerer, self._asked, answer.nonce)
        if not call.is_proven(answer.proof, self._secrets, by_caller=False):
            raise UnprovenError(f"it knows another secret than this process: {Refusal.WRONG.sentence}")
        if ordinal is not None and (answerer.role, answerer.number) != (Role.CONTROLLER, ordinal):
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
    """A process' secret, which may change while it runs: it is read again, at most once a second."""

    AGAIN_MS: Final = 1000

    def __init__(self, read: Callable[[], bytes], place: str, monotonic_ms: Callable[[], int]) -> None:
        """SecretError, OSError: of the first reading. `place`: the file's name, for messages."""
        self._read = read
        self._place = place
        self._monotonic_ms = monotonic_ms
        self.problem = ""
        """Why the last reading failed: what was read before is used; empty: it didn't."""
        self._secrets = parse(read(), place)
        self._read_ms = monotonic_ms()

    def current(self) -> Secrets:
        """What the file holds now; where it can't be read, or holds none, what it held before."""
        now_ms = self._monotonic_ms()
        if now_ms - self._read_ms >= self.AGAIN_MS:
            self._read_ms = now_ms
            try:
                self._secrets, self.problem = parse(self._read(), self._place), ""
            except (SecretError, OSError) as error:
                self.problem = str(error)
        return self._secrets
