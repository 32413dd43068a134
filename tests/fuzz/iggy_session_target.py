"""Sessions of Iggy's protocol over a node in memory: strangers of all eras, and an honest client beside them.

Nothing but a typed error may come out of a session. What an honest client of the same broker sends is stored,
and read as ever.
"""

import logging
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from tank_protos.generated.iggy import CreateStreamRequest, CreateTopicRequest, PollMessagesRequest
from tank_protos.generated.iggy.by_id import REQUESTS
from tank_protos.generated.iggy.iggy_consumer import IggyConsumer
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import B3, ERAS, SEED, Era
from tank_protos.iggy.identifiers import of_name, of_number
from tank_protos.iggy.kinds import PartitioningKind, PollingKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.wire.errors import WireError
from tests.fuzz import mutate
from tests.fuzz.session_node import BugLog
from tests.support.iggy.iggy_line import IggyEvicted, IggyLine, IggyStatus, logged_in
from tests.support.iggy.iggy_node import IggyNode
from tests.support.iggy.iggy_polls import read_poll
from tests.support.iggy.iggy_sends import send_payload
from tests.support.storage.fault_disk import FaultDisk

FRAMES: Final = 60
"""Frames of one conversation. Each begins with a fresh node, so that it can be replayed alone."""
_TURN: Final = 20
"""After how many frames the honest client has its turn."""
_WITNESS: Final = of_name("witness")
_CHOSEN: Final = Partitioning(PartitioningKind.PARTITION, 0)
_HARMFUL: Final = frozenset({IggyCode.DELETE_USER, IggyCode.UPDATE_USER, IggyCode.CHANGE_PASSWORD})
"""Commands by which strangers would be nobody from then on."""
_HARMFUL_TO_STREAMS: Final = frozenset(
    {IggyCode.DELETE_STREAM, IggyCode.UPDATE_STREAM, IggyCode.PURGE_STREAM, IggyCode.DELETE_TOPIC}
    | {IggyCode.UPDATE_TOPIC, IggyCode.PURGE_TOPIC, IggyCode.REMOVE_PARTITIONS, IggyCode.DELETE_SEGMENTS}
)
"""Commands by which they could take away what the honest client reads."""


def conversation(chance: Random) -> Counter[str]:
    """Strangers, one after another: a new one whenever one is refused. Returns the refusals by reason."""
    log = BugLog()
    logger = logging.getLogger("tank_node")
    logger.addHandler(log)
    try:
        refused = _conversation(chance)
    finally:
        logger.removeHandler(log)
    assert not log.bugs, "\n".join(log.bugs)
    return refused


def _conversation(chance: Random) -> Counter[str]:
    refused: Counter[str] = Counter()
    with IggyNode(Path("/data"), disk=FaultDisk()) as node:
        honest = logged_in(node, B3)
        for name in ("witness", "main"):
            honest.tell(CreateStreamRequest(name=name))
            honest.tell(CreateTopicRequest(stream=of_name(name), partitions_count=2, name=name))
        sent: list[bytes] = []
        line = _stranger(node, chance)
        for number in range(FRAMES):
            if line.closed_for:
                refused[line.closed_for] += 1
                line = _stranger(node, chance)
            _say(line, chance)
            if number % _TURN == 0:
                _check(honest, sent)
        line.close()
        _check(honest, sent)
    return refused


def _stranger(node: IggyNode, chance: Random) -> IggyLine:
    era = chance.choice(ERAS)
    line = IggyLine(node, era)
    if era is SEED or chance.random() < 0.1:
        return line
    line.login()
    return line


def _say(line: IggyLine, chance: Random) -> None:
    """Sends a frame whose payload, or all of which, is changed."""
    era = line.era
    code = chance.choice([code for code in REQUESTS if code not in _HARMFUL | _HARMFUL_TO_STREAMS])
    good = _good(era, code)
    payload = mutate.payload(chance, good, _good(era, IggyCode.POLL_MESSAGES))
    frame = line.frame(code, payload)
    if chance.random() < 0.1:
        frame = mutate.payload(chance, frame, payload)
    try:
        line.feed(frame)
        line.node.settle(50)
        line.feed(b"")
        line.answers()
    except WireError as error:
        line.closed_for = error.reason
        line.close()
    except IggyEvicted:
        line.closed_for = "evicted"
        line.close()


def _good(era: Era, code: int) -> bytes:
    if code == IggyCode.SEND_MESSAGES:
        return send_payload(era, of_name("main"), of_name("main"), _CHOSEN, [b"x" * 30])
    message = REQUESTS[code]
    if not message.VERSIONS[0] <= era.version <= message.VERSIONS[1]:
        return b""
    request = message()
    for field in ("stream", "topic"):
        if hasattr(request, field):
            setattr(request, field, of_name("main"))
    return b"".join(request.encode(era.version))


def _check(honest: IggyLine, sent: list[bytes]) -> None:
    """Sends a message, and reads all."""
    value = b"%d" % len(sent)
    try:
        honest.raw(IggyCode.SEND_MESSAGES, send_payload(B3, _WITNESS, _WITNESS, _CHOSEN, [value]))
        sent.append(value)
        request = PollMessagesRequest(
            consumer=IggyConsumer(1, 0, of_number(0, B3)),
            stream=_WITNESS,
            topic=_WITNESS,
            has_partition=1,
            strategy=PollingKind.FIRST,
            count=1000,
        )
        found = read_poll(B3, honest.tell(request))
    except IggyStatus as status:
        raise AssertionError(f"the honest client got {status.code}") from status
    assert [payload for _, payload in found.messages] == sent
