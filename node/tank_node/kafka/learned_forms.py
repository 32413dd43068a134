"""The forms of requests that a connection repeats: only a few fields of known places differ in them, so that
neither their headers nor their bodies are decoded."""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from tank_node.kafka.session import SIZE_BYTES, KafkaApi, KafkaCall, KafkaSession, LearnedRequests

_HEAD_BYTES: Final = 4
"""Key and version."""
_BEHIND_CORRELATION: Final = 8
_FORGOTTEN_AFTER: Final = 100
"""After so many requests that did not fit the learned one of their length, all are forgotten: their sessions,
topics or members may be gone."""
_MOST_BYTES: Final = 1_024
"""The longest request that is learned: names may have 32 KiB, and each connection keeps its forms."""
_HEAD: Final = Struct(">hhih")
"""Key, version, correlation id and the length of the client's name."""
_NO_TAGS: Final = b"\0"
_read_i32: Final = Struct(">i").unpack_from


class LearnedForm:
    """What requests of one form have in common. Subclasses read the fields in which they differ."""

    __slots__ = ("_api", "_client_id", "_fixed", "_has_tags", "_head", "_version")

    def __init__(self, call: KafkaCall, frame: bytes, gaps: Sequence[tuple[int, int]]) -> None:
        """frame: one of them. gaps: where in it the fields begin and end that differ, in order."""
        self._api: KafkaApi = call.api
        self._version = call.version
        self._client_id = call.client_id
        self._has_tags = call.has_tags
        self._head = frame[:_HEAD_BYTES]
        begins = [_BEHIND_CORRELATION, *(end for _, end in gaps)]
        ends = [*(begin for begin, _ in gaps), len(frame)]
        self._fixed = [(begin, end, frame[begin:end]) for begin, end in zip(begins, ends, strict=True)]
        """What all of them have between these places."""

    def begun(self, session: KafkaSession, frame: memoryview) -> KafkaCall | None:
        """Begins the call of a request, without its size, of this form. None: it has another form, and
        nothing is done."""
        if frame[:_HEAD_BYTES] != self._head:
            return None
        for begin, end, fixed in self._fixed:
            if frame[begin:end] != fixed:
                return None
        (correlation_id,) = _read_i32(frame, _HEAD_BYTES)
        call = KafkaCall(
            session, self._api, self._version, correlation_id, self._client_id, has_tags=self._has_tags
        )
        session.count_received(self._client_id, SIZE_BYTES + len(frame))
        session.begin(call)
        return call

    def take(self, session: KafkaSession, frame: memoryview) -> bool:
        """Carries out a request, without its size, of this form. False: it has another one, and nothing is
        done."""
        raise NotImplementedError


class LearnedForms(LearnedRequests):
    """The learned requests of one connection and one API."""

    __slots__ = ("_forms", "_gate_version", "_missed", "_most")

    def __init__(self, most: int, gate_version: int) -> None:
        self._most = most
        self._gate_version = gate_version
        """The version of the gate that has allowed all learned requests."""
        self._forms: dict[int, LearnedForm | None] = {}
        """By the length of the frame; None where the request can't be learned."""
        self._missed = 0

    def take(self, session: KafkaSession, frame: memoryview) -> bool:
        form = self._forms.get(len(frame))
        if form is None:
            return False
        if session.gate_version != self._gate_version:
            session.learned_forms.clear()
            return False
        if form.take(session, frame):
            return True
        self._missed += 1
        if self._missed >= _FORGOTTEN_AFTER:
            self._missed = 0
            self._forms.clear()
        return False

    def wants(self, length: int) -> bool:
        """Whether a request of this length may be learned."""
        return length <= _MOST_BYTES and length not in self._forms and len(self._forms) < self._most

    def add(self, length: int, form: LearnedForm | None) -> None:
        """Keeps a form; None: requests of this length stay with their handler."""
        self._forms[length] = form


def forms_of(call: KafkaCall) -> LearnedForms:
    """The learned requests of a call's connection and API."""
    session, key = call.session, call.api.key
    found = session.learned_forms.get(key)
    if not isinstance(found, LearnedForms):
        found = LearnedForms(session.limits.learned_paths, session.gate_version)
        session.learned_forms[key] = found
    return found


def head_of(call: KafkaCall) -> bytes:
    """The header of a call's request, of a version with tagged fields, with the correlation id 0."""
    name = b"" if call.client_id is None else call.client_id.encode("utf-8", "surrogateescape")
    size = -1 if call.client_id is None else len(name)
    return _HEAD.pack(call.api.key, call.version, 0, size) + name + _NO_TAGS
