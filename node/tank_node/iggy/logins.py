"""Logins and their end (38 to 40, 44, 45)."""

from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.iggy.access import LoginResult
from tank_node.iggy.refusals import refusal
from tank_protos.generated.iggy import (
    LoginSessionRequest,
    LoginSessionResponse,
    LoginUserResponse,
    LoginWithTokenRequest,
    LoginWithTokenResponse,
)
from tank_protos.iggy import tolerant
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.vsr import PROTOCOL, EvictionReason
from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

FRAMED_SERVER_VERSION: Final = "0.9.0"
"""The version of Iggy's server whose protocol clients of framed eras find here."""
_EVICTIONS: Final = {
    IggyError.INVALID_CREDENTIALS: EvictionReason.INVALID_CREDENTIALS,
    IggyError.INVALID_TOKEN: EvictionReason.INVALID_TOKEN,
    IggyError.TOKEN_EXPIRED: EvictionReason.INVALID_TOKEN,
    IggyError.USER_INACTIVE: EvictionReason.USER_INACTIVE,
}


def login_user(call: "IggyCall", payload: memoryview) -> None:
    """Proves a user by name and password, for the requests behind this one."""
    login = tolerant.read_login(payload)
    session = call.session
    done = partial(_logged_in, call, LoginUserResponse)
    session.access.login(login.name, login.password, session.came_from(), done)


def login_with_token(call: "IggyCall", payload: memoryview) -> None:
    """Proves a user by a personal access token."""
    request = LoginWithTokenRequest.decode(payload, call.era.version)
    session = call.session
    done = partial(_logged_in, call, LoginWithTokenResponse)
    session.access.login_with_token(request.token, session.came_from(), done)


def _logged_in(
    call: "IggyCall", response: type[LoginUserResponse] | type[LoginWithTokenResponse], result: LoginResult
) -> None:
    session = call.session
    if session.closed:
        return
    principal = result.principal
    if principal is None:
        call.fail(result.error or IggyError.INVALID_CREDENTIALS)
        return
    session.principal = principal
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
        session.access.login(login.name, login.password, session.came_from(), done)
    else:
        session.access.login_with_token(login.token, session.came_from(), done)


def _session_begun(call: "IggyCall", result: LoginResult) -> None:
    session = call.session
    if session.closed:
        return
    principal = result.principal
    if principal is None:
        error = result.error or IggyError.INVALID_CREDENTIALS
        reason = _EVICTIONS.get(error)
        if reason is None:
            call.fail(error)
        else:
            call.evict(reason)
        return
    session.principal = principal
    session.session_number = session.serial
    response = LoginSessionResponse(
        principal.number + call.era.base, session.session_number, PROTOCOL, FRAMED_SERVER_VERSION
    )
    call.answer(response.encode(call.era.version))


def logout_user(call: "IggyCall", payload: memoryview) -> None:
    """Forgets who the client is. Its memberships of groups stay until the connection ends."""
    call.session.principal = None
    call.session.session_number = 0
    call.answer()
