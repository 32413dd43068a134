"""Calls of a cluster's controllers: finds the leading one, and asks it."""

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import grpc

from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.session import CONTROLLERS_VARIABLE
from tank_protos.call_proof import NO_PROOF, Prover, ProvingInterceptor
from tank_protos.cluster_secret import UnprovenError
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import AdminStub
from tank_protos.grpc_channel import blocking_channel

ANSWER_S = 5.0
"""The longest wait for one controller's answer."""
LONG_ANSWER_S = 60.0
"""The same for the answer about all partitions: a million take so long."""
NOBODY_ANSWERS_S = 3.0
"""When no controller can be reached for so long, the command gives up."""
NOBODY_LEADS_S = 15.0
"""When controllers answer, but none leads for so long, the command gives up; an election takes a second or
two.
"""
POD_VARIABLE = "POD_NAME"
"""Set in the chart's pods, whose list of controllers is the chart's."""
MAX_HOPS = 3
"""How many named leaders are asked without a pause: during an election controllers may name each other in
turn.
"""
UNSURE_TRIES = 3
"""Errors of a command whose leader fell: the next leader has the command, or knows nothing of it."""
_POLL_S = 0.1
_OPTIONS = (
    ("grpc.max_receive_message_length", 32 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),  # controllers are not behind a proxy
    ("grpc.use_local_subchannel_pool", 1),  # otherwise a new channel inherits the backoff of an old one
)


class _Answer(Protocol):
    """An answer that may name another controller as the leader."""

    @property
    def not_leader(self) -> pb.NotLeader: ...
    def HasField(self, name: Any) -> bool: ...


Answer = TypeVar("Answer", bound=_Answer)


