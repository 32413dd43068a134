"""Producer ids that a broker holds: where they come from, and that none is given twice."""

from collections.abc import Callable

from tank_node.cluster.link import ProducerOutcome
from tank_node.cluster.producer_ids import ASK_AGAIN_MS, ASK_BELOW, ProducerIds
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.support.nodes.stream_node import Node


class Controllers:
    """Give blocks when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Callable[[pb.ProposalOutcome], None]] = []

    def give(self, first: int, count: int = 1000) -> None:
        self.asked.pop(0)(pb.ProposalOutcome(producer_id=first, producer_ids=count))


def test_the_next_block_is_asked_for_once_when_half_of_the_last_is_used() -> None:
    controllers = Controllers()
    ids = ProducerIds(controllers.asked.append)
    assert ids.take() == 0, "there is none yet"
    ids.fill(0)
    ids.fill(ASK_AGAIN_MS)
    assert len(controllers.asked) == 1, "one question at a time"
    controllers.give(5000)
    given = [ids.take() for _ in range(1000 - ASK_BELOW)]
    ids.fill(ASK_AGAIN_MS)
    assert not controllers.asked
    given.append(ids.take())
    ids.fill(ASK_AGAIN_MS)
    controllers.give(9000)
    given += [ids.take() for _ in range(ids.left)]
    assert given == [*range(5000, 6000), *range(9000, 10000)]
    assert ids.take() == 0


def test_controllers_without_blocks_or_with_an_error_are_asked_again_after_a_while() -> None:
    controllers = Controllers()
    ids = ProducerIds(controllers.asked.append)
    ids.fill(0)
    controllers.give(7, 0)
    ids.fill(ASK_AGAIN_MS - 1)
    assert not controllers.asked
    ids.fill(ASK_AGAIN_MS)
    controllers.asked.pop()(pb.ProposalOutcome(error=ErrorCode.TIMED_OUT))
    assert ids.left == 0
    ids.fill(2 * ASK_AGAIN_MS)
    assert controllers.asked


def test_without_a_line_producers_get_ids_that_the_broker_holds_and_named_ones_wait() -> None:
    node = Node()
    node.stream.serve()
    line = node.register()
    node.stream.tick()
    (asked,) = line.all("proposal")
    assert asked.proposal.command.init_producer.block
    outcome = pb.ProposalOutcome(request_id=asked.proposal.request_id, producer_id=4000, producer_ids=1000)
    node.hear(outcome=outcome)
    node.stream.closed(line, "gone")
    given: list[ProducerOutcome] = []
    for _ in range(2):
        node.stream.requests.init_producer("", 0, given.append)
    node.stream.requests.init_producer("named", 1, given.append)
    assert [(each.error, each.producer_id) for each in given] == [(0, 4000), (0, 4001)]


def test_ids_that_follow_each_other_come_from_the_controllers() -> None:
    node = Node()
    node.stream.serve()
    line = node.register()
    given: list[ProducerOutcome] = []
    node.stream.requests.reserve_producer_ids(0, given.append)
    node.stream.requests.reserve_producer_ids(64, given.append)
    node.stream.requests.reserve_producer_ids(64, given.append)
    assert [(each.error, each.message) for each in given] == [
        (ErrorCode.INVALID_REQUEST, "ask for one producer id at least")
    ]
    block, alone = line.all("proposal")[-2:]
    assert block.proposal.command.init_producer == pb.InitProducer(block=True, block_ids=64)
    for asked, ids in ((block, 64), (alone, 0)):
        node.hear(
            outcome=pb.ProposalOutcome(
                request_id=asked.proposal.request_id, producer_id=4000, producer_ids=ids
            )
        )
    assert [(each.error, each.producer_id, each.count) for each in given[1:]] == [(0, 4000, 64), (0, 4000, 1)]
