"""Who may use the HTTP API: this machine may look, whoever has the token may do all."""

import asyncio
import hmac
import ipaddress
import re
from hashlib import sha256
from http import HTTPStatus

from tank_controller.api.errors import ApiError
from tank_controller.security.api_token import TOKEN_VARIABLE, Token, TokenError

HOW_TO = (
    "put one into a file (`openssl rand -hex 32`) and start the controllers with --api-token-file FILE "
    f"(TANK_API_TOKEN_FILE), or with {TOKEN_VARIABLE} set"
)


class Access:
    """One controller's."""

    def __init__(self, token: Token) -> None:
        self._token = token

    async def check(self, *, changes: bool, local: bool, authorization: str | None) -> None:
        """ApiError when the request may not be done. `local`: as `is_local` says."""
        if not changes and local and authorization is None:
            return
        if not self._token.configured:
            what = "it takes no changes over HTTP" if changes else "only its own machine may ask it over HTTP"
            message = f"This controller has no token, so {what}: {HOW_TO}."
            raise ApiError(HTTPStatus.FORBIDDEN, "no_token_configured", message)
        given = re.fullmatch(r"bearer +(\S+)", (authorization or "").strip(), re.IGNORECASE)
        if given is None:
            raise _unauthorized("This takes the token: send the header `Authorization: Bearer TOKEN`.")
        try:
            token = await asyncio.to_thread(self._token.read)
        except TokenError as error:
            message = f"{error}: mend the file on this controller."
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "token_unreadable", message) from None
        if not hmac.compare_digest(_digest(given[1]), _digest(token)):
            raise _unauthorized("That is not the token which this controller was started with.")


def is_local(peer: str, host: str, forwarded: bool) -> bool:
    """Whether the request comes from this machine, and nobody else's program had it sent.

    `peer`: the address that it comes from. `host`: the Host header; a page in a browser may have a name of
    its own point here. `forwarded`: a proxy says that it brings it for somebody.
    """
    name = (
        host[: host.index("]") + 1].strip("[]")
        if host.startswith("[") and "]" in host
        else host.split(":")[0]
    )
    return not forwarded and _is_loopback(peer) and (name.lower() == "localhost" or _is_loopback(name))


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def _digest(token: str) -> bytes:
    """Of one length: how long it takes to compare says nothing of the token's."""
    return sha256(token.encode(errors="surrogateescape")).digest()


def _unauthorized(message: str) -> ApiError:
    return ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", message, {"WWW-Authenticate": "Bearer"})
