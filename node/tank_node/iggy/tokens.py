"""Personal access tokens of the user that is logged in: listed, made, deleted (41 to 43)."""

from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.cluster.users.link import UserOutcome
from tank_node.cluster.users.view import UserView
from tank_node.iggy.records import NEVER, SECOND_US
from tank_node.iggy.refusals import IggyFault, of_code, refusal
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.iggy import (
    CreateTokenRequest,
    CreateTokenResponse,
    DeleteTokenRequest,
    GetTokensResponse,
    IggyToken,
)
from tank_protos.iggy.eras import A3
from tank_protos.iggy.errors import IggyError
from tank_protos.users.rules import token_name_problem
from tank_protos.users.secret import Secret
from tank_protos.users.tokens import NEVER_US, RANDOM_BYTES, token_digest, token_of

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

_MS_US: Final = 1000
_FAULTS: Final[dict[ErrorCode, IggyFault]] = {
    ErrorCode.TOKEN_EXISTS: IggyError.TOKEN_ALREADY_EXISTS,
    ErrorCode.UNKNOWN_TOKEN: IggyError.INVALID_TOKEN,
    ErrorCode.INVALID_NAME: IggyError.INVALID_TOKEN_NAME,
    ErrorCode.LIMIT_REACHED: IggyError.TOKENS_LIMIT_REACHED,
    ErrorCode.UNKNOWN_USER: IggyError.RESOURCE_NOT_FOUND,
}


def _own(call: "IggyCall") -> UserView:
    """The user that is logged in. Raises IggyRefusal for one that can't have tokens."""
    session = call.session
    principal = session.principal
    user = None if principal is None else session.broker.link.view.users.by_number(principal.number)
    if user is None:
        raise refusal(IggyError.UNAUTHORIZED)
    return user


def get_tokens(call: "IggyCall", payload: memoryview) -> None:
    """Lists the user's tokens by name and expiry."""
    tokens = [IggyToken(token.name, token.expires_us) for token in _own(call).tokens]
    call.answer(GetTokensResponse(tokens).encode(call.era.version))


def create_token(call: "IggyCall", payload: memoryview) -> None:
    """Makes a token, which this answer alone shows."""
    request = CreateTokenRequest.decode(payload, call.era.version)
    if token_name_problem(request.name) is not None:
        raise refusal(IggyError.INVALID_TOKEN_NAME)
    session = call.session
    is_old = call.era.version < A3.version
    lasts_us = request.expiry_secs * SECOND_US if is_old else request.expiry_us
    expires_us = session.broker.tick.now_ms * _MS_US + lasts_us
    if lasts_us == NEVER_US or expires_us >= NEVER:
        expires_us = NEVER_US
    token = token_of(session.access.random(RANDOM_BYTES))
    requests = session.broker.link.requests.users
    requests.create_token(
        _own(call), request.name, token_digest(token), expires_us, partial(_created, call, token)
    )


def _created(call: "IggyCall", token: Secret, outcome: UserOutcome) -> None:
    if call.session.closed:
        return
    if outcome.error:
        call.fail(_FAULTS.get(outcome.error) or of_code(outcome.error))
    else:
        call.answer(CreateTokenResponse(token.reveal().decode()).encode(call.era.version))


def delete_token(call: "IggyCall", payload: memoryview) -> None:
    """Deletes a token of the user's."""
    request = DeleteTokenRequest.decode(payload, call.era.version)
    requests = call.session.broker.link.requests.users
    requests.delete_token(_own(call), request.name, partial(_deleted, call))


def _deleted(call: "IggyCall", outcome: UserOutcome) -> None:
    if call.session.closed:
        return
    if outcome.error:
        call.fail(_FAULTS.get(outcome.error) or of_code(outcome.error))
    else:
        call.answer()
