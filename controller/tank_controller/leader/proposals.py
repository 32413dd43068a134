"""Proposes commands for the controllers' log, and waits for reads of the state; errors have the protocol's
codes. No I/O.

Used by brokers' streams, Admin, and `tank serve`.
"""

from collections.abc import Callable

from tank_controller import limits
from tank_controller.commands import commands
from tank_controller.commands.machine import Metadata
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.raft.errors import NotLeaderError, TooLargeError
from tank_controller.raft_node.driver import OutcomeUnknownError, RaftDriver
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

Done = Callable[[CommandOutcome], None]

PRODUCER_USE_NOTED_MS = 3_600_000
"""A named producer that asks for its id again within this time writes no entry; so the log knows its last use
this exactly.
"""


class Proposals:
    """One controller's. All calls on the driver's thread."""

    def __init__(self, driver: RaftDriver[CommandOutcome], metadata: Metadata) -> None:
        self.driver = driver
        self.metadata = metadata

    def propose(self, command: pb.Command, done: Done) -> None:
        """Proposes a command; `done` is called once with its outcome, at once or later.

        Rejections without an entry in the log: NO_LEADER (another controller leads, or none), OVERLOADED,
        TOO_LARGE, STORAGE, TIMED_OUT (the command may be applied or not: commands are idempotent, ask again).
        """
        if command.ByteSize() > limits.MAX_COMMAND_BYTES:
            message = f"a change has at most {limits.MAX_COMMAND_BYTES} bytes: send it in parts"
            done(rejected(ErrorCode.TOO_LARGE, message))
            return
        if self.driver.ready and (known := self._known_producer(command)) is not None:
            self.read(lambda problem: done(CommandOutcome(pb.Delta(), rejection=problem, producer_id=known)))
            return
        refused = commands.level_problem(self.metadata.state, command)
        if refused is None and self.driver.idle:
            refused = commands.check(self.metadata.state, command)
        if refused is None:
            self._append(command, done)
            return
        # Keeps commands out of the log that would be refused anyway. Only a leader may judge that. A later
        # entry may make the command possible meanwhile; it is refused
        # all the same, as it came before that entry.
        self.read(lambda problem: done(CommandOutcome(pb.Delta(), rejection=problem or refused)))

    def judge(self, command: pb.Command) -> CommandOutcome:
        """The outcome that the command would have in the present state, without proposing it."""
        return CommandOutcome(pb.Delta(), rejection=commands.check(self.metadata.state, command))

    def read(self, done: Callable[[Rejected | None], None]) -> None:
        """Calls `done(None)` when the state holds all that was committed at the time of this call."""
        self.driver.read(lambda error: done(None if error is None else self._rejection(error)))

    def _known_producer(self, command: pb.Command) -> int | None:
        """The id of a named producer whose last use the log knows exactly enough already."""
        init = command.init_producer
        if command.WhichOneof("command") != "init_producer":
            return None
        known = commands.known_producer(self.metadata.state, init.name, init.generation)
        if known is None or command.now_ms - known.used_ms >= PRODUCER_USE_NOTED_MS:
            return None
        return known.producer_id

    def _append(self, command: pb.Command, done: Done) -> None:
        if self.driver.proposals_waiting >= limits.MAX_WAITING_PROPOSALS:
            done(rejected(ErrorCode.OVERLOADED, "too many metadata changes wait for the disk: try again"))
            return

        def answer(result: CommandOutcome | Exception) -> None:
            if isinstance(result, CommandOutcome):
                done(result)
            else:
                done(CommandOutcome(pb.Delta(), rejection=self._rejection(result)))

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


def rejected(error: ErrorCode, message: str) -> CommandOutcome:
    """An outcome with this rejection."""
    return CommandOutcome(pb.Delta(), rejection=Rejected(error, message))
