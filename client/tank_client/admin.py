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
    GroupDescription,
    GroupSummary,
    PartitionDescription,
    ProducerIdentity,
    Route,
    ServerStatus,
    SettingValue,
    TopicDescription,
    Topology,
)
from tank_client.routing.by_leader import end_of, find_times, wait_for_ends
from tank_client.routing.calls import Calls
from tank_client.routing.older_brokers import discovered_topics, ends_by_fetching
from tank_client.routing.position_reset import moved_positions, new_positions
from tank_client.settings import AtTime, StartAt
from tank_client.wire import group_operations, state_operations, topic_operations
from tank_client.wire.group_operations import portions
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
            for name, (_, factor) in (await discovered_topics(self._calls, wanted)).items()
        ]

    async def partition_counts(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Returns {topic: number of partitions}; of all topics when none are named. Raises UnknownTopic."""
        wanted = [names] if isinstance(names, str) else list(names or ())
        server = await self._calls.server()
        if has(server, "describe_topics"):
            topics = (await self._calls.describe(wanted))[1]
            return {topic.name: len(topic.partitions) for topic in topics}
        return {
            name: partitions
            for name, (partitions, _) in (await discovered_topics(self._calls, wanted)).items()
        }

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
            partitions = group_operations.by_topic(known)
            ends = {
                (topic, partition): found
                for topic, numbers in partitions
                for partition, found in (await self.ends(topic, numbers)).items()
            }
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
            return {
                partition: await ends_by_fetching(self._calls, topic, partition) for partition in partitions
            }
        wanted = None if partitions is None else list(partitions)
        answers = await self._calls.call(topic_operations.discover_partitions(topic))
        for partition in answers if wanted is None else wanted:
            if partition not in answers:
                raise errors.UnknownPartition(topic, partition)
        return {
            p: await end_of(self._calls, (topic, p), answers[p])
            for p in (answers if wanted is None else wanted)
        }

    async def commit_positions(
        self,
        group: str,
        positions: Mapping[Route, int | CommittedPosition],
        *,
        member: tuple[str, int] | None = None,
    ) -> None:
        """Stores the next number to read for each (topic, partition) of the group; durable when the call
        returns. `member`: the id and the epoch of the member in whose name this is; without one, a group with
        members refuses it (UnknownMember).
        """
        kept = {
            route: position if isinstance(position, CommittedPosition) else CommittedPosition(position)
            for route, position in positions.items()
        }
        if kept:
            await self._calls.call(
                state_operations.commit_positions(group, kept, member or state_operations.NO_MEMBER)
            )

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

    async def groups(self) -> list[GroupSummary]:
        """Returns all consumer groups with their states, by name. Older brokers give only the names of those
        that have committed positions."""
        try:
            return await self._calls.call(group_operations.group_summaries())
        except errors.LevelTooLow:
            return [GroupSummary(name) for name in await self.list_groups()]

    async def describe_groups(self, names: Iterable[str]) -> list[GroupDescription]:
        """Returns the named groups with their members, in that order. A group that isn't there has the state
        DEAD."""
        wanted = [names] if isinstance(names, str) else list(names)
        found: list[GroupDescription] = []
        for part in portions(wanted):
            described = await self._calls.call(group_operations.describe_groups(part))
            found += described
        return found

    async def delete_groups(self, names: Iterable[str]) -> None:
        """Deletes groups with their positions. Tries all, then raises the first error: GroupNotEmpty while
        the group has members, UnknownGroup."""
        wanted = [names] if isinstance(names, str) else list(names)
        results: list[errors.TankError | None] = []
        for part in portions(wanted):
            results += (await self._calls.call(group_operations.delete_groups(part))).values()
        for error in results:
            if error is not None:
                raise error

    async def delete_positions(self, group: str, partitions: Iterable[Route]) -> None:
        """Deletes the group's positions in each (topic, partition). Raises GroupNotEmpty for topics that a
        member reads, UnknownGroup."""
        wanted = list(partitions)
        if wanted:
            await self._calls.call(group_operations.delete_positions(group, wanted))

    async def reset_positions(
        self,
        group: str,
        partitions: Iterable[Route],
        *,
        to: StartAt | AtTime | int | str | None = None,
        by: int = 0,
        validate_only: bool = False,
    ) -> dict[Route, int]:
        """Moves the group's positions in each (topic, partition): `to` 'first', 'end', a number or a time, or
        without it `by` that many numbers from where they are. Returns the new positions, which are always
        within what the partitions hold. `validate_only`: moves nothing.

        Raises UnknownMember while the group has members: end them first. Raises NoPosition for a partition
        without a position to move from.
        """
        wanted = sorted(set(partitions))
        if to is not None:
            numbers = await new_positions(self._calls, wanted, to)
        else:
            kept = await self.fetch_positions(group, sorted({topic for topic, _ in wanted}))
            numbers = await moved_positions(self._calls, group, wanted, kept, by)
        if numbers and not validate_only:
            await self.commit_positions(group, numbers)
        return numbers

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
