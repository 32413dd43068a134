"""Which partition of the internal topic has a group. Clients and tools compute the same, so it is Kafka's
way: Java's hash of the group's name."""

from array import array
from sys import byteorder
from typing import Final

_SMALLEST: Final = -(2**31)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: of the text's UTF-16 code units, as a signed number of 32 bits."""
    units = array("H", text.encode("utf-16-le", "surrogatepass"))
    if byteorder == "big":
        units.byteswap()
    found = 0
    for unit in units:
        found = (31 * found + unit) & 0xFFFFFFFF
    return found - 0x1_0000_0000 if found & 0x8000_0000 else found


def partition_of(group_id: str, partitions: int) -> int:
    """The number of the partition that has this group. The smallest number counts as 0, because Java has no
    positive one for it."""
    found = java_hash(group_id)
    return 0 if found == _SMALLEST else abs(found) % partitions
