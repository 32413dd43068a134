"""The synchronous face of `tank_client.Admin`: the same names and arguments."""

from collections.abc import Iterable, Mapping

from tank_client.admin import Admin as AsyncAdmin
from tank_client.model import (
    BrokerDescription,
    BrokerReport,
    ClusterReport,
    CommittedPosition,
    Ends,
    Features,
    FoundTime,
    ProducerIdentity,
    ServerStatus,
    SettingValue,
    TopicDescription,
    Topology,
)
from tank_client.routing.routes import Route
from tank_client.sync.loop_thread import LoopThread


class Admin:
    """`client.admin`; each method as in `tank_client.Admin`."""

    def __init__(self, admin: AsyncAdmin, thread: LoopThread) -> None:
        self._admin = admin
        self._thread = thread

    def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """The topics named, or all."""
        return self._thread.run(self._admin.describe_topics(names))

    def partition_counts(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """{topic: number of partitions}."""
        return self._thread.run(self._admin.partition_counts(names))

    def brokers(self) -> list[BrokerDescription]:
        """The cluster's brokers."""
        return self._thread.run(self._admin.brokers())

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 0,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        validate_only: bool = False,
    ) -> int:
        """Creates a topic; its id."""
        return self._thread.run(
            self._admin.create_topic(
                name, partitions, replication_factor, settings, validate_only=validate_only
            )
        )

    def alter_topic(
        self,
        name: str,
        *,
        partitions: int = 0,
        settings: Mapping[str, SettingValue | None] | None = None,
        validate_only: bool = False,
    ) -> None:
        """More partitions, other settings."""
        self._thread.run(
            self._admin.alter_topic(
                name, partitions=partitions, settings=settings, validate_only=validate_only
            )
        )

    def delete_topic(self, name: str) -> None:
        """Deletes the topic and its data."""
        self._thread.run(self._admin.delete_topic(name))

    def find_by_time(self, topic: str, times: Mapping[int, int]) -> dict[int, FoundTime]:
        """Where times begin."""
        return self._thread.run(self._admin.find_by_time(topic, times))

    def await_ends(self, known: Mapping[Route, int | None], max_wait_ms: int = 0) -> dict[Route, Ends]:
        """How far partitions reach, once one reaches further than known."""
        return self._thread.run(self._admin.await_ends(known, max_wait_ms))

    def ends(self, topic: str, partitions: Iterable[int] | None = None) -> dict[int, Ends]:
        """How far partitions reach now."""
        return self._thread.run(self._admin.ends(topic, partitions))

    def commit_positions(self, group: str, positions: Mapping[Route, int | CommittedPosition]) -> None:
        """Keeps the next number to read per (topic, partition)."""
        self._thread.run(self._admin.commit_positions(group, positions))

    def fetch_positions(
        self, group: str, topics: Iterable[str] | None = None
    ) -> dict[Route, CommittedPosition]:
        """What the group has committed."""
        return self._thread.run(self._admin.fetch_positions(group, topics))

    def list_groups(self) -> list[str]:
        """The groups that have committed positions."""
        return self._thread.run(self._admin.list_groups())

    def init_producer(self, name: str = "", generation: int = 0) -> ProducerIdentity:
        """A producer id."""
        return self._thread.run(self._admin.init_producer(name, generation))

    def reserve_producer_ids(self, count: int) -> range:
        """Producer ids that follow each other; see `tank_client.Admin.reserve_producer_ids`."""
        return self._thread.run(self._admin.reserve_producer_ids(count))

    def features(self) -> Features:
        """What the broker is and can do."""
        return self._thread.run(self._admin.features())

    def status(self) -> ServerStatus:
        """What the broker says of itself."""
        return self._thread.run(self._admin.status())

    def describe_broker(self) -> BrokerReport:
        """The broker that we talk to: its disk, and what is wrong with it."""
        return self._thread.run(self._admin.describe_broker())

    def describe_cluster(self) -> ClusterReport:
        """Where the cluster's controllers are; see `tank_client.Admin.describe_cluster`."""
        return self._thread.run(self._admin.describe_cluster())

    def topology(self) -> Topology:
        """The cluster's nodes."""
        return self._thread.run(self._admin.topology())
