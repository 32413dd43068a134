"""FindCoordinator (10): the broker that a group's members speak to."""

from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.kafka.errors import KafkaError, first_error, of_group, outcome_of
from tank_node.kafka.leaders import NO_BROKER, endpoint_of
from tank_protos.generated.kafka import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_GROUP: Final = 0
_TRANSACTION: Final = 1
"""Types of keys."""
_NO_PORT: Final = -1
_SEVERAL_SINCE: Final = 4
"""The first version that names several keys."""


def find_coordinator(call: "KafkaCall", body: memoryview) -> None:
    """Answers with the coordinator of each group. An answer waits for the coordinators' topic, which the
    first question creates.

    Transactions are not served: UNSUPPORTED_VERSION ends the producers of most clients at once, where they
    would ask again after COORDINATOR_NOT_AVAILABLE."""
    request = FindCoordinatorRequest.decode(body, call.version)
    keys = request.coordinator_keys if call.version >= _SEVERAL_SINCE else [request.key]
    search = CoordinatorSearch(call, list(dict.fromkeys(keys)))
    if request.key_type == _GROUP:
        search.ask()
    elif request.key_type == _TRANSACTION:
        search.refuse(KafkaError.UNSUPPORTED_VERSION, "transactions are not served")
    else:
        search.refuse(KafkaError.INVALID_REQUEST, f"there are no keys of type {request.key_type}")


class CoordinatorSearch:
    """The keys of one request."""

    __slots__ = ("_call", "_found", "_keys", "_missing")

    def __init__(self, call: "KafkaCall", keys: list[str]) -> None:
        self._call = call
        self._keys = keys
        self._found: dict[str, Coordinator] = {}
        self._missing = len(keys)

    def ask(self) -> None:
        """Looks for the coordinator of each group, and answers when all are found."""
        groups = groups_of(self._call.session.broker)
        for key in self._keys:
            groups.coordinator_of(key, partial(self._is, key))
        if not self._keys:
            self._answer()

    def refuse(self, error: KafkaError, message: str) -> None:
        """Answers with the same error for all keys."""
        for key in self._keys:
            self._found[key] = _nobody(key, error, message)
        self._answer()

    def _is(self, key: str, error: GroupError, broker_id: int) -> None:
        if error:
            self._found[key] = _nobody(key, of_group(error), None)
        else:
            endpoint = endpoint_of(self._call.session, broker_id)
            if endpoint is None:
                message = f"broker {broker_id} is not there, or has no address for Kafka's clients"
                self._found[key] = _nobody(key, KafkaError.COORDINATOR_NOT_AVAILABLE, message)
            else:
                self._found[key] = Coordinator(key, broker_id, *endpoint)
        self._missing -= 1
        if not self._missing:
            self._answer()

    def _answer(self) -> None:
        found = [self._found[key] for key in self._keys]
        outcome = outcome_of(first_error(found))
        if self._call.version >= _SEVERAL_SINCE:
            self._call.answer(FindCoordinatorResponse(coordinators=found), outcome)
            return
        (only,) = found
        response = FindCoordinatorResponse(
            error_code=only.error_code,
            error_message=only.error_message,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        )
        self._call.answer(response, outcome)


def _nobody(key: str, error: KafkaError, message: str | None) -> Coordinator:
    """An answer without a coordinator. Clients read the address before the error: it must be none."""
    return Coordinator(key, NO_BROKER, "", _NO_PORT, error, message)
