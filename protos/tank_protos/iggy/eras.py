"""The eras of Iggy's protocol: what changed from release to release, as values.

An era's `version` is the version of the generated messages. `V12`, which no stable client speaks, has the
next number reserved.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class Framing(Enum):
    """How a connection is cut into requests."""

    CLASSIC = auto()
    VSR = auto()
    """Headers of 256 bytes, as its servers write them to one another."""


class MessageLayout(Enum):
    """The form of messages in a send and a poll."""

    SEED = auto()
    """A message begins with its id in a send, and with its offset in a poll."""
    HEADER_56 = auto()
    HEADER_64 = auto()
    """As HEADER_56, with eight bytes reserved."""
    BATCH = auto()
    """Messages of 48 bytes behind a header of 256 bytes for all of them."""


class MessageChecksum(Enum):
    """What a polled message's checksum is."""

    CRC32_OF_PAYLOAD = auto()
    CRC32 = auto()
    """Of everything behind the checksum."""
    XXH3 = auto()
    """XXH3-64 of everything behind the checksum."""


@dataclass(frozen=True, slots=True)
class Era:
    """One era of the protocol."""

    name: str
    version: int
    """The version of the generated messages."""
    base: int
    """Every numeric id on the wire is the number in the state and this."""
    layout: MessageLayout
    checksum: MessageChecksum
    framing: Framing = Framing.CLASSIC
    has_login: bool = True
    missing_is_error: bool = False
    """Whether a look-up of what isn't there is an error; else it is an empty payload."""
    creates_answer: bool = True
    """Whether what was made stands in the answer; else that is empty."""
    has_key_kinds: bool = False
    """Whether header maps have the kind of each key."""

    @property
    def is_old(self) -> bool:
        """Whether it is of the first servers, S and A."""
        return self.layout is MessageLayout.SEED


SEED: Final = Era(
    "S",
    0,
    1,
    MessageLayout.SEED,
    MessageChecksum.CRC32_OF_PAYLOAD,
    has_login=False,
    missing_is_error=True,
    creates_answer=False,
)
A1: Final = Era(
    "A1",
    1,
    1,
    MessageLayout.SEED,
    MessageChecksum.CRC32_OF_PAYLOAD,
    missing_is_error=True,
    creates_answer=False,
)
A2: Final = Era(
    "A2",
    2,
    1,
    MessageLayout.SEED,
    MessageChecksum.CRC32_OF_PAYLOAD,
    missing_is_error=True,
    creates_answer=False,
)
A3: Final = Era("A3", 3, 1, MessageLayout.SEED, MessageChecksum.CRC32_OF_PAYLOAD)
B1: Final = Era("B1", 4, 1, MessageLayout.HEADER_56, MessageChecksum.CRC32)
B2: Final = Era("B2", 5, 0, MessageLayout.HEADER_56, MessageChecksum.XXH3)
B3: Final = Era("B3", 6, 0, MessageLayout.HEADER_64, MessageChecksum.XXH3, has_key_kinds=True)
V11: Final = Era(
    "V11", 7, 0, MessageLayout.BATCH, MessageChecksum.XXH3, framing=Framing.VSR, has_key_kinds=True
)

ERAS: Final = (SEED, A1, A2, A3, B1, B2, B3, V11)
"""By version."""
ERA_NAMES: Final = {era.name: era for era in ERAS}
