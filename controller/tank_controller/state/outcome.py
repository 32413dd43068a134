"""What a command of the controller's log comes to. Pure."""

from dataclasses import dataclass, field

from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


class Rejected(ValueError):
    """Why a command changes nothing, and what to do."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message

    @property
    def is_unsure(self) -> bool:
        """It may have come to be, or another controller has to be asked."""
        return self.error in (ErrorCode.NO_LEADER, ErrorCode.TIMED_OUT)


@dataclass(slots=True)
class Outcome:
    """What became of a command."""

    delta: pb.Delta
    """What brokers must know of it; empty when nothing changed."""
    rejection: Rejected | None = None
    topic_id: int = 0
    producer_id: int = 0
    producer_ids: int = 0
    """How many ids, from that one on, are the asker's; 0: that one alone."""
    results: list[ErrorCode] = field(default_factory=list)
    """Of committed positions, one by one."""

    def as_message(self, request_id: int = 0) -> pb.ProposalOutcome:
        """For a broker."""
        if self.rejection is not None:
            error, message = self.rejection.error, self.rejection.message
            return pb.ProposalOutcome(
                request_id=request_id, error=error, message=message, index=self.delta.index
            )
        return pb.ProposalOutcome(
            request_id=request_id,
            topic_id=self.topic_id,
            producer_id=self.producer_id,
            producer_ids=self.producer_ids,
            results=self.results,
            index=self.delta.index,
        )
