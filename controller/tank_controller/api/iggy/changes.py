"""The changes of the HTTP API to streams, their topics and groups, and exposed topics."""

from collections.abc import Iterable
from typing import Final

from tank_controller.api.changes import Changes, afterwards
from tank_controller.api.iggy.reads import IggyReads
from tank_controller.api.iggy.shown import group_json
from tank_protos.generated import control_pb2 as pb
from tank_protos.http_api.errors import Json, invalid
from tank_protos.http_api.fields import Values
from tank_protos.http_api.operations import ApiRequest
from tank_protos.iggy.topic_options import with_texts
from tank_protos.topic_settings import LOG_FORMAT

_DURABILITY: Final = "durability"
_NO_COMPRESSION: Final = 1


class IggyChanges:
    """The operations that need a token. Each raises ApiError."""

    def __init__(self, changes: Changes, reads: IggyReads) -> None:
        self._changes = changes
        self._reads = reads

    # --- streams ---

    async def create_stream(self, asked: ApiRequest) -> Json:
        """Creates a stream."""
        name = asked.body.text("stream")
        await self._changes.command(pb.Command(create_stream=pb.CreateStream(name=name)))
        return await afterwards(self._reads.stream_json(name))

    async def rename_stream(self, asked: ApiRequest) -> Json:
        """Renames a stream."""
        stream, name = await self._stream(asked.path), asked.body.text("name")
        rename = pb.RenameStream(stream=stream.number, born=stream.born, name=name)
        await self._changes.command(pb.Command(rename_stream=rename))
        return await afterwards(self._reads.stream_json(name))

    async def delete_stream(self, asked: ApiRequest) -> Json:
        """Deletes a stream with its topics."""
        stream = await self._stream(asked.path)
        delete = pb.DeleteStream(stream=stream.number, born=stream.born)
        await self._changes.command(pb.Command(delete_stream=delete))
        return {"deleted": stream.name}

    async def purge_stream(self, asked: ApiRequest) -> Json:
        """Purges the stream's topics one after another, but for those that were exposed."""
        names = await self._reads.directory()
        stream = names.stream(asked.path.text("stream"))
        topics = [each for each in names.topics_of(stream) if not each.topic.iggy.exposed]
        for each in topics:
            purge = pb.PurgeTopic(topic_id=each.topic.topic_id)
            await self._changes.command(pb.Command(purge_topic=purge))
        return {"purged": stream.name, "topics": len(topics)}

    async def _stream(self, path: Values) -> pb.IggyStream:
        return (await self._reads.directory()).stream(path.text("stream"))

    # --- topics ---

    async def create_topic(self, asked: ApiRequest) -> Json:
        """Creates a topic in a stream."""
        stream, body = await self._stream(asked.path), asked.body
        create = pb.CreateIggyTopic(
            stream=stream.number,
            born=stream.born,
            name=body.text("name"),
            partitions=body.integer("partitions"),
            replication_factor=body.integer("replication_factor"),
            settings=[pb.Setting(key=LOG_FORMAT, value=body.text("format"))],
            values=pb.IggyValues(
                expiry_us=_number(body, "expiry_us"),
                max_bytes=_number(body, "max_bytes"),
                compression=_NO_COMPRESSION,
                options=_options([], body),
            ),
        )
        await self._changes.command(pb.Command(create_iggy_topic=create))
        return await afterwards(self._reads.topic_json(stream.name, create.name))

    async def alter_topic(self, asked: ApiRequest) -> Json:
        """Changes what Iggy's clients say of a topic; what the body doesn't name stays."""
        body = asked.body
        fields = ("name", "expiry_us", "max_bytes", _DURABILITY)
        alters = any(field in body for field in fields)
        if not alters and "partitions" not in body:
            raise invalid(f"say one of `partitions`, `{'`, `'.join(fields)}`")
        found = await self._topic(asked.path)
        topic_id, name = found.topic.topic_id, found.topic.iggy.name
        if alters:
            change = pb.AlterIggyTopic(
                topic_id=topic_id,
                name=body.text("name") if "name" in body else None,
                expiry_us=_number(body, "expiry_us"),
                max_bytes=_number(body, "max_bytes"),
            )
            if _DURABILITY in body:
                change.options.options.extend(_options(found.topic.iggy.values.options, body))
            await self._changes.command(pb.Command(alter_iggy_topic=change))
            name = change.name or name
        if "partitions" in body:
            more = pb.AlterTopic(topic_id=topic_id, partitions=body.integer("partitions"))
            await self._changes.command(pb.Command(alter_topic=more))
        return await afterwards(self._reads.topic_json(asked.path.text("stream"), name))

    async def delete_topic(self, asked: ApiRequest) -> Json:
        """Deletes a topic with its messages."""
        found = await self._topic(asked.path)
        delete = pb.DeleteTopic(topic_id=found.topic.topic_id)
        await self._changes.command(pb.Command(delete_topic=delete))
        return {"deleted": found.topic.iggy.name, "stream": asked.path.text("stream")}

    async def purge_topic(self, asked: ApiRequest) -> Json:
        """Deletes all messages of a topic, which gets another id."""
        found = await self._topic(asked.path)
        purge = pb.PurgeTopic(topic_id=found.topic.topic_id)
        await self._changes.command(pb.Command(purge_topic=purge))
        return await afterwards(self._reads.topic(asked))

    async def shrink_topic(self, asked: ApiRequest) -> Json:
        """Removes the partitions of the highest numbers."""
        found = await self._topic(asked.path)
        shrink = pb.ShrinkTopic(
            topic_id=found.topic.topic_id,
            partitions=asked.body.integer("partitions"),
            seen_partitions=found.partitions,
            seen_epoch_floor=found.topic.epoch_floor,
        )
        await self._changes.command(pb.Command(shrink_topic=shrink))
        return await afterwards(self._reads.topic(asked))

    async def _topic(self, path: Values) -> pb.IggyTopicSummary:
        return (await self._reads.directory()).topic(path.text("stream"), path.text("name"))

    # --- groups ---

    async def create_group(self, asked: ApiRequest) -> Json:
        """Creates a consumer group of a topic."""
        topic, name = await self._topic(asked.path), asked.body.text("group")
        create = pb.CreateIggyGroup(topic_id=topic.topic.topic_id, name=name)
        await self._changes.command(pb.Command(create_iggy_group=create))
        names = await afterwards(self._reads.directory())
        stream = asked.path.text("stream")
        return group_json(
            names.group(names.topic(stream, topic.topic.iggy.name), name), stream, topic.topic.iggy.name
        )

    async def delete_group(self, asked: ApiRequest) -> Json:
        """Deletes a consumer group with its positions."""
        names = await self._reads.directory()
        topic = names.topic(asked.path.text("stream"), asked.path.text("name"))
        group = names.group(topic, asked.path.text("group"))
        delete = pb.DeleteIggyGroup(topic_id=group.topic_id, number=group.number, born=group.born)
        await self._changes.command(pb.Command(delete_iggy_group=delete))
        return {"deleted": group.name}

    # --- topics of other protocols ---

    async def expose(self, asked: ApiRequest) -> Json:
        """Shows a topic of another protocol to Iggy's clients."""
        body = asked.body
        topic = body.text("topic")
        name = body.text("name") if "name" in body else topic
        stream = (await self._reads.directory()).stream(body.text("stream"))
        topic_id = await self._changes.topic_id(topic)
        change = pb.ExposeTopic(topic_id=topic_id, stream=stream.number, born=stream.born, name=name)
        await self._changes.command(pb.Command(expose_topic=change))
        return await afterwards(self._reads.topic_json(stream.name, name))

    async def hide(self, asked: ApiRequest) -> Json:
        """Ends that Iggy's clients see a topic."""
        found = (await self._reads.directory()).in_cluster(asked.path.text("topic"))
        await self._changes.command(pb.Command(hide_topic=pb.HideTopic(topic_id=found.topic.topic_id)))
        return {"hidden": found.topic.name}


def _number(body: Values, field: str) -> int | None:
    return body.integer(field) if field in body else None


def _options(options: Iterable[pb.IggyOption], body: Values) -> list[pb.IggyOption]:
    """A topic's options, with the durability that the body says instead of the one that there was."""
    return with_texts(options, {_DURABILITY: body.text(_DURABILITY)} if _DURABILITY in body else {})
