"""The changes of the HTTP API: the commands of `tank cluster`, and those of topics."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

from tank_controller.api.leader import Leader, LeaderAdmin
from tank_controller.api.reads import Reads
from tank_controller.leader.reports import checks
from tank_controller.leader.reports.report import Row
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.http_api.errors import ApiError, Json, invalid
from tank_protos.http_api.operations import ApiRequest

Found = TypeVar("Found")


class Changes:
    """The operations that need a token. Each raises ApiError; a long one has begun when it returns."""

    def __init__(self, leader: Leader, reads: Reads, now_ms: Callable[[], int]) -> None:
        self._leader = leader
        self._reads = reads
        self._now_ms = now_ms

    # --- controllers ---

    async def transfer_leadership(self, asked: ApiRequest) -> Json:
        """Transfers leadership to a voter."""
        ordinal = asked.path.integer("controller_id")
        request = pb.TransferLeadershipRequest(ordinal=ordinal)
        await self._membership(ordinal, lambda admin: admin.TransferLeadership(request))
        return {"controller": ordinal}

    async def remove_controller(self, asked: ApiRequest) -> Json:
        """Removes a controller that doesn't lead."""
        ordinal, disk = asked.path.integer("controller_id"), asked.query.text("disk")
        try:
            request = pb.RemoveControllerRequest(
                ordinal=ordinal, disk=bytes.fromhex(disk), only_silent=not asked.query.flag("running")
            )
        except ValueError:
            raise invalid("`disk` takes hexadecimal digits, as a refusal names them") from None
        await self._membership(ordinal, lambda admin: admin.RemoveController(request))
        return {"removed_controller": ordinal}

    async def _membership(
        self, ordinal: int, call: Callable[[LeaderAdmin], Awaitable[pb.ChangeAnswer]]
    ) -> None:
        try:
            await self._leader.change(call)
        except ApiError as error:
            if error.status is not HTTPStatus.BAD_REQUEST:
                raise
            said = [each for each in (await self._leader.describe()).values() if not isinstance(each, str)]
            if any(member.node.ordinal == ordinal for each in said for member in each.members):
                raise ApiError(HTTPStatus.CONFLICT, "refused", error.message) from None
            raise ApiError(HTTPStatus.NOT_FOUND, "unknown_controller", error.message) from None

    # --- brokers ---

    async def drain(self, asked: ApiRequest) -> Json:
        """Begins to drain a broker."""
        return await self._set_draining(asked, draining=True)

    async def undo_drain(self, asked: ApiRequest) -> Json:
        """Lets a drained broker hold partitions again."""
        return await self._set_draining(asked, draining=False)

    async def _set_draining(self, asked: ApiRequest, *, draining: bool) -> Json:
        broker_id = asked.path.integer("broker_id")
        found = await self._leader.overview()
        if draining and (problem := checks.drain_problem(found, broker_id)):
            raise ApiError(HTTPStatus.CONFLICT, "too_few_brokers", problem)
        await self.command(pb.Command(set_broker=checks.draining(broker_id, on=draining)))
        load = checks.load_of(await afterwards(self._leader.overview()), broker_id)
        return {"broker": broker_id, "draining": draining, "replicas": load.replicas, "leads": load.leads}

    async def remove_broker(self, asked: ApiRequest) -> Json:
        """Removes a broker that is drained and stopped."""
        broker_id = asked.path.integer("broker_id")
        checks.check_remove(checks.load_of(await self._leader.overview(), broker_id))
        await self.command(pb.Command(remove_broker=pb.RemoveBroker(broker_id=broker_id)))
        return {"removed": broker_id}

    async def balance(self, asked: ApiRequest) -> Json:
        """Begins to balance loads and leaders."""
        await self._leader.change(lambda admin: admin.Balance(pb.BalanceRequest()))
        found = await afterwards(self._leader.overview())
        loads: list[Json] = [
            {"broker_id": load.broker.broker_id, "replicas": load.replicas, "leads": load.leads}
            for load in found.brokers
        ]
        return {"balanced": found.balanced, "brokers": loads}

    # --- topics ---

    async def create_topic(self, asked: ApiRequest) -> Json:
        """Creates a topic on brokers that the controllers choose."""
        body = asked.body
        create = pb.CreateTopic(
            name=body.text("topic"),
            partitions=body.integer("partitions"),
            replication_factor=body.integer("replication_factor"),
            settings=_settings(body.settings("settings")),
        )
        await self.command(pb.Command(create_topic=create))
        return await afterwards(self._reads.topic_json(create.name))

    async def alter_topic(self, asked: ApiRequest) -> Json:
        """Changes settings and adds partitions; all other settings stay."""
        name, body = asked.path.text("topic"), asked.body
        settings = body.settings("settings")
        if not settings and "partitions" not in body:
            raise invalid("say `partitions`, or `settings` that are to change")
        alter = pb.AlterTopic(
            topic_id=await self.topic_id(name),
            partitions=body.integer("partitions") if "partitions" in body else 0,
            set=_settings(settings),
            unset=[key for key, value in settings.items() if value is None],
        )
        await self.command(pb.Command(alter_topic=alter))
        return await afterwards(self._reads.topic_json(name))

    async def delete_topic(self, asked: ApiRequest) -> Json:
        """Deletes a topic and its messages."""
        name = asked.path.text("topic")
        delete = pb.DeleteTopic(topic_id=await self.topic_id(name))
        await self.command(pb.Command(delete_topic=delete))
        return {"deleted": name}

    async def topic_id(self, name: str) -> int:
        """The id of the topic that clients of TANK and Kafka know by this name."""
        (row,) = await self._reads.rows(pb.PartitionsRequest(topics=[name], limit=1))
        return row.topic.topic.topic_id

    # --- partitions ---

    async def elect(self, asked: ApiRequest) -> Json:
        """Elects the preferred leader, or an unclean one for a leaderless partition."""
        row, unclean = await self._reads.row(asked.path), asked.body.flag("unclean")
        kind = pb.ElectLeader.UNCLEAN if unclean else pb.ElectLeader.PREFERRED
        elect = pb.ElectLeader(kind=kind, partitions=[_ref(row)])
        await self._on_partition(pb.Command(elect_leader=elect), row, unclean=unclean)
        after = await afterwards(self._reads.row(asked.path))
        return {
            **_place(after),
            "leader": after.partition.leader or None,
            "lossy": after.partition.lossy_elections > row.partition.lossy_elections,
        }

    async def move(self, asked: ApiRequest) -> Json:
        """Begins a move; a new order of the same brokers takes effect at once."""
        row = await self._reads.row(asked.path)
        placed = pb.Placed(
            topic_id=row.topic.topic.topic_id,
            partition=row.partition.partition,
            replicas=asked.body.integers("to"),
        )
        await self._on_partition(pb.Command(reassign=pb.Reassign(partitions=[placed])), row)
        return _moved(await afterwards(self._reads.row(asked.path)))

    async def cancel_move(self, asked: ApiRequest) -> Json:
        """Cancels a move: the added replicas are removed."""
        row = await self._reads.row(asked.path)
        if problem := checks.cancel_problem(row):
            raise ApiError(HTTPStatus.CONFLICT, "not_moving", problem)
        cancel = pb.CancelReassign(partitions=[_ref(row)])
        await self._on_partition(pb.Command(cancel_reassign=cancel), row)
        return _moved(await afterwards(self._reads.row(asked.path)))

    async def _on_partition(self, command: pb.Command, row: Row, *, unclean: bool = False) -> None:
        outcome = await self.command(command)
        try:
            checks.check_partition(outcome, row, unclean=unclean)
        except checks.CheckRefusedError as error:
            gone = error.error in (ErrorCode.UNKNOWN_TOPIC, ErrorCode.UNKNOWN_PARTITION)
            if gone or error.error is ErrorCode.INVALID_REPLICATION_FACTOR:
                raise
            # Errors about the brokers that the body names, not about the path.
            raise ApiError(HTTPStatus.CONFLICT, error.error.name.lower(), error.message) from None

    async def command(self, command: pb.Command) -> pb.ProposalOutcome:
        """Has the leading controller carry a command out."""
        command.now_ms = self._now_ms()
        try:
            return await self._leader.change(lambda admin: admin.Change(command))
        except ApiError as error:
            if error.code != ErrorCode.INVALID_REPLICATION_FACTOR.name.lower():
                raise
            # The replication factor is valid, but there are too few brokers, perhaps only for now.
            raise ApiError(HTTPStatus.CONFLICT, "too_few_brokers", error.message) from None


async def afterwards(read: Awaitable[Found]) -> Found:
    """Reads the result of a change that was made. A failed read must not answer "ask again", or clients would
    repeat the change.
    """
    try:
        return await read
    except ApiError as error:
        if error.status is not HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        message = f"The change was made, but its result could not be read: {error.message}"
        raise ApiError(HTTPStatus.GATEWAY_TIMEOUT, "timed_out", message) from None


def _ref(row: Row) -> pb.PartitionRef:
    return pb.PartitionRef(topic_id=row.topic.topic.topic_id, partition=row.partition.partition)


def _place(row: Row) -> dict[str, Json]:
    return {"topic": row.topic.topic.name, "partition": row.partition.partition}


def _moved(row: Row) -> Json:
    replicas = list(row.partition.replicas)
    return {**_place(row), "replicas": replicas, "moving": pb.MOVING in row.troubles}


def _settings(settings: dict[str, str | None]) -> list[pb.Setting]:
    return [pb.Setting(key=key, value=value) for key, value in settings.items() if value is not None]
