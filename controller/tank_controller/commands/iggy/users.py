"""Commands that create, change and delete users of Iggy's clients. Pure.

A command names a user by number and birth, so that a late one does nothing to another user who has the number
by now. Passwords come as hashes, made where they were typed.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from tank_controller import limits
from tank_controller.commands.levels import check_level
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.iggy.users import UserState
from tank_controller.state.iggy.users_codec import user_message
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb
from tank_protos.users import permissions
from tank_protos.users.permissions import PermissionsError
from tank_protos.users.rules import ROOT, password_hash_problem, user_name_problem
from tank_protos.users.tokens import is_expired


def check_create_user(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    create = command.create_user
    check_level(state, IGGY)
    if problem := user_name_problem(create.name):
        raise Rejected(ErrorCode.INVALID_NAME, problem)
    _check_hash(create.password_hash)
    present = state.users.by_number.get(ROOT) if create.root else state.users.named(create.name)
    if present is not None:
        if _is_repeat(present, create):
            return
        message = "there is a root user" if create.root else f"there is a user {create.name}"
        raise Rejected(ErrorCode.USER_EXISTS, f"{message} already")
    if create.root:
        return
    if ROOT not in state.users.by_number:
        raise Rejected(ErrorCode.INVALID_REQUEST, "there is no root user yet: the first broker creates it")
    if len(state.users.by_number) >= limits.MAX_USERS:
        raise Rejected(ErrorCode.LIMIT_REACHED, f"there are {limits.MAX_USERS} users: delete some first")
    if create.HasField("permissions"):
        _check_permissions(state, create.permissions, b"", create.births)


def create_user(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Creates a user, with the lowest free number; the root user with 0, and all rights."""
    create = command.create_user
    present = state.users.by_number.get(ROOT) if create.root else state.users.named(create.name)
    if present is not None:  # a repeat of the command that created it
        outcome.number = present.number
        return
    given = permissions.ALL_RIGHTS.encode() if create.root else None
    births: tuple[int, ...] = ()
    if create.HasField("permissions") and not create.root:
        given, births = create.permissions, _births(state, create.permissions, create.births)
    user = UserState(
        number=ROOT if create.root else state.users.lowest_free(),
        name=create.name,
        created_ms=command.now_ms,
        born=state.index,
        password_hash=create.password_hash,
        credentials_index=state.index,
        active=create.root or not create.inactive,
        permissions=given,
        births=births,
    )
    outcome.number = user.number
    put(state, user, outcome)


