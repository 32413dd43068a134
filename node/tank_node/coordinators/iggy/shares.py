"""Who is to have which partition of an Iggy group's topic. Pure.

Members are named by their places in the order of joining. Iggy before B3 shares partitions out by their
numbers, at each change anew; from B3 on a member keeps what it has as far as loads differ by one at most.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

NOBODY: Final = -1


def by_number(partitions: int, members: int) -> list[int]:
    """Partition i is of member i modulo their number; NOBODY's where there are none."""
    if not members:
        return [NOBODY] * partitions
    return [number % members for number in range(partitions)]


def sticky(members: int, meant: Sequence[int], held: Sequence[int]) -> list[int]:
    """Every member has as many as any other, or one more, and as few partitions as possible move. A newcomer
    gets its whole share at once.

    meant: who was to have each partition, or NOBODY. held: who has it, which is somebody else while it is
    pending. What a member has already it keeps rather than what it was only to have, and what is free goes
    to who has it rather than to others."""
    count = len(meant)
    if not members:
        return [NOBODY] * count
    kept: list[list[int]] = [[] for _ in range(members)]
    for number in sorted(range(count), key=lambda each: (meant[each] != held[each], each)):
        if meant[number] != NOBODY:
            kept[meant[number]].append(number)
    least, more = divmod(count, members)
    # Who has most may have one more: so nobody gives up what he could keep.
    shares = [least] * members
    holds = Counter(held)
    ranked = sorted(range(members), key=lambda each: (-len(kept[each]), -holds[each], each))
    for member in ranked[:more]:
        shares[member] += 1
    result = [NOBODY] * count
    for member, numbers in enumerate(kept):
        for number in numbers[: shares[member]]:
            result[number] = member
        shares[member] -= min(shares[member], len(numbers))
    free = [number for number in range(count) if result[number] == NOBODY]
    for number in free:
        holder = held[number]
        if holder != NOBODY and shares[holder]:
            result[number] = holder
            shares[holder] -= 1
    wanting = (member for member in range(members) for _ in range(shares[member]))
    for number in free:
        if result[number] == NOBODY:
            result[number] = next(wanting)
    return result
