"""Users: shown, made, changed, deleted (31 to 37)."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.cluster.users.link import NewUser, UserOutcome
from tank_node.cluster.users.view import UserView
from tank_node.iggy.numbers import check, may
from tank_node.iggy.refusals import IggyFault, of_code, refusal
from tank_node.users.password_threads import PasswordVerdict
from tank_node.users.rights import IggyAction
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.iggy import (
    ChangePasswordRequest,
    CreateUserRequest,
    DeleteUserRequest,
    GetUserRequest,
    GetUsersResponse,
    Identifier,
    IggyUser,
    UpdatePermissionsRequest,
    UpdateUserRequest,
    UserDetails,
)
from tank_protos.iggy.errors import IggyError, IggyTrouble
from tank_protos.iggy.identifiers import named
from tank_protos.iggy.kinds import UserStatus
from tank_protos.users.permissions import Permissions, decode
from tank_protos.users.rules import password_problem, user_name_problem
from tank_protos.users.secret import Secret
from tank_protos.wire.buffer import Buffer

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

_MS_US: Final = 1000
_FAULTS: Final[dict[ErrorCode, IggyFault]] = {
    ErrorCode.USER_EXISTS: IggyError.USER_ALREADY_EXISTS,
    ErrorCode.UNKNOWN_USER: IggyError.RESOURCE_NOT_FOUND,
    ErrorCode.ROOT_USER: IggyError.CANNOT_CHANGE_PERMISSIONS,
    ErrorCode.INVALID_NAME: IggyError.INVALID_USERNAME,
    ErrorCode.LIMIT_REACHED: IggyError.USERS_LIMIT_REACHED,
    ErrorCode.STALE_USER: IggyError.INVALID_CREDENTIALS,
}


def find_user(call: "IggyCall", wire: Identifier) -> UserView | None:
    """The user that a request names; None: there is none."""
    users = call.session.broker.link.view.users
    wanted = named(wire, call.era)
    return users.by_number(wanted) if isinstance(wanted, int) else users.by_name(wanted)


def user_of(call: "IggyCall", wire: Identifier) -> UserView:
    """As `find_user`. Raises IggyRefusal when there is none."""
    user = find_user(call, wire)
    if user is None:
        raise refusal(IggyError.RESOURCE_NOT_FOUND)
    return user


def is_own(call: "IggyCall", user: UserView | None) -> bool:
    """Whether the user is the one that sent the request."""
    principal = call.session.principal
    return user is not None and principal is not None and principal.born == user.born


def get_user(call: "IggyCall", payload: memoryview) -> None:
    """Shows a user with its permissions; each user may see itself. One that is not there is an empty answer
    from era A3 on."""
    request = GetUserRequest.decode(payload, call.era.version)
    user = find_user(call, request.user)
    if not is_own(call, user):
        check(call, IggyAction.READ_USERS)
    if user is not None:
        call.answer(_details(call, user))
    elif call.era.missing_is_error:
        raise refusal(IggyError.RESOURCE_NOT_FOUND)
    else:
        call.answer()


def get_users(call: "IggyCall", payload: memoryview) -> None:
    """Lists all users by number."""
    users = [_record(call, user) for user in call.session.broker.link.view.users.all()]
    call.answer(GetUsersResponse(users).encode(call.era.version))


def create_user(call: "IggyCall", payload: memoryview) -> None:
    """Makes a user, whose password is hashed in a thread."""
    request = CreateUserRequest.decode(payload, call.era.version)
    if user_name_problem(request.name) is not None:
        raise refusal(IggyError.INVALID_USERNAME)
    active = _status(request.status) is UserStatus.ACTIVE
    permissions = _given(call, request.has_permissions, request.permissions)
    new = partial(NewUser, request.name, active=active, permissions=permissions)
    _hash(call, _checked(request.password), partial(_create, call, new))


def _create(call: "IggyCall", new: Callable[[str], NewUser], encoded: str) -> None:
    requests = call.session.broker.link.requests.users
    requests.create_user(new(encoded), partial(_created, call))


def _created(call: "IggyCall", outcome: UserOutcome) -> None:
    if call.session.closed:
        return
    user = call.session.broker.link.view.users.by_number(outcome.number)
    if outcome.error:
        call.fail(_fault(outcome.error))
    elif not call.era.creates_answer or user is None:
        call.answer()
    else:
        call.answer(_details(call, user))


def delete_user(call: "IggyCall", payload: memoryview) -> None:
    """Deletes a user with its tokens; its connections are no longer logged in."""
    user = user_of(call, DeleteUserRequest.decode(payload, call.era.version).user)
    call.session.broker.link.requests.users.delete_user(user, partial(_deleted, call))


def _deleted(call: "IggyCall", outcome: UserOutcome) -> None:
    if outcome.error is ErrorCode.ROOT_USER and not call.session.closed:
        call.fail(IggyError.CANNOT_DELETE_USER)
    else:
        _changed(call, outcome)


def update_user(call: "IggyCall", payload: memoryview) -> None:
    """Gives a user another name or status."""
    request = UpdateUserRequest.decode(payload, call.era.version)
    user = user_of(call, request.user)
    name = request.name if request.has_name else None
    if name is not None and user_name_problem(name) is not None:
        raise refusal(IggyError.INVALID_USERNAME)
    active = _status(request.status) is UserStatus.ACTIVE if request.has_status else None
    done = partial(_changed, call)
    call.session.broker.link.requests.users.update_user(user, name, active, done)


def update_permissions(call: "IggyCall", payload: memoryview) -> None:
    """Gives a user other permissions, or none."""
    request = UpdatePermissionsRequest.decode(payload, call.era.version)
    user = user_of(call, request.user)
    permissions = _given(call, request.has_permissions, request.permissions)
    requests = call.session.broker.link.requests.users
    requests.update_permissions(user, permissions, partial(_changed, call))


def change_password(call: "IggyCall", payload: memoryview) -> None:
    """Changes a user's password, which has to be given; each user may change its own."""
    request = ChangePasswordRequest.decode(payload, call.era.version)
    user = find_user(call, request.user)
    if not is_own(call, user) and not may(call, IggyAction.MANAGE_USERS):
        raise refusal(IggyError.UNAUTHORIZED)
    if user is None:
        raise refusal(IggyError.RESOURCE_NOT_FOUND)
    new = _checked(request.new)
    session = call.session
    session.access.passwords.check(
        user.password_hash, secret_of(request.current), partial(_is_proved, call, user, new)
    )


