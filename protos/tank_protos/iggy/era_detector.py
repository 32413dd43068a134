"""Finds out which era of the protocol a connection speaks, by its first bytes and requests. Pure."""

from enum import Enum, auto
from struct import Struct
from typing import ClassVar, Final

from tank_protos.iggy import classic, tolerant, vsr
from tank_protos.iggy.commands import IggyCode, VsrOperation
from tank_protos.iggy.eras import A2, A3, B1, B2, B3, SEED, V11, Era, Framing
from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.iggy.limits import MAX_FRAME_BYTES
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import Truncated, WireError

_U32: Final = Struct("<I")
_EXACT: Final = {"": B3, "0.7.0": B1, "0.8.0": B2}
"""By the version of the client's library. A client without one is Node's of B3."""
_SERIES: Final = {"0.5.": A3, "0.6.": A3, "0.9.": B3, "0.10.": B3}
"""By how that version begins."""
_VSR_ERAS: Final = {vsr.protocol_series(vsr.PROTOCOL): V11}
"""By major and minor of the protocol's version."""
_LOGINS: Final = frozenset({IggyCode.LOGIN_USER, IggyCode.LOGIN_WITH_TOKEN})


class NeedMore(Enum):
    """Why the era is not known yet."""

    HEAD = auto()
    """The first four bytes are not there."""
    FRAME = auto()
    """The framing is known; no whole request has come."""
    LOGIN = auto()
    """No request yet says more than a ping, which is the same in all eras of a framing. A VSR client may only
    ping before it logs in: other requests are refused (UNAUTHENTICATED)."""


class NoIggyClient(WireError):
    """The first bytes are those of no client of Iggy's, or of none that the listener takes."""

    reason: ClassVar[str] = "no_iggy_client"


class EraDetector:
    """Finds the era of one connection. `fixed`: what the listener says, so that clients may lie."""

    def __init__(self, fixed: Era | None = None, most_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._fixed = fixed
        self._most_frame_bytes = most_frame_bytes
        self._narrows = False
        self.framing: Framing | None = None
        """How to cut requests; None: the first four bytes are not there."""
        self.era: Era | None = None
        self.sdk_version: str | None = None
        """What the client's library says of itself at the login; None: nothing."""
        self.is_unknown_sdk = False
        """Whether that is no version that we know, so that the era is a guess."""

    def feed(self, head: Buffer, frame: Buffer | None = None) -> Era | NeedMore:
        """Returns the connection's era, or why it isn't known.

        `head`: the first bytes of the connection; they matter until the framing is known. `frame`: the next
        whole request, which each call has once; None: there is none yet. A client that was taken for one of
        the seed era, which has no logins, and logs in after all is of its login's era. Raises NoIggyClient,
        IggyRefusal (INCOMPATIBLE_PROTOCOL) for a VSR client of another version, and WireError for a login
        that can't be read.
        """
        if self.era is not None and not (self.era is SEED and self._logs_in(frame)):
            return self.era
        if self.framing is None:
            if len(head) < _U32.size:
                return NeedMore.HEAD
            self.framing = self._framing(_U32.unpack_from(head)[0])
        if frame is None:
            return NeedMore.FRAME
        found = self._of_vsr(frame) if self.framing is Framing.VSR else self._of_classic(frame)
        self.era = found
        return NeedMore.LOGIN if found is None else found

    def narrow(self, create_topic: Buffer) -> Era:
        """Returns the era after a request to create a topic, whose payload tells A1 from A2: their logins are
        the same. Call it for each such request, while the era is known; it changes at the first at most."""
        assert self.era is not None, "the era is found by a login, which comes first"
        if self._narrows:
            self.era = tolerant.era_of_create_topic(create_topic) or self.era
            self._narrows = False
        return self.era

    def _framing(self, first: int) -> Framing:
        if first and not classic.CODE_BYTES <= first <= self._most_frame_bytes - classic.LENGTH_BYTES:
            raise NoIggyClient(f"the first request would have {first} bytes")
        framing = Framing.CLASSIC if first else Framing.VSR
        if self._fixed is not None and self._fixed.framing is not framing:
            raise NoIggyClient(f"the client's framing is {framing.name}, and the era {self._fixed.name}")
        return framing

    def _logs_in(self, frame: Buffer | None) -> bool:
        """Whether this is a login, of a connection whose era the listener does not say."""
        return self._fixed is None and frame is not None and classic.read_request(frame).code in _LOGINS

    def _of_classic(self, frame: Buffer) -> Era | None:
        request = classic.read_request(frame)
        if request.code == IggyCode.LOGIN_USER:
            self.sdk_version = tolerant.read_login(request.payload).sdk_version
            found = self._of_sdk()
        elif request.code == IggyCode.LOGIN_WITH_TOKEN:
            found = B3
        else:
            found = SEED
        if self._fixed is not None:
            return self._fixed
        return None if request.code == IggyCode.PING else found

    def _of_sdk(self) -> Era:
        version = self.sdk_version
        if version is None:
            self._narrows = self._fixed is None
            return A2
        if version in _EXACT:
            return _EXACT[version]
        for begin, era in _SERIES.items():
            if version.startswith(begin):
                return era
        self.is_unknown_sdk = True
        return B3

    def _of_vsr(self, frame: Buffer) -> Era | None:
        request = vsr.read_request(frame)
        if request.operation != VsrOperation.REGISTER:
            return None
        if len(request.body) < _U32.size:
            raise Truncated("a login without the protocol's version")
        packed = _U32.unpack_from(request.body)[0]
        era = _VSR_ERAS.get(vsr.protocol_series(packed))
        if era is None:
            raise IggyRefusal(IggyError.INCOMPATIBLE_PROTOCOL, f"the client's protocol is {packed:#x}")
        self.sdk_version = tolerant.read_session_login(request.body).sdk_version
        return self._fixed or era
