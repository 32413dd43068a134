"""Sessions of Iggy's protocol over a node in memory: strangers of all eras of a framing, and an honest client
beside them.

Nothing but a typed error may come out of a session. What an honest client of the same broker sends is stored,
and read as ever.
"""

import logging
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from tank_protos.generated.iggy import CreateStreamRequest, CreateTopicRequest, PollMessagesRequest
from tank_protos.generated.iggy.iggy_consumer import IggyConsumer
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import B3, SEED, Framing
from tank_protos.iggy.identifiers import of_name, of_number
from tank_protos.iggy.kinds import PartitioningKind, PollingKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.wire.errors import WireError
from tests.fuzz import iggy_frames
from tests.fuzz.iggy_frames import ERAS_OF, NAME, WITNESS
from tests.fuzz.session_node import BugLog
from tests.support.iggy.iggy_line import IggyEvicted, IggyLine, IggyStatus, logged_in
from tests.support.iggy.iggy_node import IggyNode
from tests.support.iggy.iggy_polls import read_poll
from tests.support.iggy.iggy_sends import send_payload
from tests.support.storage.fault_disk import FaultDisk

FRAMES: Final = 200
"""Frames of one conversation. Each begins with a fresh node, so that it can be replayed alone."""
_TURN: Final = 50
"""After how many frames the honest client has its turn."""
_PATIENCE: Final = 4
"""How often disks and timers have theirs while a stranger's request waits."""
_GIVE_UP_SHARE: Final = 0.5
"""Of strangers that have said that a frame is longer than it is: what they say next is taken for its rest."""
_CHOSEN: Final = Partitioning(PartitioningKind.PARTITION, 0)


def classic(chance: Random) -> Counter[str]:
    """Strangers whose frames begin with a length. Returns the refusals by reason."""
    return _logged(chance, Framing.CLASSIC)


def framed(chance: Random) -> Counter[str]:
    """Strangers whose frames begin with a header of 256 bytes, likewise."""
    return _logged(chance, Framing.VSR)


def _logged(chance: Random, framing: Framing) -> Counter[str]:
    log = BugLog()
    logger = logging.getLogger("tank_node")
    logger.addHandler(log)
    try:
        refused = _conversation(chance, framing)
    finally:
        logger.removeHandler(log)
    assert not log.bugs, "\n".join(log.bugs)
    return refused


def _conversation(chance: Random, framing: Framing) -> Counter[str]:
    """Strangers, one after another: a new one whenever one is refused."""
    refused: Counter[str] = Counter()
    with IggyNode(Path("/data"), disk=FaultDisk()) as node:
        honest = logged_in(node, B3)
        for name in (WITNESS, NAME):
            honest.tell(CreateStreamRequest(name=name))
            honest.tell(CreateTopicRequest(stream=of_name(name), partitions_count=2, name=name))
        sent: list[bytes] = []
        line = _stranger(node, chance, framing)
        for number in range(FRAMES):
            if line.closed_for or (line.has_half_a_frame and chance.random() < _GIVE_UP_SHARE):
                refused[line.closed_for or "given up"] += 1
                line.close()
                line = _stranger(node, chance, framing)
            _say(line, chance)
            if number % _TURN == 0:
                _check(honest, sent)
        line.close()
        _check(honest, sent)
    return refused


def _stranger(node: IggyNode, chance: Random, framing: Framing) -> IggyLine:
    era = chance.choice(ERAS_OF[framing])
    line = IggyLine(node, era)
    if era is SEED or chance.random() < 0.1:
        return line
    line.login()
    return line


def _say(line: IggyLine, chance: Random) -> None:
    """Sends a frame whose payload, or all of which, is changed."""
    code, payload = iggy_frames.changed(chance, line.era)
    frame = iggy_frames.spoiled(chance, line.era, line.frame(code, payload))
    try:
        line.feed(frame)
        for _ in range(_PATIENCE):
            if line.closed_for or not line.session.in_flight:
                break
            line.node.settle(50)
            line.feed(b"")
        line.answers()
    except WireError as error:
        line.closed_for = error.reason
        line.close()
    except IggyEvicted:
        line.closed_for = "evicted"
        line.close()


def _check(honest: IggyLine, sent: list[bytes]) -> None:
    """Sends a message, and reads all."""
    value = b"%d" % len(sent)
    witness = of_name(WITNESS)
    try:
        honest.raw(IggyCode.SEND_MESSAGES, send_payload(B3, witness, witness, _CHOSEN, [value]))
        sent.append(value)
        request = PollMessagesRequest(
            consumer=IggyConsumer(1, 0, of_number(0, B3)),
            stream=witness,
            topic=witness,
            has_partition=1,
            strategy=PollingKind.FIRST,
            count=1000,
        )
        found = read_poll(B3, honest.tell(request))
    except IggyStatus as status:
        raise AssertionError(f"the honest client got {status.code}") from status
    assert [payload for _, payload in found.messages] == sent
