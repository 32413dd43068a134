"""The synchronous face of `tank_client.Admin`: the same names and arguments."""

from collections.abc import Iterable, Mapping

from tank_client.admin import Admin as AsyncAdmin
from tank_client.model import (
    BrokerDescription,
    BrokerReport,
    ClusterReport,
    CommittedPosition,
    ConnectionPage,
    Ends,
    Features,
    FoundTime,
    GroupDescription,
    GroupSummary,
    ProducerIdentity,
    Route,
    ServerStatus,
    SettingValue,
    TopicDescription,
    Topology,
)
from tank_client.settings import AtTime, StartAt
from tank_client.sync.loop_thread import LoopThread


class Admin:
    """`client.admin`; each method as in `tank_client.Admin`."""

    def __init__(self, admin: AsyncAdmin, thread: LoopThread) -> None:
        self._admin = admin
        self._thread = thread

    def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """Returns the named topics, or all."""
        return self._thread.run(self._admin.describe_topics, names)

    def partition_counts(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Returns {topic: number of partitions}."""
        return self._thread.run(self._admin.partition_counts, names)

    def brokers(self) -> list[BrokerDescription]:
        """Returns the cluster's brokers."""
        return self._thread.run(self._admin.brokers)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 0,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        validate_only: bool = False,
    ) -> int:
        """Creates a topic and returns its id."""
        return self._thread.run(
            self._admin.create_topic,
            name,
            partitions,
            replication_factor,
            settings,
            validate_only=validate_only,
        )

    def alter_topic(
        self,
        name: str,
        *,
        partitions: int = 0,
        settings: Mapping[str, SettingValue | None] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Adds partitions and changes settings."""
        self._thread.run(
            self._admin.alter_topic,
            name,
            partitions=partitions,
            settings=settings,
            validate_only=validate_only,
        )

    def delete_topic(self, name: str) -> None:
        """Deletes the topic and its data."""
        self._thread.run(self._admin.delete_topic, name)

    def find_by_time(self, topic: str, times: Mapping[int, int]) -> dict[int, FoundTime]:
        """Returns the places of times."""
        return self._thread.run(self._admin.find_by_time, topic, times)

    def await_ends(self, known: Mapping[Route, int | None], max_wait_ms: int = 0) -> dict[Route, Ends]:
        """Returns the ends of partitions, once one of them is above its given high-water mark."""
        return self._thread.run(self._admin.await_ends, known, max_wait_ms)

    def ends(self, topic: str, partitions: Iterable[int] | None = None) -> dict[int, Ends]:
        """Returns the ends of partitions now."""
        return self._thread.run(self._admin.ends, topic, partitions)

    def commit_positions(
        self,
        group: str,
        positions: Mapping[Route, int | CommittedPosition],
        *,
        member: tuple[str, int] | None = None,
    ) -> None:
        """Stores the next number to read for each (topic, partition) of the group; see
        `tank_client.Admin.commit_positions`."""
        self._thread.run(self._admin.commit_positions, group, positions, member=member)

    def fetch_positions(
        self, group: str, topics: Iterable[str] | None = None
    ) -> dict[Route, CommittedPosition]:
        """Returns the group's positions."""
        return self._thread.run(self._admin.fetch_positions, group, topics)

    def list_groups(self) -> list[str]:
        """Returns the groups that have committed positions."""
        return self._thread.run(self._admin.list_groups)

    def groups(self) -> list[GroupSummary]:
        """Returns all consumer groups with their states."""
        return self._thread.run(self._admin.groups)

    def describe_groups(self, names: Iterable[str]) -> list[GroupDescription]:
        """Returns the named groups with their members."""
        return self._thread.run(self._admin.describe_groups, names)

    def delete_groups(self, names: Iterable[str]) -> None:
        """Deletes groups with their positions; see `tank_client.Admin.delete_groups`."""
        self._thread.run(self._admin.delete_groups, names)

    def delete_positions(self, group: str, partitions: Iterable[Route]) -> None:
        """Deletes the group's positions in each (topic, partition)."""
        self._thread.run(self._admin.delete_positions, group, partitions)

    def reset_positions(
        self,
        group: str,
        partitions: Iterable[Route],
        *,
        to: StartAt | AtTime | int | str | None = None,
        by: int = 0,
        validate_only: bool = False,
    ) -> dict[Route, int]:
        """Moves the group's positions; see `tank_client.Admin.reset_positions`."""
        return self._thread.run(
            self._admin.reset_positions, group, partitions, to=to, by=by, validate_only=validate_only
        )

    def init_producer(self, name: str = "", generation: int = 0) -> ProducerIdentity:
        """Returns a producer id."""
        return self._thread.run(self._admin.init_producer, name, generation)

    def reserve_producer_ids(self, count: int) -> range:
        """Returns producer ids in sequence; see `tank_client.Admin.reserve_producer_ids`."""
        return self._thread.run(self._admin.reserve_producer_ids, count)

    def features(self) -> Features:
        """Returns the features of the connected broker."""
        return self._thread.run(self._admin.features)

    def status(self) -> ServerStatus:
        """Returns the connected broker's counts."""
        return self._thread.run(self._admin.status)

    def describe_broker(self) -> BrokerReport:
        """Returns the report of the connected broker: its disk, and its partitions in trouble."""
        return self._thread.run(self._admin.describe_broker)

    def describe_cluster(self) -> ClusterReport:
        """Returns the addresses of the cluster's processes; see `tank_client.Admin.describe_cluster`."""
        return self._thread.run(self._admin.describe_cluster)

    def describe_connections(self, after: int = 0, limit: int = 0) -> ConnectionPage:
        """Returns a page of the clients' connections to the connected broker."""
        return self._thread.run(self._admin.describe_connections, after, limit)

    def topology(self) -> Topology:
        """Returns the cluster's nodes."""
        return self._thread.run(self._admin.topology)
