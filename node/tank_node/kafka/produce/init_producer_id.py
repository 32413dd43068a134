"""InitProducerId (22): the id of an idempotent producer. It is the first request of every producer of Java's
client since 3.0, and without an answer nothing is produced."""

from typing import TYPE_CHECKING, Final

from tank_node.cluster.link import ProducerOutcome
from tank_node.kafka.errors import KafkaError, outcome_of
from tank_protos.generated.kafka import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_NO_ID: Final = -1
_NO_EPOCH: Final = -1
_FIRST_EPOCH: Final = 0


def init_producer_id(call: "KafkaCall", body: memoryview) -> None:
    """Answers with a producer id that was never given out, whatever id and epoch the producer had before.

    Transactions are not served: a producer with a transactional id gets UNSUPPORTED_VERSION, which Java's
    client takes as the end, where it would ask again after other errors.
    """
    request = InitProducerIdRequest.decode(body, call.version)
    if request.transactional_id is not None:
        is_named = bool(request.transactional_id)
        _answer(call, KafkaError.UNSUPPORTED_VERSION if is_named else KafkaError.INVALID_REQUEST)
        return

    def done(outcome: ProducerOutcome) -> None:
        if outcome.error:
            # No controller leads: the only error after which Java's client and librdkafka ask again.
            _answer(call, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            _answer(call, KafkaError.NONE, outcome.producer_id, _FIRST_EPOCH)

    call.session.broker.link.requests.init_producer("", 0, done)


def _answer(call: "KafkaCall", error: KafkaError, producer_id: int = _NO_ID, epoch: int = _NO_EPOCH) -> None:
    response = InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch)
    call.answer(response, outcome_of(error))
