"""Compares two states of definitions: whether bytes that could be read can still be read, with the same
meaning.

New code reads bytes of old code, from the wire or a disk, and old code that still runs reads bytes of new
code. So in every version that both have, the bytes must have the same layout, and fields that are not on the
wire the same defaults. Names are not on the wire.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tank_compiler.schema import layouts
from tank_compiler.schema.errors import Place
from tank_compiler.schema.schema import Kind, Message, Protocol, Removed, Versions
from tank_compiler.tools.compatibility_structs import Comparer, Difference


@dataclass(frozen=True, slots=True)
class Finding:
    """One change. `is_break`: whether it breaks readers; else it is a note."""

    is_break: bool
    subject: str
    """The message, or `Struct.Field`."""
    versions: str
    """The versions that the change concerns; empty: all of the message."""
    what: str
    old: Place | None
    new: Place | None

    def __str__(self) -> str:
        kind = "break" if self.is_break else "note"
        where = f" in {self.versions}" if self.versions else ""
        place = self.new or self.old
        before = f" (before: {self.old})" if self.old and self.new else ""
        return f"{place}: {kind}: {self.subject}{where}: {self.what}{before}"


@dataclass(slots=True)
class VersionComparison:
    """The result of a comparison of two protocols."""

    messages: int = 0
    """How many messages of the old protocol were compared."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def breaks(self) -> int:
        return sum(finding.is_break for finding in self.findings)


def compare(old: Protocol, new: Protocol) -> VersionComparison:
    """Finds all changes from `old` to `new` in the versions that `old` has."""
    found = VersionComparison()
    old, new = _with_promises(old), _with_promises(new)
    for message in old.messages:
        found.messages += 1
        found.findings += _of_message(message, old, new)
    for removed in old.removed:
        found.messages += 1
        found.findings += _of_removed(removed, new)
    return found


def _with_promises(protocol: Protocol) -> Protocol:
    """Copies the requests' keys about versions to their responses: Kafka's definitions state them only
    there."""
    requests = {message.id: message for message in protocol.messages if message.kind is Kind.REQUEST}
    messages = []
    for message in protocol.messages:
        asked = requests.get(message.id) if message.kind is Kind.RESPONSE else None
        if asked is not None:
            is_unstable = asked.is_latest_unstable and asked.versions.high == message.versions.high
            message = replace(
                message,
                deprecated=message.deprecated or asked.deprecated,
                is_latest_unstable=message.is_latest_unstable or is_unstable,
            )
        messages.append(message)
    return replace(protocol, messages=messages)


def _of_message(old: Message, before: Protocol, after: Protocol) -> Iterator[Finding]:
    name = old.root.name
    new = _counterpart(old, before, after)
    if new is None:
        gone = next((one for one in after.removed if one.name == name), None)
        place = gone.place if gone is not None else None
        yield from _lost(old, _stable(old), place)
        yield from _of_removed(Removed(name, old.id, old.kind, old.root.place), after)
        return
    yield from _of_pair(old, new)


def _counterpart(old: Message, before: Protocol, after: Protocol) -> Message | None:
    """The new message that replaces an old one: the one with its name, else the one with its id."""
    named = [message for message in after.messages if message.root.name == old.root.name]
    if named:
        return named[0]
    if any(one.name == old.root.name for one in after.removed):
        return None
    known = {message.root.name for message in before.messages} | {one.name for one in before.removed}
    for message in after.messages:
        same = message.id is not None and (message.kind, message.id) == (old.kind, old.id)
        if same and message.root.name not in known:
            return message
    return None


def _of_removed(old: Removed, after: Protocol) -> Iterator[Finding]:
    for message in after.messages:
        is_other = message.root.name != old.name and message.kind is old.kind
        if is_other and old.id is not None and message.id == old.id:
            what = (
                f"{_id(message)} was {old.name}'s, and peers that still send that are misread; take another"
            )
            yield Finding(True, message.root.name, "", what, old.place, message.root.place)


