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
from tank_client.routing.calls import Caller
from tank_client.routing.routes import Route
from tank_client.wire import state_operations, topic_operations
from tank_client.wire.data_operations import Want, fetch
from tank_client.wire.operations import has, need
from tank_protos import topic_settings

_log = logging.getLogger("tank_client")
_POLL_S = 0.1
"""How often `await_ends` looks at a broker that cannot wait itself."""


class Admin:
    """`client.admin`. Each method says FeatureMissing where the broker lacks it, and otherwise retries what
    may pass."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """The topics named (UnknownTopic when one is missing), or all, by name.

        From the C++ broker: names, partitions and ends only. FeatureMissing from a broker of the old
        document."""
        wanted = [names] if isinstance(names, str) else list(names or ())
        if names is not None and not wanted:
            return []
        server = await self._caller.server()
        if has(server, "describe_topics"):
            return (await self._caller.describe(wanted))[1]
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
        """{topic: number of partitions}; all topics when none are named. UnknownTopic."""
        wanted = [names] if isinstance(names, str) else list(names or ())
        server = await self._caller.server()
        if has(server, "describe_topics"):
            topics = (await self._caller.describe(wanted))[1]
            return {topic.name: len(topic.partitions) for topic in topics}
        return {name: partitions for name, (partitions, _) in (await self._discovered(wanted)).items()}

    async def brokers(self) -> list[BrokerDescription]:
        """The cluster's brokers. FeatureMissing but from ours: `topology` is TANK's own answer."""
        need(
            await self._caller.server(),
            "describe_topics",
            "describing brokers",
            "ask for the topology instead",
        )
        return (await self._caller.describe([]))[0]

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 0,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        validate_only: bool = False,
    ) -> int:
        """Creates a topic; its id (0 from the C++ broker, which has none). `replication_factor` 0: the
        cluster's default. A setting that the C++ broker does not know is skipped there, and a warning logged.

        TopicExists, RequestRefused (the message says which name, count or setting is wrong)."""
        server = await self._caller.server()
        if has(server, "create_topics"):
            topic_id = await self._caller.call(
                topic_operations.create_topic(
                    name, partitions, replication_factor, settings or {}, validate_only=validate_only
                )
            )
            if not validate_only:
                self._caller.leaders.is_there(name, partitions)
            return topic_id
        if replication_factor or validate_only:
            feature = "validating without creating" if validate_only else "replication factors at creation"
            raise errors.FeatureMissing(feature, server.version)
        topic_id = await self._caller.call(
            topic_operations.create_topic_plainly(name, partitions, settings or {})
        )
        skipped = topic_settings.unknown_to_tank(settings or {})
        if skipped:
            _log.warning(
                "topic %r was made without %s: the C++ broker does not know %s",
                name,
                ", ".join(skipped),
                "this setting" if len(skipped) == 1 else "these settings",
            )
        self._caller.leaders.is_there(name, partitions)
        return topic_id

    async def alter_topic(
        self,
        name: str,
        *,
        partitions: int = 0,
        settings: Mapping[str, SettingValue | None] | None = None,
        validate_only: bool = False,
    ) -> None:
        """More partitions (the new number; 0: as it is), other settings (None: back to the default)."""
        await self._caller.call(
            topic_operations.alter_topic(name, partitions, settings or {}, validate_only=validate_only)
        )
        if partitions and not validate_only:
            self._caller.leaders.is_there(name, partitions)

    async def delete_topic(self, name: str) -> None:
        """Deletes the topic and its data."""
        await self._caller.call(topic_operations.delete_topic(name))
        self._caller.leaders.is_gone(name)

    async def find_by_time(self, topic: str, times: Mapping[int, int]) -> dict[int, FoundTime]:
        """{partition: milliseconds of the epoch} -> {partition: where the first message at or after it
        is}."""
        return await find_times(self._caller, topic, times) if times else {}

    async def await_ends(self, known: Mapping[Route, int | None], max_wait_ms: int = 0) -> dict[Route, Ends]:
        """How far partitions reach, once one of them reaches further than the high-water mark given (None:
        answer at once), at the latest after `max_wait_ms`. The C++ broker and the old document are asked
        ten times a second."""
        if not known:
            return {}
        server = await self._caller.server()
        if has(server, "await_ends"):
            return await wait_for_ends(self._caller, known, max_wait_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_ms / 1000
        while True:
            ends = await self._all_ends(known)
            news = any(mark is None or ends[route].high_water_mark > mark for route, mark in known.items())
            if news or loop.time() + _POLL_S > deadline:
                return ends
            await asyncio.sleep(_POLL_S)

    async def ends(self, topic: str, partitions: Iterable[int] | None = None) -> dict[int, Ends]:
        """{partition: how far it reaches now}; all partitions when none are named."""
        server = await self._caller.server()
        if server.version == 0:
            if partitions is None:
                raise errors.FeatureMissing("listing partitions", 0, "name the partitions yourself")
            return {partition: await self._ends_by_fetching(topic, partition) for partition in partitions}
        wanted = None if partitions is None else list(partitions)
        answers = await self._caller.call(topic_operations.discover_partitions(topic))
        for partition in answers if wanted is None else wanted:
            if partition not in answers:
                raise errors.UnknownPartition(topic, partition)
        return {
            p: await end_of(self._caller, (topic, p), answers[p])
            for p in (answers if wanted is None else wanted)
        }

    async def commit_positions(self, group: str, positions: Mapping[Route, int | CommittedPosition]) -> None:
        """Keeps the next number to read per (topic, partition); durable when it returns."""
        kept = {
            route: position if isinstance(position, CommittedPosition) else CommittedPosition(position)
            for route, position in positions.items()
        }
        if kept:
            await self._caller.call(state_operations.commit_positions(group, kept))

    async def fetch_positions(
        self, group: str, topics: Iterable[str] | None = None
    ) -> dict[Route, CommittedPosition]:
        """What the group has committed; only the partitions that it has committed. UnknownTopic."""
        names = list(topics or ())
        try:
            return await self._caller.call(state_operations.fetch_positions(group, names))
        except errors.UnknownTopic:
            if len(names) < 2:
                raise
        kept: dict[Route, CommittedPosition] = {}
        for name in names:  # now the error names the topic, and one that is known is asked for elsewhere
            found = await self._caller.call(state_operations.fetch_positions(group, [name]))
            kept.update(found)
        return kept

    async def list_groups(self) -> list[str]:
        """The groups that have committed positions, sorted."""
        return await self._caller.call(state_operations.list_groups())

    async def init_producer(self, name: str = "", generation: int = 0) -> ProducerIdentity:
        """A new producer id; for a name: the same id for the same name and generation, and a higher
        generation ends the older ones."""
        return await self._caller.call(state_operations.init_producer(name, generation))

    async def reserve_producer_ids(self, count: int) -> range:
        """Fresh producer ids that follow each other, of which nothing is kept: each worker of one write takes
        the one of its number, and takes it again when it is run again. Their epochs begin at 0.

        `count`: 1 to 1,048,576. A cluster that is being upgraded, or was founded just now, may give one
        alone.
        """
        return await self._caller.call(state_operations.reserve_producer_ids(count))

    async def features(self) -> Features:
        """What the broker is and can do; any broker."""
        return await self._caller.server()

    async def status(self) -> ServerStatus:
        """What the broker says of itself."""
        return await self._caller.call(state_operations.status())

    async def describe_broker(self) -> BrokerReport:
        """The broker that we talk to: its version, disk and open files, partitions in trouble, stray folders.

        FeatureMissing but from ours."""
        return await self._caller.call(state_operations.describe_broker())

    async def describe_cluster(self) -> ClusterReport:
        """Where the broker that we talk to knows the cluster's controllers to be, and its brokers' names.

        FeatureMissing but from ours, and from older ones of ours."""
        return await self._caller.call(state_operations.describe_cluster())

    async def topology(self) -> Topology:
        """The cluster's nodes, as TANK tells them."""
        return await self._caller.call(state_operations.topology())

    async def _discovered(self, wanted: list[str]) -> dict[str, tuple[int, int]]:
        topics = await self._caller.call(topic_operations.discover_topics())
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
        """An old broker tells how far a partition reaches in the answer to any fetch of it."""
        client_id = self._caller.settings.client_id
        try:
            chunk = await self._caller.call(fetch(Want(topic, partition, 0, 1), 0, client_id))
        except errors.OutOfBounds as bounds:
            return Ends(bounds.first_available, bounds.high_water_mark)
        return Ends(chunk.base, chunk.high_water_mark)