def check_delete_user(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    check_level(state, IGGY)
    user_of(state, command.delete_user.user)
    if command.delete_user.user.number == ROOT:
        raise Rejected(ErrorCode.ROOT_USER, "the root user can't be deleted")


def delete_user(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Deletes a user with its tokens."""
    number = command.delete_user.user.number
    state.users.remove(number)
    outcome.number = number
    outcome.delta.removed_users.append(number)


def check_update_user(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    update = command.update_user
    check_level(state, IGGY)
    user = user_of(state, update.user)
    if update.HasField("name"):
        if problem := user_name_problem(update.name):
            raise Rejected(ErrorCode.INVALID_NAME, problem)
        if state.users.numbers.get(update.name, user.number) != user.number:
            raise Rejected(ErrorCode.USER_EXISTS, f"there is a user {update.name} already")
    if user.number == ROOT and update.HasField("inactive") and update.inactive:
        raise Rejected(ErrorCode.ROOT_USER, "the root user is always active")


def update_user(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Renames a user, or makes it active or inactive."""
    update = command.update_user
    user = user_of(state, update.user)
    name = update.name if update.HasField("name") else user.name
    active = not update.inactive if update.HasField("inactive") else user.active
    put(state, replace(user, name=name, active=active), outcome)


def check_change_password(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    check_level(state, IGGY)
    change = command.change_password
    user = user_of(state, change.user)
    _check_hash(change.password_hash)
    is_repeat = user.password_hash == change.password_hash
    if not is_repeat and change.credentials_index not in (0, user.credentials_index):
        raise Rejected(ErrorCode.STALE_USER, "the password that was given is not the user's any more")


def change_password(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Sets a user's password: the sessions that were begun with another one end."""
    user = user_of(state, command.change_password.user)
    encoded = command.change_password.password_hash
    if encoded != user.password_hash:
        put(state, replace(user, password_hash=encoded, credentials_index=state.index), outcome)


def check_update_permissions(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    update = command.update_permissions
    check_level(state, IGGY)
    user = user_of(state, update.user)
    if user.number == ROOT:
        raise Rejected(ErrorCode.ROOT_USER, "the root user's permissions can't change")
    if update.HasField("permissions"):
        _check_permissions(state, update.permissions, user.permissions or b"", update.births)


def update_permissions(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Sets or removes a user's permissions, in the streams and topics that its client meant."""
    update = command.update_permissions
    given = update.permissions if update.HasField("permissions") else None
    user = user_of(state, update.user)
    births = () if given is None else _births(state, given, update.births)
    put(state, replace(user, permissions=given, births=births), outcome)


# --- for these commands, and those of tokens ---


def user_of(state: ClusterState, ref: pb.UserRef) -> UserState:
    """The user that a command is about. Raises Rejected when it is gone."""
    user = state.users.user(ref.number, ref.born)
    if user is None:
        raise Rejected(ErrorCode.UNKNOWN_USER, "there is no such user any more")
    return user


def put(state: ClusterState, user: UserState, outcome: CommandOutcome) -> None:
    """Puts a user's new state into the cluster's, and tells brokers of a change."""
    outcome.number = user.number
    if user == state.users.by_number.get(user.number):
        return
    state.users.put(user)
    outcome.delta.users.append(user_message(user))


def without_expired(user: UserState, now_ms: int) -> UserState:
    """The user without tokens that have expired by now."""
    kept = tuple(token for token in user.tokens if not is_expired(token.expires_us, now_ms * 1000))
    return user if len(kept) == len(user.tokens) else replace(user, tokens=kept)


def _is_repeat(user: UserState, create: pb.CreateUser) -> bool:
    """Whether this very command created the user: no two hashes have the same salt."""
    return user.name == create.name and user.password_hash == create.password_hash


def _check_hash(encoded: str) -> None:
    if problem := password_hash_problem(encoded):
        raise Rejected(ErrorCode.INVALID_REQUEST, problem)


def _check_permissions(state: ClusterState, document: bytes, before: bytes, births: Collection[int]) -> None:
    """Raises Rejected for a new document that takes the place of `before`. births: those that were meant."""
    if len(document) > permissions.MAX_BYTES:
        message = f"a user's permissions have at most {permissions.MAX_BYTES} bytes"
        raise Rejected(ErrorCode.TOO_LARGE, message)
    try:
        places = sum(1 for _ in permissions.decode(document).places())
    except PermissionsError as error:
        raise Rejected(ErrorCode.INVALID_REQUEST, str(error)) from None
    if len(births) != places:
        message = f"{places} streams and topics are named, and {len(births)} are said to be meant"
        raise Rejected(ErrorCode.INVALID_REQUEST, message)
    if state.users.permissions_bytes - len(before) + len(document) > limits.MAX_PERMISSIONS_BYTES:
        message = f"the permissions of all users have at most {limits.MAX_PERMISSIONS_BYTES} bytes together"
        raise Rejected(ErrorCode.LIMIT_REACHED, message)


def _births(state: ClusterState, document: bytes, meant: Iterable[int]) -> tuple[int, ...]:
    """The entries that made the streams and topics of a document; 0 for each that is not the one meant."""
    places = permissions.decode(document).places()
    pairs = zip(places, meant, strict=True)
    return tuple(born if _born(state, *place) == born else 0 for place, born in pairs)


def _born(state: ClusterState, stream: int, topic: int | None) -> int:
    if topic is None:
        found = state.iggy.streams.get(stream)
        return 0 if found is None else found.born
    topic_id = state.iggy.topics.get(stream, {}).get(topic)
    part = None if topic_id is None else state.topics[topic_id].iggy
    return 0 if part is None else part.born
