"""The record in which a coordinator keeps a group of Iggy's clients: our own, under a key version that Kafka
has no use for. Tools that read `__consumer_offsets` pass over kinds of keys that they don't know, and so do
our brokers of before."""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from tank_node.coordinators.machine.stored_record import StoredRecord
from tank_protos.wire.errors import WireError

IGGY_KEY: Final = 0x4947
"""The version of the key, "IG": Kafka counts its own from 0 on, and has come to 17 and a few."""
_WRITTEN: Final = 0
_NOBODY: Final = 0xFFFF
_MOST_NAME_BYTES: Final = 0x7FFF
_HEAD: Final = Struct(">hH")
"""Of a key: its version, and the bytes of the group's name behind it."""
_FIXED: Final = Struct(">hQHH")
"""Of a value: its version, the generation, how many members and how many partitions follow."""
_MEMBER: Final = Struct(">IQQIB")
"""Broker, its epoch, connection, client id, whether it is sticky."""
_PARTITION: Final = Struct(">HH")
"""The places, among the members, of who has it and of who gets it next."""


class IggyMemberKey(NamedTuple):
    """A member: a connection of one process of a broker."""

    broker: int
    epoch: int
    connection: int


@dataclass(slots=True, frozen=True)
class StoredIggyMember:
    """A member, as it is stored."""

    key: IggyMemberKey
    client_id: int
    is_sticky: bool


@dataclass(slots=True, frozen=True)
class IggyImage:
    """A group of Iggy's clients, as its record says."""

    generation: int
    members: tuple[StoredIggyMember, ...]
    """In the order of joining."""
    owners: tuple[IggyMemberKey | None, ...]
    """Who has each partition, by number."""
    heirs: tuple[IggyMemberKey | None, ...]
    """Who gets it next, where somebody else has it still."""


class IggyRecord:
    """A record about a group of Iggy's clients."""

    __slots__ = ("group_id", "value")

    def __init__(self, group_id: str, value: IggyImage | None) -> None:
        self.group_id = group_id
        self.value = value
        """None: the group is deleted."""


def iggy_record(group_id: str, image: IggyImage | None) -> StoredRecord:
    """The record of a group; None deletes it. Raises WireError for a name that doesn't fit."""
    name = group_id.encode("utf-8", "surrogateescape")
    if len(name) > _MOST_NAME_BYTES:
        raise WireError(f"a group's name of {len(name)} bytes is too long")
    key = _HEAD.pack(IGGY_KEY, len(name)) + name
    if image is None:
        return key, None
    places: dict[IggyMemberKey | None, int] = {None: _NOBODY}
    parts = [_FIXED.pack(_WRITTEN, image.generation, len(image.members), len(image.owners))]
    for place, member in enumerate(image.members):
        places[member.key] = place
        parts.append(_MEMBER.pack(*member.key, member.client_id, member.is_sticky))
    for owner, heir in zip(image.owners, image.heirs, strict=True):
        parts.append(_PARTITION.pack(places[owner], places[heir]))
    return key, b"".join(parts)


def read(key: bytes, value: bytes | None) -> IggyRecord | None:
    """What a record says whose key is of `IGGY_KEY`; None for a version of the value that only later brokers
    know. Raises WireError."""
    try:
        _, name_bytes = _HEAD.unpack_from(key)
        if len(key) != _HEAD.size + name_bytes:
            raise WireError("the key of a group's record has another length than it says")
        group_id = key[_HEAD.size :].decode("utf-8", "surrogateescape")
        if value is None:
            return IggyRecord(group_id, None)
        version, generation, member_count, count = _FIXED.unpack_from(value)
        if version != _WRITTEN:
            return None
        at = _FIXED.size
        if len(value) != at + member_count * _MEMBER.size + count * _PARTITION.size:
            raise WireError("a group's record has another length than it says")
        members = []
        for _ in range(member_count):
            broker, epoch, connection, client_id, is_sticky = _MEMBER.unpack_from(value, at)
            named = IggyMemberKey(broker, epoch, connection)
            members.append(StoredIggyMember(named, client_id, bool(is_sticky)))
            at += _MEMBER.size
        owners, heirs = [], []
        for _ in range(count):
            owner, heir = _PARTITION.unpack_from(value, at)
            owners.append(_member(members, owner))
            heirs.append(_member(members, heir))
            at += _PARTITION.size
    except StructError as error:
        raise WireError(f"a group's record is cut off: {error}") from None
    return IggyRecord(group_id, IggyImage(generation, tuple(members), tuple(owners), tuple(heirs)))


def _member(members: Sequence[StoredIggyMember], place: int) -> IggyMemberKey | None:
    if place == _NOBODY:
        return None
    if place >= len(members):
        raise WireError(f"a group's record names member {place} of {len(members)}")
    return members[place].key
