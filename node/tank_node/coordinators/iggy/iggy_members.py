"""The members of an Iggy group, and the brokers that speak for them. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from tank_node.coordinators.machine.iggy_requests import BrokerSaid
from tank_node.coordinators.records.iggy_records import IggyMemberKey, StoredIggyMember

SILENCE_MS: Final = 6_000
"""How long a broker may be silent before its members are out. A broker polls no longer by what it heard last,
counted from when it asked."""


class _Speaker:
    """One process of a broker that speaks for members."""

    __slots__ = ("heard_ms", "sequence")

    def __init__(self, heard_ms: int) -> None:
        self.heard_ms = heard_ms
        self.sequence = 0
        """That of its last message; 0: there was none since the group was loaded."""


class IggyMembers:
    """Members in the order of joining. Those of one broker are of one process: the newest one."""

    __slots__ = ("_members", "_most", "_speakers")

    def __init__(self, most: int) -> None:
        """most: how many members the group may have."""
        self._most = most
        self._members: dict[IggyMemberKey, StoredIggyMember] = {}
        self._speakers: dict[int, tuple[int, _Speaker]] = {}
        """By broker: its epoch, and when that process was heard last."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[StoredIggyMember]:
        return iter(self._members.values())

    def keys(self) -> list[IggyMemberKey]:
        """Who they are."""
        return list(self._members)

    @property
    def is_sticky(self) -> bool:
        """Whether partitions stay where they are as far as that is fair: one member that counts on it is
        enough."""
        return any(member.is_sticky for member in self._members.values())

    def load(self, member: StoredIggyMember) -> None:
        """Takes over a stored member. Its broker was never heard: see `begin_times`."""
        self._members[member.key] = member
        self._speakers[member.key.broker] = member.key.epoch, _Speaker(0)

    def begin_times(self, now_ms: int) -> None:
        """All brokers count as heard now."""
        for _, speaker in self._speakers.values():
            speaker.heard_ms = now_ms

    def is_replaced(self, broker: int, epoch: int) -> bool:
        """Whether a later process of this broker speaks for its members."""
        return self._speakers.get(broker, (0, None))[0] > epoch

    def hear(self, now_ms: int, said: BrokerSaid) -> bool:
        """Notes that a broker lives; returns whether what it said is new."""
        epoch, speaker = self._speakers.get(said.broker, (0, None))
        if speaker is None or epoch != said.epoch:
            speaker = _Speaker(now_ms)
            self._speakers[said.broker] = said.epoch, speaker
        if said.sequence <= speaker.sequence:
            return False
        speaker.sequence, speaker.heard_ms = said.sequence, now_ms
        return True

    def take(self, said: BrokerSaid) -> bool:
        """The broker has these members, and no others; returns whether that is new. Who finds no room is left
        out."""
        named = {IggyMemberKey(said.broker, said.epoch, each.connection): each for each in said.members}
        changed = self._drop(lambda key: key.broker == said.broker and key not in named)
        for key, each in named.items():
            known = self._members.get(key)
            if known is None and len(self._members) >= self._most:
                continue
            member = StoredIggyMember(key, each.client_id, each.is_sticky)
            if known != member:
                self._members[key] = member
                changed = True
        return changed

    def drop_lost(self, now_ms: int, is_alive: Callable[[int, int], bool]) -> bool:
        """Drops the members of brokers that are silent for too long, or are not what they were; returns
        whether there were some. is_alive: takes a broker and its epoch."""
        lost = {
            broker
            for broker, (epoch, speaker) in self._speakers.items()
            if now_ms - speaker.heard_ms >= SILENCE_MS or not is_alive(broker, epoch)
        }
        changed = self._drop(lambda key: key.broker in lost)
        present = {key.broker for key in self._members}
        for broker in lost - present:
            del self._speakers[broker]
        return changed

    def clear(self) -> bool:
        """Drops all; returns whether there were some."""
        self._speakers.clear()
        return self._drop(lambda key: True)

    def _drop(self, is_gone: Callable[[IggyMemberKey], bool]) -> bool:
        gone = [key for key in self._members if is_gone(key)]
        for key in gone:
            del self._members[key]
        return bool(gone)
