"""Topics, positions and the state of the cluster."""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from tank_client import errors
from tank_client.model import (
    BrokerDescription,
    BrokerReport,
    ClusterReport,
    CommittedPosition,
    ConnectionPage,
    Ends,
    Features,
    FoundTime,
    PartitionDescription,
    ProducerIdentity,
    ServerStatus,
    SettingValue,
    TopicDescription,
    Topology,
)
from tank_client.routing.by_leader import end_of, find_times, wait_for_ends
from tank_client.routing.calls import Calls
from tank_client.routing.routes import Route
from tank_client.wire import state_operations, topic_operations
from tank_client.wire.data_operations import Want, fetch
from tank_client.wire.operations import has, need
from tank_protos import topic_settings

_log = logging.getLogger("tank_client")
_POLL_S = 0.1
"""The pause between two questions of `await_ends` to a broker that cannot wait for new messages."""


class Admin:
    """Topics, positions and the cluster's state; `client.admin`. Each method raises FeatureMissing when the
    broker doesn't support it, and repeats a request that failed for a temporary reason.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """Returns the named topics, or all, by name. Raises UnknownTopic when one is missing.

        The C++ broker gives only names, partitions and ends; a broker of the old document gives nothing
        (FeatureMissing).
        """
        wanted = [names] if isinstance(names, str) else list(names or ())
        if names is not None and not wanted:
            return []
        server = await self._calls.server()
        if has(server, "describe_topics"):
            return (await self._calls.describe(wanted))[1]
        return [
            TopicDescription(
                name,
                tuple(
                    PartitionDescription(
                        partition, first_available=e.first_available, high_water_mark=e.high_water_mark
                    )
                    for partition, e in (await self.ends(name)).items()
                ),
                replication_factor=factor,
            )
            for name, (_, factor) in (await self._discovered(wanted)).items()
        ]

    async def partition_counts(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Returns {topic: number of partitions}; of all topics when none are named. Raises UnknownTopic."""
        wanted = [names] if isinstance(names, str) else list(names or ())
        server = await self._calls.server()
        if has(server, "describe_topics"):
            topics = (await self._calls.describe(wanted))[1]
            return {topic.name: len(topic.partitions) for topic in topics}
        return {name: partitions for name, (partitions, _) in (await self._discovered(wanted)).items()}

    async def brokers(self) -> list[BrokerDescription]:
        """Returns the cluster's brokers. Raises FeatureMissing on the C++ broker, which has `topology`
        instead."""
        need(
            await self._calls.server(),
            "describe_topics",
            "describing brokers",
            "ask for the topology instead",
        )
        return (await self._calls.describe([]))[0]

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 0,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        validate_only: bool = False,
    ) -> int:
        """Creates a topic and returns its id (0 from the C++ broker, which has no ids). `replication_factor`
        0: the cluster's default. The C++ broker skips settings that it does not know, with a warning in the
        log.

        Raises TopicExists, RequestRefused (its message names the wrong name, count or setting)."""
        server = await self._calls.server()
        if has(server, "create_topics"):
            topic_id = await self._calls.call(
                topic_operations.create_topic(
                    name, partitions, replication_factor, settings or {}, validate_only=validate_only
                )
            )
            if not validate_only:
                self._calls.leaders.is_there(name, partitions)
            return topic_id
        if replication_factor or validate_only:
            feature = "validating without creating" if validate_only else "replication factors at creation"
            raise errors.FeatureMissing(feature, server.version)
        topic_id = await self._calls.call(
            topic_operations.create_topic_plainly(name, partitions, settings or {})
        )
        skipped = topic_settings.unknown_to_tank(settings or {})
        if skipped:
            _log.warning(
                "topic %r was created without %s: the C++ broker does not know %s",
                name,
                ", ".join(skipped),
                "this setting" if len(skipped) == 1 else "these settings",
            )
        self._calls.leaders.is_there(name, partitions)
        return topic_id

    async def alter_topic(
        self,
        name: str,
        *,
        partitions: int = 0,
        settings: Mapping[str, SettingValue | None] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Adds partitions (the new number; 0: no change) and changes settings (None: back to the default)."""
        await self._calls.call(
            topic_operations.alter_topic(name, partitions, settings or {}, validate_only=validate_only)
        )
        if partitions and not validate_only:
            self._calls.leaders.is_there(name, partitions)

    async def delete_topic(self, name: str) -> None:
        """Deletes the topic and its data."""
        await self._calls.call(topic_operations.delete_topic(name))
        self._calls.leaders.is_gone(name)

    async def find_by_time(self, topic: str, times: Mapping[int, int]) -> dict[int, FoundTime]:
        """Takes {partition: milliseconds of the epoch}; returns {partition: the place of the first message at
        or after that time}."""
        return await find_times(self._calls, topic, times) if times else {}

    async def await_ends(self, known: Mapping[Route, int | None], max_wait_ms: int = 0) -> dict[Route, Ends]:
        """Returns the ends of partitions, once one of them is above the high-water mark given for it (None:
        at once), and after `max_wait_ms` at the latest. The C++ broker and the old document are asked ten
        times a second.
        """
        if not known:
            return {}
        server = await self._calls.server()
        if has(server, "await_ends"):
            return await wait_for_ends(self._calls, known, max_wait_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_ms / 1000
        while True:
            ends = await self._all_ends(known)
            news = any(mark is None or ends[route].high_water_mark > mark for route, mark in known.items())
            if news or loop.time() + _POLL_S > deadline:
                return ends
            await asyncio.sleep(_POLL_S)

    async def ends(self, topic: str, partitions: Iterable[int] | None = None) -> dict[int, Ends]:
        """Returns {partition: its ends now}; of all partitions when none are named."""
        server = await self._calls.server()
        if server.version == 0:
            if partitions is None:
                raise errors.FeatureMissing("listing partitions", 0, "name the partitions yourself")
            return {partition: await self._ends_by_fetching(topic, partition) for partition in partitions}
        wanted = None if partitions is None else list(partitions)
        answers = await self._calls.call(topic_operations.discover_partitions(topic))
        for partition in answers if wanted is None else wanted:
            if partition not in answers:
                raise errors.UnknownPartition(topic, partition)
        return {
            p: await end_of(self._calls, (topic, p), answers[p])
            for p in (answers if wanted is None else wanted)
        }

    async def commit_positions(self, group: str, positions: Mapping[Route, int | CommittedPosition]) -> None:
        """Stores the next number to read for each (topic, partition) of the group; durable when the call
        returns.
        """
        kept = {
            route: position if isinstance(position, CommittedPosition) else CommittedPosition(position)
            for route, position in positions.items()
        }
        if kept:
            await self._calls.call(state_operations.commit_positions(group, kept))

    async def fetch_positions(
        self, group: str, topics: Iterable[str] | None = None
    ) -> dict[Route, CommittedPosition]:
        """Returns the group's positions, only of partitions for which it has committed one. Raises
        UnknownTopic.
        """
        names = list(topics or ())
        try:
            return await self._calls.call(state_operations.fetch_positions(group, names))
        except errors.UnknownTopic:
            if len(names) < 2:
                raise
        kept: dict[Route, CommittedPosition] = {}
        # asked alone, the error names the topic; a topic that exists is asked for at another broker
        for name in names:
            found = await self._calls.call(state_operations.fetch_positions(group, [name]))
            kept.update(found)
        return kept

    async def list_groups(self) -> list[str]:
        """Returns the groups that have committed positions, sorted."""
        return await self._calls.call(state_operations.list_groups())

    async def init_producer(self, name: str = "", generation: int = 0) -> ProducerIdentity:
        """Returns a new producer id. With a name: the same id for the same name and generation; a higher
        generation ends the older ones."""
        return await self._calls.call(state_operations.init_producer(name, generation))

    async def reserve_producer_ids(self, count: int) -> range:
        """Returns new producer ids in sequence, for the workers of one write: each worker uses the id of its
        number, also when it runs again. Brokers store nothing about the ids; their epochs begin at 0.

        `count`: 1 to 1,048,576. A cluster that is being upgraded, or was founded just now, may give only one.
        """
        return await self._calls.call(state_operations.reserve_producer_ids(count))

    async def features(self) -> Features:
        """Returns the features of the connected broker; any broker answers."""
        return await self._calls.server()

    async def status(self) -> ServerStatus:
        """Returns the connected broker's counts."""
        return await self._calls.call(state_operations.status())

    async def describe_broker(self) -> BrokerReport:
        """Returns the report of the connected broker: version, disk, open files, partitions in trouble, stray
        folders. Raises FeatureMissing on brokers of other projects.
        """
        return await self._calls.call(state_operations.describe_broker())

    async def describe_cluster(self) -> ClusterReport:
        """Returns the controllers' addresses and the brokers' names, as the connected broker knows them.
        Raises FeatureMissing on brokers of other projects, and on older Tank Cluster brokers.
        """
        return await self._calls.call(state_operations.describe_cluster())

    async def describe_connections(self, after: int = 0, limit: int = 0) -> ConnectionPage:
        """Returns a page of the clients' connections to the connected broker: those behind number `after`, at
        most `limit` (0: as many as the broker gives). Raises FeatureMissing on brokers of other projects, and
        on older Tank Cluster brokers.
        """
        return await self._calls.call(state_operations.describe_connections(after, limit))

    async def topology(self) -> Topology:
        """Returns the cluster's nodes from TANK's DiscoverTopology."""
        return await self._calls.call(state_operations.topology())

    async def _discovered(self, wanted: list[str]) -> dict[str, tuple[int, int]]:
        topics = await self._calls.call(topic_operations.discover_topics())
        for name in wanted:
            if name not in topics:
                raise errors.UnknownTopic(name)
        return {name: topics[name] for name in sorted(wanted or topics)}

    async def _all_ends(self, known: Iterable[Route]) -> dict[Route, Ends]:
        partitions: dict[str, list[int]] = {}
        for topic, partition in known:
            partitions.setdefault(topic, []).append(partition)
        return {
            (topic, partition): ends
            for topic, numbers in partitions.items()
            for partition, ends in (await self.ends(topic, numbers)).items()
        }

    async def _ends_by_fetching(self, topic: str, partition: int) -> Ends:
        """A broker of the old document gives a partition's ends in the answer to any fetch of it."""
        client_id = self._calls.settings.client_id
        try:
            chunk = await self._calls.call(fetch(Want(topic, partition, 0, 1), 0, client_id))
        except errors.OutOfBounds as bounds:
            return Ends(bounds.first_available, bounds.high_water_mark)
        return Ends(chunk.base, chunk.high_water_mark)
