"""Logins and their end (38 to 40, 44, 45)."""

from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.iggy.heartbeats import heartbeats_of
from tank_node.iggy.refusals import IggyFault, refusal
from tank_node.iggy.users import secret_of
from tank_node.users.logins import LoginOutcome, LoginRefusal
from tank_protos.generated.iggy import (
    LoginSessionRequest,
    LoginSessionResponse,
    LoginUserResponse,
    LoginWithTokenRequest,
    LoginWithTokenResponse,
)
from tank_protos.iggy import tolerant
from tank_protos.iggy.eras import B1, Era
from tank_protos.iggy.errors import IggyError, IggyTrouble
from tank_protos.iggy.vsr import PROTOCOL, EvictionReason
from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall, IggySession

FRAMED_SERVER_VERSION: Final = "0.9.0"
"""The version of Iggy's server whose protocol clients of framed eras find here."""
_EVICTIONS: Final = {
    LoginRefusal.WRONG_CREDENTIALS: EvictionReason.INVALID_CREDENTIALS,
    LoginRefusal.WRONG_TOKEN: EvictionReason.INVALID_TOKEN,
    LoginRefusal.EXPIRED_TOKEN: EvictionReason.INVALID_TOKEN,
    LoginRefusal.INACTIVE: EvictionReason.USER_INACTIVE,
}
_FAULTS: Final[dict[LoginRefusal, IggyFault]] = {
    LoginRefusal.WRONG_CREDENTIALS: IggyError.INVALID_CREDENTIALS,
    LoginRefusal.WRONG_TOKEN: IggyError.INVALID_TOKEN,
    LoginRefusal.EXPIRED_TOKEN: IggyError.TOKEN_EXPIRED,
    LoginRefusal.INACTIVE: IggyError.USER_INACTIVE,
    LoginRefusal.OVERLOADED: IggyTrouble.OVERLOADED,
    LoginRefusal.NO_USERS: IggyTrouble.NO_USERS,
}


def login_user(call: "IggyCall", payload: memoryview) -> None:
    """Proves a user by name and password, for the requests behind this one."""
    login = tolerant.read_login(payload)
    session = call.session
    done = partial(_logged_in, call, LoginUserResponse)
    session.access.logins.by_password(login.name, secret_of(login.password), session.came_from(), done)


def login_with_token(call: "IggyCall", payload: memoryview) -> None:
    """Proves a user by a personal access token."""
    request = LoginWithTokenRequest.decode(payload, call.era.version)
    session = call.session
    done = partial(_logged_in, call, LoginWithTokenResponse)
    session.access.logins.by_token(secret_of(request.token), session.came_from(), done)


def _logged_in(
    call: "IggyCall", response: type[LoginUserResponse] | type[LoginWithTokenResponse], outcome: LoginOutcome
) -> None:
    session = call.session
    if session.closed:
        return
    principal = outcome.user
    if principal is None:
        call.fail(_fault(outcome))
        return
    session.principal = principal
    _watch(session, call.era)
    call.answer(response(principal.number + call.era.base).encode(call.era.version))


def login_session(call: "IggyCall", payload: memoryview) -> None:
    """Proves a user by password or token, and begins a session, for clients of framed eras."""
    session = call.session
    if session.session_number:
        raise refusal(IggyError.ALREADY_AUTHENTICATED)
    try:
        login = tolerant.read_session_login(payload)
    except WireError:
        call.evict(EvictionReason.MALFORMED_LOGIN)
        return
    session.software = login.sdk_version
    done = partial(_session_begun, call)
    if isinstance(login, LoginSessionRequest):
        password = secret_of(login.password)
        session.access.logins.by_password(login.name, password, session.came_from(), done)
    else:
        session.access.logins.by_token(secret_of(login.token), session.came_from(), done)


def _session_begun(call: "IggyCall", outcome: LoginOutcome) -> None:
    session = call.session
    if session.closed:
        return
    principal = outcome.user
    if principal is None:
        reason = None if outcome.refusal is None else _EVICTIONS.get(outcome.refusal)
        if reason is None:
            call.fail(_fault(outcome))
        else:
            call.evict(reason)
        return
    session.principal = principal
    session.session_number = session.serial
    session.last_change.clear()
    _watch(session, call.era)
    response = LoginSessionResponse(
        principal.number + call.era.base, session.session_number, PROTOCOL, FRAMED_SERVER_VERSION
    )
    call.answer(response.encode(call.era.version))


def _watch(session: "IggySession", era: Era) -> None:
    """Demands pings of a client from now on, if the operator wants that, and the client's era has them."""
    if session.settings.heartbeat and era.version >= B1.version:
        heartbeats = heartbeats_of(session.broker)
        session.endings["heartbeats"] = partial(heartbeats.ended, session.serial)
        heartbeats.watch(session)


def _fault(outcome: LoginOutcome) -> IggyFault:
    """Why a login failed."""
    return IggyError.INVALID_CREDENTIALS if outcome.refusal is None else _FAULTS[outcome.refusal]


def logout_user(call: "IggyCall", payload: memoryview) -> None:
    """Forgets who the client is. Its memberships of groups stay until the connection ends."""
    session = call.session
    session.principal = None
    session.session_number = 0
    session.last_change.clear()
    call.answer()
