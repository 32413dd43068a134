"""All scripts, and how they are played to a server."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tank_protos.generated.kafka import ApiVersionsRequest, ApiVersionsResponse
from tank_protos.wire.errors import WireError
from tests.kafka_clients.beside import (
    consumer_groups,
    epochs,
    group_admin,
    joining,
    migration,
    offsets,
    sharing,
    static_members,
    timing,
)
from tests.kafka_clients.beside.talk import ANSWER_S, Server, Talk
from tests.support.clients.kafka_socket import KafkaSocket

Notes = dict[str, str]
"""What a server answered, by what the question was about."""
CONSUMER_GROUPS: Final = 68
"""The request that scripts of KIP-848 need."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script, by its name in the record."""

    name: str
    play: Callable[[Talk], None]
    needs: int = -1
    """A request that the server must have; -1: none besides those of classic groups."""


def _of(room: str, *plays: Callable[[Talk], None], needs: int = -1) -> list[Script]:
    return [Script(f"{room}.{play.__name__}", play, needs) for play in plays]


SCRIPTS: Final = (
    *_of(
        "joining",
        joining.alone_in_each_version,
        joining.refused,
        joining.by_protocols,
        joining.alone_with_another_protocol,
        joining.pending_ids,
        joining.of_another_kind,
    ),
    *_of(
        "sharing",
        sharing.a_rebalance,
        sharing.joins_again_in_stable,
        sharing.joins_again_in_completing,
        sharing.the_leader_leaves,
        sharing.several_leave,
        sharing.asks_twice,
    ),
    *_of(
        "timing",
        timing.a_session_ends,
        timing.a_member_does_not_join_again,
        timing.a_member_does_not_sync,
        timing.an_id_is_forgotten,
        timing.a_static_member_is_away,
        timing.a_heartbeat_keeps_a_session,
    ),
    *_of(
        "static",
        static_members.start_again_in_stable,
        static_members.fenced,
        static_members.removed_by_an_administrator,
        static_members.start_again_in_completing,
        static_members.start_again_in_preparing,
        static_members.start_again_with_other_words,
        static_members.alone_with_another_protocol,
    ),
    *_of(
        "offsets",
        offsets.in_each_version,
        offsets.odd_commits,
        offsets.of_an_epoch,
        offsets.deleted,
        offsets.of_a_deleted_group,
    ),
    *_of(
        "admin",
        group_admin.described,
        group_admin.listed,
        group_admin.deleted,
        group_admin.coordinators,
    ),
    *_of(
        "consumer",
        consumer_groups.one_alone,
        consumer_groups.refused,
        consumer_groups.by_an_expression,
        consumer_groups.two_share,
        consumer_groups.static,
        consumer_groups.positions,
        consumer_groups.asked_as_classic,
        needs=CONSUMER_GROUPS,
    ),
    *_of(
        "migration",
        migration.from_classic,
        migration.back_to_classic,
        migration.an_empty_group,
        migration.of_other_types,
        needs=CONSUMER_GROUPS,
    ),
    # At the end: it starts the server again.
    *_of("epochs", epochs.leader_epochs),
)


def play(server: Server, wanted: str = "") -> Iterator[tuple[str, Notes]]:
    """Plays the scripts whose names begin so, one after the other; those that the server can't serve are left
    out."""
    served = _served(server)
    for script in SCRIPTS:
        if script.name.startswith(wanted) and (script.needs < 0 or script.needs in served):
            talk = Talk(server, script.name)
            try:
                script.play(talk)
            except (AssertionError, LookupError, OSError, ValueError, WireError) as error:
                talk.note("the script has ended early", f"{type(error).__name__}: {error}")
            finally:
                talk.close()
            yield script.name, talk.notes


def _served(server: Server) -> set[int]:
    with KafkaSocket(server.port, ANSWER_S) as client:
        answer = client.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse, 3)
    return {each.api_key for each in answer.api_keys}
