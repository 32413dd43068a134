"""Producer ids that this broker holds, so that producers start while no controller leads. Pure.

The controllers give them in blocks, each id once; what a process has left at its end is never used.
"""

from collections.abc import Callable

from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

ASK_BELOW = 500
"""The next block is asked for when fewer are left: half of one, so that many are there when none leads."""
ASK_AGAIN_MS = 5000
"""Between two questions: each costs an entry, also below the feature level of blocks, where none comes."""


class ProducerIds:
    """One process's ids. A block is asked for once at a time."""

    def __init__(self, ask: Callable[[Callable[[pb.ProposalOutcome], None]], None]) -> None:
        """`ask` takes the question for a block to the controllers, and calls back once with its outcome."""
        self._ask = ask
        self._blocks: list[range] = []
        self._is_asking = False
        self._not_before_ms = 0

    @property
    def left(self) -> int:
        """How many can be given out."""
        return sum(map(len, self._blocks))

    def take(self) -> int:
        """An id that was never given before; 0: there is none here, ask the controllers."""
        if not self._blocks:
            return 0
        block = self._blocks[0]
        self._blocks[:1] = [block[1:]] if len(block) > 1 else []
        return block[0]

    def fill(self, now_ms: int) -> None:
        """Asks for the next block when few are left, and none is on its way or was asked for just now."""
        if self._is_asking or self.left >= ASK_BELOW or now_ms < self._not_before_ms:
            return
        self._is_asking = True
        self._not_before_ms = now_ms + ASK_AGAIN_MS
        self._ask(self._on_outcome)

    def _on_outcome(self, outcome: pb.ProposalOutcome) -> None:
        self._is_asking = False
        # Controllers below the feature level of blocks give one id, which is as good as none: it is left.
        if outcome.error == ErrorCode.NONE and outcome.producer_id and outcome.producer_ids:
            first = outcome.producer_id
            self._blocks.append(range(first, first + outcome.producer_ids))
