"""The reads of the HTTP API about streams, their topics and groups, and exposed topics."""

from tank_controller.api.iggy.directory import IggyDirectory
from tank_controller.api.iggy.shown import group_json, page, stream_json, topic_json
from tank_controller.api.leader import Leader
from tank_protos.http_api.errors import Json
from tank_protos.http_api.operations import ApiRequest


class IggyReads:
    """The operations that only read. Each raises ApiError."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    async def streams(self, asked: ApiRequest) -> Json:
        """A page of streams."""
        names = await self.directory()
        shown, after = page(names.streams, asked.query, lambda each: each.number)
        rows: list[Json] = [stream_json(each, len(names.topics_of(each))) for each in shown]
        return {"streams": rows, "next": after}

    async def topics(self, asked: ApiRequest) -> Json:
        """A page of a stream's topics."""
        names, stream = await self.directory(), asked.path.text("stream")
        found = names.topics_of(names.stream(stream))
        shown, after = page(found, asked.query, lambda each: each.topic.iggy.number)
        return {"topics": [topic_json(each, stream) for each in shown], "next": after}

    async def topic(self, asked: ApiRequest) -> Json:
        """One topic."""
        return await self.topic_json(asked.path.text("stream"), asked.path.text("name"))

    async def groups(self, asked: ApiRequest) -> Json:
        """A page of a topic's groups."""
        names = await self.directory()
        stream, topic = asked.path.text("stream"), asked.path.text("name")
        found = names.groups_of(names.topic(stream, topic))
        shown, after = page(found, asked.query, lambda each: each.number)
        return {"groups": [group_json(each, stream, topic) for each in shown], "next": after}

    async def exposures(self, asked: ApiRequest) -> Json:
        """A page of the exposed topics."""
        names = await self.directory()
        shown, after = page(names.exposed(), asked.query, lambda each: each.topic.topic_id)
        return {"topics": [topic_json(each, names.stream_name(each)) for each in shown], "next": after}

    # --- for changes, too ---

    async def directory(self) -> IggyDirectory:
        """All names, as they are committed now."""
        return IggyDirectory(await self._leader.iggy_names())

    async def stream_json(self, name: str) -> Json:
        """The stream, which must exist."""
        names = await self.directory()
        stream = names.stream(name)
        return stream_json(stream, len(names.topics_of(stream)))

    async def topic_json(self, stream: str, name: str) -> Json:
        """The topic, which must exist."""
        names = await self.directory()
        return topic_json(names.topic(stream, name), stream)
