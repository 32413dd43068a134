"""Commands and questions for the controller's log, with the errors that askers understand. No I/O.

The shells around it, the link of `tank serve`, brokers' streams and Admin, all come by here.
"""

from collections.abc import Callable

from tank_controller import limits
from tank_controller.raft.errors import NotLeaderError, TooLargeError
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.raft_node.waiting import OutcomeUnknownError
from tank_controller.state import commands
from tank_controller.state.machine import Metadata
from tank_controller.state.outcome import Outcome, Rejected
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

Done = Callable[[Outcome], None]

PRODUCER_USE_NOTED_MS = 3_600_000
"""How exactly the log knows when a named producer was last used: asking again within this writes nothing."""


class Proposals:
    """One controller's. All calls on the driver's thread."""

    def __init__(self, driver: RaftDriver[Outcome], metadata: Metadata) -> None:
        self.driver = driver
        self.metadata = metadata

    def propose(self, command: pb.Command, done: Done) -> None:
        """`done` gets what became of it, at once or later, once.

        Rejections of its own: NO_LEADER (another controller leads, or none), OVERLOADED, TOO_LARGE, STORAGE,
        TIMED_OUT (it may come to be, or not: commands are idempotent, ask again).
        """
        if command.ByteSize() > limits.MAX_COMMAND_BYTES:
            message = f"a change has at most {limits.MAX_COMMAND_BYTES} bytes: send it in parts"
            done(rejected(ErrorCode.TOO_LARGE, message))
            return
        if self.driver.ready and (known := self._known_producer(command)) is not None:
            self.read(lambda problem: done(Outcome(pb.Delta(), rejection=problem, producer_id=known)))
            return
        refused = commands.check(self.metadata.state, command) if self.driver.idle else None
        if refused is None:
            self._append(command, done)
            return
        # It spares the log what is refused anyway; but only a leader that still leads may say so. A later
        # command may make it possible meanwhile: it is refused all the same, else it came behind that one.
        self.read(lambda problem: done(Outcome(pb.Delta(), rejection=problem or refused)))

    def judge(self, command: pb.Command) -> Outcome:
        """Whether it would be rejected, by what is applied now."""
        return Outcome(pb.Delta(), rejection=commands.check(self.metadata.state, command))

    def read(self, done: Callable[[Rejected | None], None]) -> None:
        """`done(None)` when the state holds all that was committed when this was called."""
        self.driver.read(lambda error: done(None if error is None else self._rejection(error)))

    def _known_producer(self, command: pb.Command) -> int | None:
        """The id of a named producer whose last use the log knows exactly enough."""
        init = command.init_producer
        if command.WhichOneof("command") != "init_producer":
            return None
        known = commands.known_producer(self.metadata.state, init.name, init.generation)
        if known is None or command.now_ms - known.used_ms >= PRODUCER_USE_NOTED_MS:
            return None
        return known.producer_id

    def _append(self, command: pb.Command, done: Done) -> None:
        if self.driver.proposals_waiting >= limits.MAX_WAITING_PROPOSALS:
            done(rejected(ErrorCode.OVERLOADED, "too many changes of metadata wait for the disk: ask again"))
            return

        def answer(result: Outcome | Exception) -> None:
            if isinstance(result, Outcome):
                done(result)
            else:
                done(Outcome(pb.Delta(), rejection=self._rejection(result)))

        self.driver.propose(command.SerializeToString(), answer)

    def _rejection(self, error: Exception) -> Rejected:
        storage = self.driver.failed or self.driver.full
        match error:
            case _ if storage is not None:
                return Rejected(ErrorCode.STORAGE, storage)
            case NotLeaderError():
                return Rejected(ErrorCode.NO_LEADER, str(error))
            case TooLargeError():
                return Rejected(ErrorCode.TOO_LARGE, str(error))
            case OutcomeUnknownError():
                return Rejected(ErrorCode.TIMED_OUT, str(error))
            case _:
                return Rejected(ErrorCode.OVERLOADED, str(error))


def rejected(error: ErrorCode, message: str) -> Outcome:
    """An outcome that says only this."""
    return Outcome(pb.Delta(), rejection=Rejected(error, message))
