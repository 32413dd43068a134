"""Holds what clients did and saw against the final log. Pure: a history and a log in, sentences out."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from tests.chaos.record import Fate, History, Place, values_of

Log = Mapping[Place, list[tuple[int, str]]]
"""All that can be read when everything is over: (number, value), in the order it was read."""
MOST_OF_A_KIND = 10
"""So many violations of a kind are told one by one."""


def violations(history: History, log: Log) -> list[str]:
    """Everything that must not be; empty when all guarantees held."""
    found: list[str] = []
    for kind in (
        _numbers,
        _lost,
        _repeated,
        _strangers,
        _refused,
        _out_of_order,
        _seen_but_gone,
        _seen_badly,
        _missed,
        _positions,
        _shared,
        _handed_badly,
        _missed_by_groups,
    ):
        told = list(kind(history, log))
        found += told[:MOST_OF_A_KIND]
        if len(told) > MOST_OF_A_KIND:
            found.append(f"... and {len(told) - MOST_OF_A_KIND:,} more of this kind")
    return found


def _numbers(history: History, log: Log) -> Iterator[str]:
    for place, messages in log.items():
        for (before, _), (number, _) in pairwise(messages):
            if number != before + 1:
                yield f"{_name(place)}: number {number} follows {before}"


def _lost(history: History, log: Log) -> Iterator[str]:
    by_number = {place: dict(messages) for place, messages in log.items()}
    values = {place: set(found.values()) for place, found in by_number.items()}
    for value, sent in values_of(history, Fate.STORED):
        if value not in values.get(sent.place, ()):
            yield f"LOST: {value} was acknowledged and is not in {_name(sent.place)}"
        elif sent.number and by_number[sent.place].get(sent.number) != value:
            yield f"MOVED: {value} was acknowledged as {_name(sent.place)} {sent.number} and is not there"


def _repeated(history: History, log: Log) -> Iterator[str]:
    # A producer without an id never sends again here, so that nothing may be there twice, unless it says so.
    for place, messages in log.items():
        for value, count in Counter(value for _, value in messages).items():
            if count > 1 and not _is_repeating(history, value):
                yield f"REPEATED: {value} is in {_name(place)} {count} times"


def _strangers(history: History, log: Log) -> Iterator[str]:
    for place, messages in log.items():
        for number, value in messages:
            sent = history.sent.get(value)
            if sent is None or sent.place != place:
                yield f"{_name(place)} {number} holds {value!r}, which nobody sent there"


def _refused(history: History, log: Log) -> Iterator[str]:
    stored = {value for messages in log.values() for _, value in messages}
    for value, sent in values_of(history, Fate.REFUSED):
        if value in stored:
            yield f"{value} was refused as not stored, and is in {_name(sent.place)}"


def _out_of_order(history: History, log: Log) -> Iterator[str]:
    for place, messages in log.items():
        reached: dict[str, tuple[int, str]] = {}
        repeated: set[str] = set()
        for _, value in messages:
            sent = history.sent.get(value)
            is_repeating = _is_repeating(history, value)
            if sent is None or not (sent.once or is_repeating) or value in repeated:
                continue
            if is_repeating:
                # It was sent until it was acknowledged, and the next one behind that: only an earlier try of
                # it can come late.
                repeated.add(value)
            last, last_value = reached.get(sent.writer, (-1, ""))
            if sent.order <= last:
                yield f"OUT OF ORDER: in {_name(place)} {value} stands behind {last_value}"
            reached[sent.writer] = (sent.order, value)


def _seen_but_gone(history: History, log: Log) -> Iterator[str]:
    by_number = {place: dict(messages) for place, messages in log.items()}
    for consumer, places in history.seen.items():
        for place, messages in places.items():
            for number, value in messages:
                if by_number.get(place, {}).get(number) != value:
                    yield f"GONE: {consumer} saw {value} as {_name(place)} {number}; the log has it no more"


def _seen_badly(history: History, log: Log) -> Iterator[str]:
    # All begin with the first message.
    for consumer, places in history.seen.items():
        for place, messages in places.items():
            for (before, _), (number, _) in pairwise([(0, ""), *messages]):
                if number != before + 1:
                    yield f"{consumer} saw {_name(place)} {number} after {before}"


def _missed(history: History, log: Log) -> Iterator[str]:
    for consumer, places in history.through.items():
        for place in places:
            last = log[place][-1][0] if log.get(place) else 0
            seen = history.seen.get(consumer, {}).get(place, [(0, "")])
            if seen[-1][0] != last:
                yield f"MISSED: {consumer} saw {_name(place)} up to {seen[-1][0]} of {last}"


def _positions(history: History, log: Log) -> Iterator[str]:
    for group, told in history.positions.items():
        kept: dict[Place, int] = {}
        for one in told:
            if one.found and one.number < kept.get(one.place, 0):
                yield f"WENT BACK: {group} kept {_name(one.place)} {kept[one.place]}, and found {one.number}"
            kept[one.place] = max(kept.get(one.place, 0), one.number)


def _shared(history: History, log: Log) -> Iterator[str]:
    for group, parts in history.handed.items():
        readers: dict[tuple[int, Place], str] = {}
        for part in parts:
            # One that does not know its generation may be out, and not have heard of it.
            if part.generation >= 0:
                first = readers.setdefault((part.generation, part.place), part.member)
                if first != part.member:
                    yield (
                        f"SHARED: in generation {part.generation} of {group} both {first} and {part.member} "
                        f"read {_name(part.place)}"
                    )


def _handed_badly(history: History, log: Log) -> Iterator[str]:
    by_number = {place: dict(messages) for place, messages in log.items()}
    for group, parts in history.handed.items():
        last: dict[tuple[str, int, int, Place], int] = {}
        for part in parts:
            for number, value in part.messages:
                if by_number.get(part.place, {}).get(number) != value:
                    where = f"{_name(part.place)} {number}"
                    yield f"GONE: {group} was given {value} as {where}; the log has it no more"
                reading = part.member, part.life, part.generation, part.place
                before = last.get(reading)
                is_again = before is not None and number <= before and part.member in history.static
                if part.generation >= 0 and before is not None and number != before + 1 and not is_again:
                    yield f"{part.member} was given {_name(part.place)} {number} after {before}"
                last[reading] = number


def _missed_by_groups(history: History, log: Log) -> Iterator[str]:
    for group, places in history.through_groups.items():
        given: dict[Place, set[int]] = {}
        for part in history.handed.get(group, ()):
            given.setdefault(part.place, set()).update(number for number, _ in part.messages)
        for place in places:
            for number, value in log.get(place, ()):
                if number not in given.get(place, ()):
                    yield f"MISSED: {group} has committed {_name(place)}, and never had {number}, {value}"


def _is_repeating(history: History, value: str) -> bool:
    """Whether a value's producer sends it again until it is acknowledged."""
    sent = history.sent.get(value)
    return sent is not None and sent.writer in history.repeating


def _name(place: Place) -> str:
    return f"{place[0]}/{place[1]}"
