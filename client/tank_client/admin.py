"""Topics, positions and the state of the cluster."""

from collections.abc import Iterable, Mapping

from tank_client.model import (
    BrokerDescription,
    CommittedPosition,
    Ends,
    Features,
    FoundTime,
    ProducerIdentity,
    ServerStatus,
    TopicDescription,
    Topology,
)


class Admin:
    """`client.admin`."""

    async def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """The topics named (UnknownTopic when one is missing), or all, by name."""
        raise NotImplementedError

    async def brokers(self) -> list[BrokerDescription]:
        raise NotImplementedError

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 0,
        settings: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> int:
        """Creates a topic; its id (0 from the C++ broker, which has none). TopicExists, RequestRefused."""
        raise NotImplementedError

    async def alter_topic(
        self,
        name: str,
        *,
        partitions: int = 0,
        settings: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> None:
        """More partitions (0: as it is), other settings (None: back to the default)."""
        raise NotImplementedError

    async def delete_topic(self, name: str) -> None:
        raise NotImplementedError

    async def find_by_time(self, topic: str, times: Mapping[int, int]) -> dict[int, FoundTime]:
        """{partition: milliseconds} -> {partition: FoundTime}."""
        raise NotImplementedError

    async def await_ends(
        self, known: Mapping[tuple[str, int], int | None], max_wait_ms: int = 0
    ) -> dict[tuple[str, int], Ends]:
        """Waits until a partition reaches further than the high-water mark known (None: answer at once), at most max_wait_ms."""
        raise NotImplementedError

    async def ends(self, topic: str, partitions: Iterable[int] | None = None) -> dict[int, Ends]:
        """{partition: Ends} now."""
        raise NotImplementedError

    async def commit_positions(
        self, group: str, positions: Mapping[tuple[str, int], int | CommittedPosition]
    ) -> None:
        """Keeps the next number to read per (topic, partition)."""
        raise NotImplementedError

    async def fetch_positions(
        self, group: str, topics: Iterable[str] | None = None
    ) -> dict[tuple[str, int], CommittedPosition]:
        raise NotImplementedError

    async def list_groups(self) -> list[str]:
        raise NotImplementedError

    async def init_producer(self, name: str = "", generation: int = 0) -> ProducerIdentity:
        raise NotImplementedError

    async def features(self) -> Features:
        raise NotImplementedError

    async def status(self) -> ServerStatus:
        raise NotImplementedError

    async def topology(self) -> Topology:
        raise NotImplementedError