def _is_proved(call: "IggyCall", user: UserView, new: Secret, verdict: PasswordVerdict) -> None:
    if call.session.closed:
        return
    if verdict is PasswordVerdict.RIGHT:
        _hash(call, new, partial(_set, call, user))
    else:
        is_wrong = verdict is PasswordVerdict.WRONG
        call.fail(IggyError.INVALID_CREDENTIALS if is_wrong else IggyTrouble.OVERLOADED)


def _set(call: "IggyCall", user: UserView, encoded: str) -> None:
    requests = call.session.broker.link.requests.users
    requests.change_password(user, encoded, partial(_changed, call, password_hash=encoded))


def _hash(call: "IggyCall", password: Secret, done: Callable[[str], None]) -> None:
    call.session.access.passwords.make(password, partial(_hashed, call, done))


def _hashed(call: "IggyCall", done: Callable[[str], None], encoded: str | None) -> None:
    if call.session.closed:
        return
    if encoded is None:
        call.fail(IggyTrouble.OVERLOADED)
    else:
        done(encoded)


def _changed(call: "IggyCall", outcome: UserOutcome, password_hash: str = "") -> None:
    session = call.session
    if session.closed:
        return
    if outcome.error:
        call.fail(_fault(outcome.error))
        return
    if session.principal is not None:
        session.principal = session.access.logins.after_own_change(session.principal, password_hash)
    call.answer()


def _fault(error: ErrorCode) -> IggyFault:
    return _FAULTS.get(error) or of_code(error)


def secret_of(text: str) -> Secret:
    """A password or token from a message."""
    return Secret(text.encode("utf-8", "surrogateescape"))


def _checked(password: str) -> Secret:
    secret = secret_of(password)
    if password_problem(len(secret)) is not None:
        raise refusal(IggyError.INVALID_PASSWORD)
    return secret


def _status(wire: int) -> UserStatus:
    try:
        return UserStatus(wire)
    except ValueError:
        raise refusal(IggyError.INVALID_USER_STATUS) from None


def _given(call: "IggyCall", has_permissions: int, document: Buffer) -> Permissions | None:
    """The permissions in a request. Raises WireError."""
    return decode(document, call.era.base) if has_permissions else None


def _record(call: "IggyCall", user: UserView) -> IggyUser:
    return IggyUser(
        id=user.number + call.era.base,
        created_at_us=user.created_ms * _MS_US,
        status=UserStatus.ACTIVE if user.active else UserStatus.INACTIVE,
        name=user.name,
    )


def _details(call: "IggyCall", user: UserView) -> list[Buffer]:
    details = UserDetails(_record(call, user))
    if user.permissions is not None:
        details.has_permissions = 1
        details.permissions = decode(user.permissions).encode(call.era.base)
    return details.encode(call.era.version)