def _of_pair(old: Message, new: Message) -> Iterator[Finding]:
    name, places = old.root.name, (old.root.place, new.root.place)
    if new.root.name != name:
        yield Finding(False, name, "", f"is called {new.root.name} now; the wire has no names", *places)
    if old.kind is not new.kind:
        yield Finding(True, name, "", f"was a {old.kind.value}, is a {new.kind.value}", *places)
    if old.id != new.id:
        yield Finding(
            True, name, "", f"had the id {old.id}, has {new.id}: senders of the old one are misread", *places
        )
    if old.id_type != new.id_type:
        was, now = old.id_type.name, new.id_type.name
        yield Finding(True, name, "", f"had an id of {was}, has one of {now}", *places)
    stable = _stable(old)
    if stable is None:
        return
    yield from _lost(old, stable, new.root.place, new.versions)
    steady = _stable(new)
    common = stable.within(new.versions)
    if common is None:
        return
    if steady is None or common.high_end > steady.high_end:
        what = "it was stable, and latestVersionUnstable says that it may change"
        yield Finding(True, name, f"version {common.high}", what, *places)
    yield from _of_layouts(old, new, common)


def _stable(message: Message) -> Versions | None:
    """The versions that may not change any more."""
    high = message.versions.high_end - message.is_latest_unstable
    return Versions(message.versions.low, high) if high >= message.versions.low else None


def _lost(
    old: Message, stable: Versions | None, place: Place | None, kept: Versions | None = None
) -> Iterator[Finding]:
    """The findings for versions that were removed, with or without an announcement by deprecatedVersions."""
    if stable is None:
        return
    lost = [version for version in range(stable.low, stable.high_end + 1) if not (kept and version in kept)]
    is_announced = [old.deprecated is not None and version in old.deprecated for version in lost]
    for announced in (False, True):
        versions = [version for version, was in zip(lost, is_announced, strict=True) if was is announced]
        if not versions:
            continue
        gone = "gone, with the message" if kept is None else "gone"
        what = (
            f"{gone}, as deprecatedVersions announced"
            if announced
            else f"{gone}: no reader is left for messages in it"
        )
        yield Finding(
            not announced, old.root.name, spelled([(v, v) for v in versions]), what, old.root.place, place
        )


def _of_layouts(old: Message, new: Message, common: Versions) -> Iterator[Finding]:
    """Compares the layouts of all common versions; a difference in several versions is reported once."""
    starts = {common.low} | {
        start for message in (old, new) for start in layouts.starts(message) if start in common
    }
    ends = [*sorted(starts)[1:], common.high_end + 1]
    ranges = [Versions(start, end - 1) for start, end in zip(sorted(starts), ends, strict=True)]
    layered = [(layouts.narrow(old, versions), layouts.narrow(new, versions)) for versions in ranges]
    # Twice: a field that one version has under another name is, in a version without it, still that field.
    renamed: dict[tuple[str, str], str] = {}
    for pair in layered:
        list(Comparer(*pair, renamed).differences())
    found: dict[Difference, list[tuple[int, int]]] = {}
    for versions, pair in zip(ranges, layered, strict=True):
        for difference in dict.fromkeys(Comparer(*pair, renamed).differences()):
            found.setdefault(difference, []).append((versions.low, versions.high_end))
    for difference, where in found.items():
        yield Finding(
            difference.is_break,
            difference.subject,
            spelled(where),
            difference.what,
            difference.old,
            difference.new,
        )


def spelled(ranges: list[tuple[int, int]]) -> str:
    """`version 3`, `versions 0-4, 7`: rising ranges, joined where they touch."""
    joined: list[tuple[int, int]] = []
    for low, high in ranges:
        if joined and joined[-1][1] + 1 == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    texts = [str(Versions(low, high)) for low, high in joined]
    several = len(texts) > 1 or joined[0][0] != joined[0][1]
    return f"version{'s' * several} {', '.join(texts)}"


def _id(message: Message) -> str:
    return f"the id {message.id}"
