"""Frames of Iggy's strangers: requests of an era whose payloads are changed, and frames that lie about
themselves."""

from functools import cache
from random import Random
from typing import Final

from tank_protos.generated.iggy.by_id import REQUESTS
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import ERA_NAMES, ERAS, Era, Framing
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import PartitioningKind
from tank_protos.iggy.partitioning import Partitioning
from tests.fuzz import mutate
from tests.support.iggy.iggy_sends import send_payload

NAME: Final = "main"
"""Stream and topic that requests speak of."""
WITNESS: Final = "witness"
"""Those of the honest client alone."""
LIE_SHARE: Final = 0.02
"""Of frames that say of themselves that they are shorter or longer than frames can be."""
SPOILED_SHARE: Final = 0.1
"""Of frames that are changed as a whole, header and all."""
CLASSIC_LENGTHS: Final = (0, 1, 2, 3, 0xFFFFFFFF)
VSR_SIZES: Final = (0, 255, 0xFFFFFFFF)
VSR_SIZE_AT: Final = 48

_HARMFUL: Final = frozenset({IggyCode.DELETE_USER, IggyCode.UPDATE_USER, IggyCode.CHANGE_PASSWORD})
"""Commands by which strangers would be nobody from then on."""
_HARMFUL_TO_STREAMS: Final = frozenset(
    {IggyCode.DELETE_STREAM, IggyCode.UPDATE_STREAM, IggyCode.PURGE_STREAM, IggyCode.DELETE_TOPIC}
    | {IggyCode.UPDATE_TOPIC, IggyCode.PURGE_TOPIC, IggyCode.REMOVE_PARTITIONS, IggyCode.DELETE_SEGMENTS}
)
"""Commands by which they could take away what the honest client reads."""
CODES: Final = tuple(code for code in REQUESTS if code not in _HARMFUL | _HARMFUL_TO_STREAMS)
ERAS_OF: Final = {framing: tuple(era for era in ERAS if era.framing is framing) for framing in Framing}


@cache
def good(era_name: str, code: int) -> bytes:
    """A payload as a client of the era sends it; empty where the era has no such command."""
    era = ERA_NAMES[era_name]
    if code == IggyCode.SEND_MESSAGES:
        chosen = Partitioning(PartitioningKind.PARTITION, era.base)
        return send_payload(era, of_name(NAME), of_name(NAME), chosen, [b"x" * 30])
    message = REQUESTS[code]
    if not message.VERSIONS[0] <= era.version <= message.VERSIONS[1]:
        return b""
    request = message()
    for field in ("stream", "topic"):
        if hasattr(request, field):
            setattr(request, field, of_name(NAME))
    return b"".join(request.encode(era.version))


def changed(chance: Random, era: Era, codes: tuple[int, ...] = CODES) -> tuple[int, bytes]:
    """The code and the payload of a request, changed."""
    code = chance.choice(codes)
    return code, mutate.payload(chance, good(era.name, code), good(era.name, IggyCode.POLL_MESSAGES))


def spoiled(chance: Random, era: Era, frame: bytes) -> bytes:
    """The frame, or one that lies about itself."""
    roll = chance.random()
    if roll < LIE_SHARE:
        if era.framing is Framing.VSR:
            size = chance.choice(VSR_SIZES).to_bytes(4, "little")
            return frame[:VSR_SIZE_AT] + size + frame[VSR_SIZE_AT + 4 :]
        return chance.choice(CLASSIC_LENGTHS).to_bytes(4, "little") + frame[4:]
    if roll < LIE_SHARE + SPOILED_SHARE:
        return mutate.payload(chance, frame, frame)
    return frame
