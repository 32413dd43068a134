"""Access to an HTTP API: reads from this machine are free, all else needs the token."""

import asyncio
import hmac
import ipaddress
import re
from hashlib import sha256
from http import HTTPStatus

from tank_protos.http_api.errors import ApiError
from tank_protos.http_api.token import TOKEN_VARIABLE, Token, TokenError


class Access:
    """One process's access rules."""

    def __init__(self, token: Token, process: str) -> None:
        """process: its kind, for messages: controller or broker."""
        self._token = token
        self._process = process

    async def check(self, *, changes: bool, local: bool, authorization: str | None) -> None:
        """Raises ApiError when the request is not allowed. `local`: the result of `is_local`."""
        if not changes and local and authorization is None:
            return
        if not self._token.configured:
            what = "changes over HTTP are refused" if changes else "requests from other machines are refused"
            message = (
                f"This {self._process} has no token, so {what}: put one into a file (`openssl rand -hex 32`) "
                f"and start the {self._process}s with --api-token-file FILE (TANK_API_TOKEN_FILE), or with "
                f"{TOKEN_VARIABLE} set."
            )
            raise ApiError(HTTPStatus.FORBIDDEN, "no_token_configured", message)
        given = re.fullmatch(r"bearer +(\S+)", (authorization or "").strip(), re.IGNORECASE)
        if given is None:
            raise _unauthorized("This takes the token: send the header `Authorization: Bearer TOKEN`.")
        try:
            token = await asyncio.to_thread(self._token.read)
        except TokenError as error:
            message = f"{error}: correct the file on this {self._process}."
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "token_unreadable", message) from None
        if not hmac.compare_digest(_digest(given[1]), _digest(token)):
            raise _unauthorized(f"That is not the token which this {self._process} was started with.")


def is_local(peer: str, host: str, forwarded: bool) -> bool:
    """Whether a program on this machine makes the request for itself, not for a web page or a proxy.

    `peer`: the address of the connection. `host`: the Host header; a page in a browser may let a name of its
    own point here. `forwarded`: whether a proxy forwards the request.
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
    """A digest of fixed length: the time of its comparison reveals nothing of the token."""
    return sha256(token.encode(errors="surrogateescape")).digest()


def _unauthorized(message: str) -> ApiError:
    return ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", message, {"WWW-Authenticate": "Bearer"})
