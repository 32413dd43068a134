"""The controller's HTTP API: which of `reads` and `changes` runs each operation."""

import logging
from collections.abc import Callable, Mapping

from tank_controller import limits
from tank_controller.api.changes import Changes
from tank_controller.api.errors import of_refusal
from tank_controller.api.iggy.changes import IggyChanges
from tank_controller.api.iggy.reads import IggyReads
from tank_controller.api.iggy.users import IggyUsers
from tank_controller.api.leader import Leader
from tank_controller.api.names import Name
from tank_controller.api.operations import OPERATIONS
from tank_controller.api.reads import Reads
from tank_controller.leader.reports.checks import CheckRefusedError
from tank_protos.http_api.access import Access
from tank_protos.http_api.errors import ApiError
from tank_protos.http_api.operations import PREFIX, ApiOperation, ApiRequest
from tank_protos.http_api.service import Handler, HttpService, ServiceLimits

_log = logging.getLogger("tank.controller.api")


class HttpApi(HttpService):
    """The HTTP API of one controller."""

    def __init__(self, leader: Leader, access: Access, now_ms: Callable[[], int]) -> None:
        reads = Reads(leader)
        changes = Changes(leader, reads, now_ms)
        iggy = iggy_handlers(leader, changes, now_ms)
        found = {**handlers(reads, changes), **iggy}
        super().__init__(OPERATIONS.values(), found, access, _limits, _log, _known)

    def headers_of(self, operation: ApiOperation[Name], asked: ApiRequest) -> Mapping[str, str]:
        """The place of a topic that was created."""
        if operation.name is Name.CREATE_TOPIC:
            return {"Location": f"{PREFIX}/topics/{asked.body.text('topic')}"}
        return {}


def _limits() -> ServiceLimits:
    return ServiceLimits(
        limits.MAX_API_REQUESTS, limits.API_ANSWER_S, limits.API_BODY_S, limits.MAX_API_BODY_BYTES
    )


def _known(error: Exception) -> ApiError | None:
    return of_refusal(error) if isinstance(error, CheckRefusedError) else None


def iggy_handlers(leader: Leader, changes: Changes, now_ms: Callable[[], int]) -> Mapping[Name, Handler]:
    """The handler of each operation for Iggy's clients."""
    reads, users = IggyReads(leader), IggyUsers(leader, changes, now_ms)
    streams = IggyChanges(changes, reads)
    return {
        Name.LIST_STREAMS: reads.streams,
        Name.CREATE_STREAM: streams.create_stream,
        Name.RENAME_STREAM: streams.rename_stream,
        Name.DELETE_STREAM: streams.delete_stream,
        Name.PURGE_STREAM: streams.purge_stream,
        Name.LIST_STREAM_TOPICS: reads.topics,
        Name.GET_STREAM_TOPIC: reads.topic,
        Name.CREATE_STREAM_TOPIC: streams.create_topic,
        Name.ALTER_STREAM_TOPIC: streams.alter_topic,
        Name.DELETE_STREAM_TOPIC: streams.delete_topic,
        Name.PURGE_STREAM_TOPIC: streams.purge_topic,
        Name.SHRINK_STREAM_TOPIC: streams.shrink_topic,
        Name.LIST_STREAM_GROUPS: reads.groups,
        Name.CREATE_STREAM_GROUP: streams.create_group,
        Name.DELETE_STREAM_GROUP: streams.delete_group,
        Name.LIST_EXPOSURES: reads.exposures,
        Name.EXPOSE_TOPIC: streams.expose,
        Name.HIDE_TOPIC: streams.hide,
        Name.LIST_USERS: users.users,
        Name.GET_USER: users.user,
        Name.CREATE_USER: users.create,
        Name.UPDATE_USER: users.update,
        Name.DELETE_USER: users.delete,
        Name.LIST_TOKENS: users.tokens,
        Name.DELETE_TOKEN: users.delete_token,
    }


def handlers(reads: Reads, changes: Changes) -> Mapping[Name, Handler]:
    """The handler of each operation about the cluster and its topics."""
    return {
        Name.DESCRIBE: reads.description,
        Name.STATUS: reads.status,
        Name.LIST_CONTROLLERS: reads.controllers,
        Name.TRANSFER_LEADERSHIP: changes.transfer_leadership,
        Name.REMOVE_CONTROLLER: changes.remove_controller,
        Name.LIST_BROKERS: reads.brokers,
        Name.GET_BROKER: reads.broker,
        Name.DRAIN_BROKER: changes.drain,
        Name.UNDO_DRAIN: changes.undo_drain,
        Name.REMOVE_BROKER: changes.remove_broker,
        Name.BALANCE: changes.balance,
        Name.LIST_TOPICS: reads.topics,
        Name.GET_TOPIC: reads.topic,
        Name.CREATE_TOPIC: changes.create_topic,
        Name.ALTER_TOPIC: changes.alter_topic,
        Name.DELETE_TOPIC: changes.delete_topic,
        Name.LIST_PARTITIONS: reads.partitions,
        Name.GET_PARTITION: reads.partition,
        Name.ELECT_LEADER: changes.elect,
        Name.MOVE_PARTITION: changes.move,
        Name.CANCEL_MOVE: changes.cancel_move,
    }
