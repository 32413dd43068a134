"""Changes of replicas that administrators ask for, proposed to the controllers part by part."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tank_node.cluster.link import ChangeOutcome
from tank_protos.error_codes import ErrorCode

Taker: TypeAlias = Callable[[ErrorCode, str], None]
"""Takes the controllers' code for one partition, and a sentence, which may be empty."""


@dataclass(slots=True, frozen=True)
class ReplicaChange:
    """One proposal."""

    propose: Callable[[Callable[[ChangeOutcome], None]], None]
    takers: list[Taker]
    """One for each partition of the proposal, in its order."""


def propose_in_turn(changes: deque[ReplicaChange], done: Callable[[], None]) -> None:
    """Proposes changes, each when the one before is answered, so that one client can't fill the broker's line
    to the controllers; then calls `done`. An error of a whole proposal ends it: the rest has the same error.
    """
    if not changes:
        done()
        return
    change = changes.popleft()

    def answered(outcome: ChangeOutcome) -> None:
        if outcome.error:
            for taker in change.takers:
                taker(outcome.error, outcome.message)
            while changes:
                for taker in changes.popleft().takers:
                    taker(outcome.error, outcome.message)
        else:
            for at, taker in enumerate(change.takers):
                # An election by the ends of logs, which takes the place of an unclean one, has no results.
                taker(outcome.results[at] if at < len(outcome.results) else ErrorCode.NONE, "")
        propose_in_turn(changes, done)

    change.propose(answered)
