"""The requests of a broker to the controllers about users of Iggy's clients. No I/O."""

from collections.abc import Iterator

from tank_node.cluster.answers import is_text, known_error
from tank_node.cluster.pending import PendingRequests
from tank_node.cluster.users.link import NewUser, UserDone, UserOutcome
from tank_node.cluster.users.view import UserView
from tank_node.cluster.view import ClusterView
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.users.permissions import Permissions


class ControllerUserRequests:
    """Implements `tank_node.cluster.users.link.UserRequests` over the stream to the controller that leads."""

    def __init__(self, view: ClusterView, pending: PendingRequests) -> None:
        self._view = view
        self._pending = pending

    def found_root(self, name: str, password_hash: str, done: UserDone) -> None:
        """As UserRequests."""
        self._create(pb.CreateUser(name=name, password_hash=password_hash, root=True), done)

    def create_user(self, user: NewUser, done: UserDone) -> None:
        """As UserRequests."""
        if not is_text(user.name):
            done(_NOT_TEXT)
            return
        create = pb.CreateUser(name=user.name, password_hash=user.password_hash, inactive=not user.active)
        if user.permissions is not None:
            create.permissions = user.permissions.encode()
            create.births.extend(self._births(user.permissions))
        self._create(create, done)

    def _create(self, create: pb.CreateUser, done: UserDone) -> None:
        self._propose(pb.Command(create_user=create), done)

    def delete_user(self, user: UserView, done: UserDone) -> None:
        """As UserRequests."""
        self._propose(pb.Command(delete_user=pb.DeleteUser(user=_ref(user))), done)

    def update_user(self, user: UserView, name: str | None, active: bool | None, done: UserDone) -> None:
        """As UserRequests."""
        if name is not None and not is_text(name):
            done(_NOT_TEXT)
            return
        update = pb.UpdateUser(user=_ref(user))
        if name is not None:
            update.name = name
        if active is not None:
            update.inactive = not active
        self._propose(pb.Command(update_user=update), done)

    def change_password(self, user: UserView, password_hash: str, done: UserDone) -> None:
        """As UserRequests."""
        change = pb.ChangePassword(
            user=_ref(user), password_hash=password_hash, credentials_index=user.credentials_index
        )
        self._propose(pb.Command(change_password=change), done)

    def update_permissions(self, user: UserView, permissions: Permissions | None, done: UserDone) -> None:
        """As UserRequests."""
        update = pb.UpdatePermissions(user=_ref(user))
        if permissions is not None:
            update.permissions = permissions.encode()
            update.births.extend(self._births(permissions))
        self._propose(pb.Command(update_permissions=update), done)

    def create_token(self, user: UserView, name: str, digest: bytes, expires_us: int, done: UserDone) -> None:
        """As UserRequests."""
        if not is_text(name):
            done(_NOT_TEXT)
            return
        create = pb.CreateToken(
            user=_ref(user),
            name=name,
            digest=digest,
            expires_us=expires_us,
            token_deleted_index=user.token_deleted_index,
        )
        self._propose(pb.Command(create_token=create), done)

    def delete_token(self, user: UserView, name: str, done: UserDone) -> None:
        """As UserRequests."""
        if not is_text(name):
            done(UserOutcome(ErrorCode.UNKNOWN_TOKEN, "a token's name is UTF-8 text"))
            return
        self._propose(pb.Command(delete_token=pb.DeleteToken(user=_ref(user), name=name)), done)

    def _births(self, permissions: Permissions) -> Iterator[int]:
        """What made the streams and topics that a client names by their numbers, by this broker's view."""
        iggy = self._view.iggy
        for stream_number, number in permissions.places():
            if number is None:
                stream = iggy.stream(stream_number)
                yield 0 if stream is None else stream.born
            else:
                topic = iggy.topic(stream_number, number)
                yield 0 if topic is None or topic.iggy is None else topic.iggy.born

    def _propose(self, command: pb.Command, done: UserDone) -> None:
        if self._view.feature_level < feature_levels.IGGY:
            done(_LEVEL_TOO_LOW)
            return

        def answer(outcome: pb.ProposalOutcome) -> None:
            done(UserOutcome(known_error(outcome.error), outcome.message, outcome.number))

        self._pending.change(command, answer)


def _ref(user: UserView) -> pb.UserRef:
    return pb.UserRef(number=user.number, born=user.born)


_NOT_TEXT = UserOutcome(ErrorCode.INVALID_NAME, "names of users and tokens are UTF-8 text")
_LEVEL_TOO_LOW = UserOutcome(
    ErrorCode.LEVEL_TOO_LOW,
    f"users need feature level {feature_levels.IGGY}, which is not in force: upgrade all processes",
)
