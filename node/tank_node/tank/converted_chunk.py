"""What TANK's clients get of a topic of Kafka's format."""


class ConvertedChunk:
    """Bundles for an answer."""

    __slots__ = ("data", "first", "sparse_first")

    def __init__(self, data: bytes, first: int, sparse_first: bool) -> None:
        self.data = data
        self.first = first
        """The number of the first message."""
        self.sparse_first = sparse_first
        """Whether the first bundle carries its own numbers."""
