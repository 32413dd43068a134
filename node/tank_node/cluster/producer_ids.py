"""Producer ids that this broker may give out, so that producers can start while no controller leads. Pure.

The controllers give them to brokers in blocks, each id once; ids that a broker's process has left at its end
are never used.
"""

from collections.abc import Callable

from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

ASK_BELOW = 500
"""The next block is requested when fewer ids are left: half a block, so that many are here when no controller
leads."""
ASK_AGAIN_MS = 5000
"""The pause between two requests: each costs an entry of the controllers' log."""


class ProducerIds:
    """The ids that this process holds. Only one request for a block is under way at a time."""

    def __init__(self, ask: Callable[[Callable[[pb.ProposalOutcome], None]], None]) -> None:
        """`ask` asks the controllers for a block, and calls back once with the outcome."""
        self._ask = ask
        self._blocks: list[range] = []
        self._is_asking = False
        self._not_before_ms = 0

    @property
    def left(self) -> int:
        """How many ids can still be given out."""
        return sum(map(len, self._blocks))

    def take(self) -> int:
        """Returns an id that was never given out before; 0: none is left here."""
        if not self._blocks:
            return 0
        block = self._blocks[0]
        self._blocks[:1] = [block[1:]] if len(block) > 1 else []
        return block[0]

    def fill(self, now_ms: int) -> None:
        """Asks for the next block when few ids are left, unless a request is under way or was just made."""
        if self._is_asking or self.left >= ASK_BELOW or now_ms < self._not_before_ms:
            return
        self._is_asking = True
        self._not_before_ms = now_ms + ASK_AGAIN_MS
        self._ask(self._on_outcome)

    def _on_outcome(self, outcome: pb.ProposalOutcome) -> None:
        self._is_asking = False
        if outcome.error == ErrorCode.NONE and outcome.producer_id and outcome.producer_ids:
            first = outcome.producer_id
            self._blocks.append(range(first, first + outcome.producer_ids))