class Controllers:
    """Some of a cluster's controllers; within `with`. Every call raises CliError when it gets no answer."""

    def __init__(
        self, addresses: Iterable[str], options: str, prover: Prover = NO_PROOF, *, by_brokers: bool = False
    ) -> None:
        """`addresses`: host:port. `options`: the options by which a command names this cluster; empty where
        the environment names it. `prover`: proves the cluster's secret. `by_brokers`: the addresses came from
        the cluster's brokers, and not from the command line."""
        self._prover = prover
        self._by_brokers = by_brokers
        self.addresses = list(addresses)
        self.options = options
        self._channels: dict[str, grpc.Channel] = {}
        self._leader = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for channel in self._channels.values():
            channel.close()

    def command(self, words: str) -> str:
        """A command about this cluster, as a person types it."""
        return f"tank cluster {words} {self.options}".rstrip()

    @property
    def listed_in(self) -> str:
        """The option or variable that named the controllers; empty: in a pod, the chart has."""
        if self._by_brokers:
            return "the brokers' --controllers"
        if self.options or not os.environ.get(POD_VARIABLE):
            return "--controllers" if self.options else CONTROLLERS_VARIABLE
        return ""

    # --- questions ---

    def overview(self) -> pb.OverviewAnswer:
        """Brokers, and counts of partitions."""
        answer: pb.OverviewAnswer
        (answer,) = self._ask(lambda admin: [admin.Overview(pb.OverviewRequest(), timeout=ANSWER_S)])
        return answer

    def partitions(
        self, topics: Iterable[str] = (), only: pb.PartitionTrouble = pb.NO_TROUBLE, limit: int = 0
    ) -> list[pb.PartitionsAnswer]:
        """All parts. CliError for a topic that isn't there."""
        request = pb.PartitionsRequest(topics=topics, only=only, limit=limit)
        parts = self._ask(lambda admin: list(admin.Partitions(request, timeout=LONG_ANSWER_S)))
        unknown = [name for part in parts for name in part.unknown_topics]
        if unknown:
            hint = self.command("topics")
            raise CliError(f"There is no topic {', '.join(unknown)}.", ExitCode.NOT_FOUND, hint)
        return parts

    def iggy_names(self) -> list[pb.IggyNamesAnswer]:
        """All parts of the names of Iggy's clients."""
        return self._ask(lambda admin: list(admin.IggyNames(pb.IggyNamesRequest(), timeout=LONG_ANSWER_S)))

    def users(self) -> list[pb.User]:
        """The users of Iggy's clients, by number, without the hashes of passwords and tokens."""
        parts = self._ask(lambda admin: list(admin.Users(pb.UsersRequest(), timeout=ANSWER_S)))
        return [user for part in parts for user in part.users]

    def change(self, command: pb.Command) -> pb.ProposalOutcome:
        """One command, which may be sent twice: they are idempotent. CliError when it is rejected as a
        whole."""
        command.now_ms = time.time_ns() // 1_000_000
        answer: pb.ChangeAnswer
        for _ in range(UNSURE_TRIES):
            (answer,) = self._ask(lambda admin: [admin.Change(command, timeout=ANSWER_S)])
            if answer.outcome.error != ErrorCode.TIMED_OUT:
                break
        outcome = answer.outcome
        if outcome.error:
            raise CliError(f"{outcome.message[:1].upper()}{outcome.message[1:]}.")
        return outcome

    def balance(self) -> None:
        """Makes the leader balance replicas and leaders at once."""
        self._ask(lambda admin: [admin.Balance(pb.BalanceRequest(), timeout=ANSWER_S)])

    def transfer(self, ordinal: int) -> None:
        """Hands leadership of the controllers over; `describe` shows the outcome. Raises CliError."""
        request = pb.TransferLeadershipRequest(ordinal=ordinal)
        self._membership(lambda admin: admin.TransferLeadership(request, timeout=ANSWER_S))

    def remove_controller(self, ordinal: int, disk: bytes, *, only_silent: bool) -> None:
        """Removes a controller. `disk`: its disk; empty if one member has its number. `only_silent`: refused
        while the controller answers. Raises CliError.
        """
        request = pb.RemoveControllerRequest(ordinal=ordinal, disk=disk, only_silent=only_silent)
        self._membership(lambda admin: admin.RemoveController(request, timeout=ANSWER_S))

    def _membership(self, call: Callable[[AdminStub], pb.ChangeAnswer]) -> None:
        answer: pb.ChangeAnswer
        (answer,) = self._ask(lambda admin: [call(admin)])
        if answer.outcome.error:
            message = answer.outcome.message
            raise CliError(f"{message[:1].upper()}{message[1:]}.", hint=self.command("controllers"))

    def describe(self) -> dict[str, pb.ControllersDescription | str]:
        """Returns each controller's description, or the reason why it cannot be asked, by address: of the
        given controllers and of those that they name."""
        found: dict[str, pb.ControllersDescription | str] = {}
        wanted = self.addresses
        while wanted:
            with ThreadPoolExecutor(len(wanted)) as threads:
                found.update(zip(wanted, threads.map(self._describe, wanted), strict=True))
            named = [member.address for each in _described(found) for member in each.members]
            wanted = [address for address in dict.fromkeys(named) if address and address not in found]
        return found

    def _describe(self, address: str) -> pb.ControllersDescription | str:
        request = pb.DescribeControllersRequest()
        try:
            said: pb.ControllersDescription = self._stub(address).Describe(request, timeout=NOBODY_ANSWERS_S)
            return said
        except UnprovenError as error:
            return str(error)
        except grpc.RpcError as error:
            return _reason(error)

    # --- the way there ---

    def _ask(self, call: Callable[[AdminStub], list[Answer]]) -> list[Answer]:
        """Asks the leader, at the address that the others give, until there is an answer."""
        began = time.monotonic()
        answered_s: float | None = None
        turn = hops = 0
        why = lost = ""
        while True:
            address = self._leader or self.addresses[turn % len(self.addresses)]
            named = ""
            try:
                parts = call(self._stub(address))
            except UnprovenError as error:
                raise _not_believed(address, str(error)) from None
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                    raise _not_believed(address, str(error.details())) from None
                why = f"{address}: {_reason(error)}"
                lost = address if address == self._leader else lost
            else:
                if parts and not parts[0].HasField("not_leader"):
                    self._leader = address
                    return parts
                answered_s = time.monotonic()
                named = parts[0].not_leader.leader if parts else ""
                lost = lost if named else ""
            follows = named not in ("", address) and hops < MAX_HOPS
            hops = hops + 1 if follows else 0
            self._leader = named if follows else ""
            if not follows:
                turn += 1
                self._give_up(began, answered_s, why, lost)
                if turn % len(self.addresses) == 0:
                    time.sleep(_POLL_S)

    def _give_up(self, began_s: float, answered_s: float | None, why: str, lost: str) -> None:
        """Raises CliError when the time is over. `lost`: the leader that the others name, when it cannot be
        asked.
        """
        waited_s = time.monotonic() - began_s
        if answered_s is None and waited_s > NOBODY_ANSWERS_S:
            addresses = ", ".join(self.addresses)
            theirs = "as brokers name them; are they running, and can they be reached from here"
            theirs = theirs if self._by_brokers else "are they running, and are these theirs"
            raise CliError(
                f"No controller answers at {addresses} ({why}): {theirs}?",
                ExitCode.UNREACHABLE,
                self.command("up") if self.options.startswith("--data") else None,
            )
        if waited_s > NOBODY_LEADS_S and lost:
            raise CliError(
                f"The other controllers say that {lost} leads, but it can't be reached from here ({why}).",
                ExitCode.UNREACHABLE,
                self.command("status"),
            )
        if waited_s > NOBODY_LEADS_S:
            raise CliError(
                "Controllers answer, but none leads: more than half of them must run, and reach each other.",
                ExitCode.UNREACHABLE,
                self.command("status"),
            )

    def _stub(self, address: str) -> AdminStub:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = blocking_channel(address, _OPTIONS)
        return AdminStub(grpc.intercept_channel(channel, ProvingInterceptor(channel, self._prover)))


def _described(found: dict[str, pb.ControllersDescription | str]) -> list[pb.ControllersDescription]:
    return [each for each in found.values() if not isinstance(each, str)]


def _reason(error: grpc.RpcError) -> str:
    """The error in a few words; gRPC's own text repeats the addresses of three layers."""
    code = error.code()  # every error of a call has a code
    if code is grpc.StatusCode.UNAVAILABLE:
        return "it can't be reached"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "it doesn't answer in time"
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return str(error.details())
    return str(code.name)


def _not_believed(address: str, why: str) -> CliError:
    """The error of a controller that refused the secret; the others would refuse it, too."""
    return CliError(
        f"The controller at {address}: {why}.",
        hint="name the file with --secret-file FILE or TANK_SECRET_FILE; --data DIR finds it by itself",
    )
