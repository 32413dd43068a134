"""An option that an Iggy client gave to a topic."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class IggyOption:
    """One option, exactly as it was sent, because a client that asks gets it back so."""

    key: str
    kind: int
    """The kind of the value, by the numbers of Iggy's kinds of headers."""
    value: bytes

    @property
    def size_bytes(self) -> int:
        """Key and value."""
        return len(self.key.encode()) + len(self.value)
