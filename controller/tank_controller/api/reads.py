"""The reads of the HTTP API: the cluster, its controllers, brokers, topics and partitions."""

import asyncio
from contextlib import aclosing

from tank_controller import limits
from tank_controller.api.document import document
from tank_controller.api.errors import refused
from tank_controller.api.leader import Leader
from tank_controller.api.operations import TROUBLES
from tank_controller.leader.reports import checks, report
from tank_controller.leader.reports.report import SHOWN, PartitionRows, Row, TopicCounts
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.http_api.errors import Json, invalid
from tank_protos.http_api.fields import Values
from tank_protos.http_api.operations import ApiRequest

_BEHIND_ALL = 0xFFFFFFFF
"""A number greater than that of any partition."""


class Reads:
    """The operations that only read. Each raises ApiError."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    async def description(self, asked: ApiRequest) -> Json:
        """The OpenAPI document."""
        return document()

    async def status(self, asked: ApiRequest) -> Json:
        """The cluster at a glance."""
        found = await self._leader.overview()
        members, waiting, moving = await asyncio.gather(
            self._leader.describe(),
            self.rows(pb.PartitionsRequest(only=pb.LEADERLESS, limit=SHOWN)),
            self.rows(pb.PartitionsRequest(only=pb.MOVING, limit=SHOWN)),
        )
        return report.status_json(report.controllers(members), found, waiting, moving)

    async def controllers(self, asked: ApiRequest) -> Json:
        """All controllers, also when none leads."""
        members = await self._leader.describe()
        return {"controllers": [each.json() for each in report.controllers(members)]}

    async def brokers(self, asked: ApiRequest) -> Json:
        """A page of brokers."""
        found = await self._leader.overview()
        after, limit = asked.query.integer("after"), asked.query.integer("limit")
        loads = [load for load in found.brokers if load.broker.broker_id > after]
        last = str(loads[limit - 1].broker.broker_id) if len(loads) > limit else None
        return {"brokers": [report.broker_json(load) for load in loads[:limit]], "next": last}

    async def broker(self, asked: ApiRequest) -> Json:
        """One broker."""
        found = await self._leader.overview()
        return report.broker_json(checks.load_of(found, asked.path.integer("broker_id")))

    async def topics(self, asked: ApiRequest) -> Json:
        """A page of topics, which ends early behind many partitions."""
        after, limit = asked.query.text("after"), asked.query.integer("limit")
        request = pb.PartitionsRequest()
        if after:
            request = pb.PartitionsRequest(after_topic=after, after_partition=_BEHIND_ALL)
        found: dict[str, TopicCounts] = {}
        looked_at = 0
        async with aclosing(self._leader.partitions(request)) as parts:
            rows = PartitionRows()
            async for part in parts:
                for row in rows.read(part):
                    name = row.topic.topic.name
                    full = len(found) >= limit or looked_at >= limits.API_PAGE_PARTITIONS
                    if name not in found and found and full:
                        return {"topics": [each.json() for each in found.values()], "next": [*found][-1]}
                    found.setdefault(name, TopicCounts(row.topic)).add(row)
                    looked_at += 1
        return {"topics": [each.json() for each in found.values()], "next": None}

    async def topic(self, asked: ApiRequest) -> Json:
        """One topic."""
        return await self.topic_json(asked.path.text("topic"))

    async def topic_json(self, name: str) -> Json:
        """The topic, which must exist."""
        (counts,) = report.topic_counts(await self.rows(pb.PartitionsRequest(topics=[name])))
        return counts.json()

    async def partitions(self, asked: ApiRequest) -> Json:
        """A page of partitions."""
        query = asked.query
        limit = query.integer("limit")
        request = pb.PartitionsRequest(topics=query.texts("topic"), limit=limit + 1)
        if "only" in query:
            request.only = TROUBLES[query.text("only")]
        if after := query.text("after"):
            request.after_topic, request.after_partition = _place(after)
        found = await self.rows(request)
        shown = found[:limit]
        fenced = await self._fenced(shown)
        return {
            "partitions": [report.partition_json(row, fenced) for row in shown],
            "next": shown[-1].place if len(found) > limit else None,
        }

    async def partition(self, asked: ApiRequest) -> Json:
        """One partition."""
        row = await self.row(asked.path)
        return report.partition_json(row, await self._fenced([row]))

    # --- for changes, too ---

    async def row(self, path: Values) -> Row:
        """The partition that the path names."""
        topic, partition = path.text("topic"), path.integer("partition")
        request = pb.PartitionsRequest(topics=[topic], limit=1)
        if partition:
            request.after_topic, request.after_partition = topic, partition - 1
        found = await self.rows(request)
        if not found or found[0].partition.partition != partition:
            raise refused(ErrorCode.UNKNOWN_PARTITION, f"topic {topic} has no partition {partition}")
        return found[0]

    async def rows(self, request: pb.PartitionsRequest) -> list[Row]:
        """All requested partitions; the named topics must exist."""
        rows = PartitionRows()
        found: list[Row] = []
        async with aclosing(self._leader.partitions(request)) as parts:
            async for part in parts:
                if part.unknown_topics:
                    names = ", ".join(part.unknown_topics)
                    raise refused(ErrorCode.UNKNOWN_TOPIC, f"there is no topic {names}")
                found += rows.read(part)
        return found

    async def _fenced(self, rows: list[Row]) -> list[int]:
        """The fenced brokers if a row is leaderless, else an empty list."""
        if not any(row.is_leaderless for row in rows):
            return []
        return report.fenced_of(await self._leader.overview())


def _place(text: str) -> tuple[str, int]:
    """Topic and partition of a text such as `orders/7`. Raises ApiError."""
    topic, _, number = text.rpartition("/")
    if not topic or not (number.isascii() and number.isdigit() and int(number) < _BEHIND_ALL):
        raise invalid("`after` takes what an answer's `next` says, such as orders/7")
    return topic, int(number)
