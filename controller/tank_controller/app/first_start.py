"""The first start of an empty controller, until it founds a cluster or joins one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tank_controller.k8s.controllers import founders
from tank_controller.raft.birth import (
    AskToBeAdded,
    Birth,
    BirthRefusedError,
    Founding,
    IdentityAnswer,
    StoreFounding,
)
from tank_controller.raft.messages import Configuration, HardState, NodeId
from tank_controller.raft_node.peers import Peers
from tank_protos.generated import control_pb2 as pb

ASK_EVERY_S = 0.2
"""How often an empty controller asks the others for their identities, and one without a vote to be added."""

_log = logging.getLogger("tank.controller")

Begin = Callable[[str, HardState, Founding | None], None]
"""Stores the beginning of a log: cluster id, Raft's hard state, the founding entry where there is one."""
WantedControllers = Callable[[], Awaitable[int | None]]
"""Asks Kubernetes for the number of controllers; None: it is not known."""


class FirstStart:
    """Asks all other controllers for their identities, and begins a log once.

    Invariant: `begin` is called at most once."""

    def __init__(
        self, birth: Birth, peers: Peers, begin: Begin, wanted: WantedControllers | None = None
    ) -> None:
        """wanted: given to the lowest of the configured controllers, which may found a cluster, where they
        are pods: their number may have changed since."""
        self.has_begun = False
        self._birth = birth
        self._peers = peers
        self._begin = begin
        self._wanted = wanted

    async def run(self) -> None:
        """Returns when the log has begun."""
        birth = self._birth
        if self._wanted is not None:
            birth.ordinals = await founders(birth.ordinals, self._wanted)
            self._peers.know(birth.ordinals)
        self._take(birth.alone())
        logged = False
        while not self.has_begun:
            own = pb.RaftNode(ordinal=birth.own.ordinal, disk=birth.own.disk)
            answers = await self._peers.identify(pb.IdentifyRequest(asker=own, nonce=birth.ask().nonce))
            for answer in answers:
                if answer is not None and not self.has_begun:
                    self.hear(answer)
            if not self.has_begun:
                if not logged and None in answers:
                    _log.info("waiting for all configured controllers, to found a cluster or to join theirs")
                    logged = True
                await asyncio.sleep(ASK_EVERY_S)

    def hear(self, answer: pb.IdentifyAnswer) -> None:
        """Takes another controller's answer to the last question. A founding document that cannot be read, or
        is refused, is logged and changes nothing."""
        birth = self._birth
        if answer.founding and answer.nonce == birth.nonce:
            try:
                founding = Founding(answer.cluster_id, Configuration.decode(answer.founding))
                birth.accept(founding)
            except ValueError as error:  # a peer's bytes: another answer may be sound
                _log.error("controller %d sent no founding document: %s", answer.answerer.ordinal, error)
                return
            except BirthRefusedError as error:
                _log.error("%s", error)
                return
            self._start(founding.cluster_id, founding.hard_state, founding)
            return
        answerer = NodeId(answer.answerer.ordinal, answer.answerer.disk)
        self._take(birth.take(IdentityAnswer(answerer, answer.nonce, answer.cluster_id)))

    def _take(self, step: StoreFounding | AskToBeAdded | None) -> None:
        if isinstance(step, StoreFounding):
            founding = step.founding
            _log.info("founds cluster %s", founding.cluster_id)
            self._start(founding.cluster_id, founding.hard_state, founding)
        elif isinstance(step, AskToBeAdded):
            _log.info("joins cluster %s", step.cluster_id)
            self._start(step.cluster_id, HardState(), None)

    def _start(self, cluster_id: str, hard: HardState, founding: Founding | None) -> None:
        self._begin(cluster_id, hard, founding)
        self.has_begun = True
