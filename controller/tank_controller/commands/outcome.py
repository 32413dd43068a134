"""The outcome of a command of the controller's log. Pure."""

from dataclasses import dataclass, field

from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


class Rejected(ValueError):
    """The reason why a command changes nothing, and what to do about it."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message

    @property
    def is_unsure(self) -> bool:
        """Whether the command may have been applied all the same, or another controller has to be asked."""
        return self.error in (ErrorCode.NO_LEADER, ErrorCode.TIMED_OUT)


@dataclass(slots=True)
class CommandOutcome:
    """What a command changed, and the answer to its proposer."""

    delta: pb.Delta
    """The changes that brokers must know; empty when nothing changed."""
    rejection: Rejected | None = None
    topic_id: int = 0
    producer_id: int = 0
    producer_ids: int = 0
    """The number of ids, beginning with that one, that the proposer may use; 0: that one alone."""
    number: int = 0
    """The number that the stream, topic, group or user of Iggy's clients has."""
    results: list[ErrorCode] = field(default_factory=list)
    """The error codes of committed positions, or of partitions, one by one."""

    def as_message(self, request_id: int = 0) -> pb.ProposalOutcome:
        """The outcome as a message to a broker."""
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
            number=self.number,
            results=self.results,
            index=self.delta.index,
        )
