"""Who may use the HTTP API: this machine may look, whoever has the token may do all."""

import asyncio
import hmac
import ipaddress
import re
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path

from tank_controller import limits
from tank_controller.api_errors import ApiError

TOKEN_VARIABLE = "TANK_API_TOKEN"

HOW_TO = (
    "put one into a file (`openssl rand -hex 32`) and start the controllers with --api-token-file FILE "
    f"(TANK_API_TOKEN_FILE), or with {TOKEN_VARIABLE} set"
)


class TokenError(OSError):
    """A token that can't be used, or read; the message says what to do."""


@dataclass(slots=True, frozen=True)
class Token:
    """Where the token is: in a file, which is read at each use so that it can be changed, or in a text."""

    file: Path | None = None
    text: str = ""

    @property
    def configured(self) -> bool:
        return self.file is not None or bool(self.text)

    def read(self) -> str:
        """TokenError. Reads the disk."""
        text, place = self.text, TOKEN_VARIABLE
        if self.file is not None:
            place = str(self.file)
            try:
                with open(self.file, "rb") as file:
                    text = file.read(limits.MAX_API_TOKEN_BYTES + 1).decode("ascii")
            except (OSError, UnicodeDecodeError) as error:
                raise TokenError(f"the API's token can't be read from {place} ({error})") from None
        text = text.strip()
        if not re.fullmatch(r"[!-~]*", text) or len(text) > limits.MAX_API_TOKEN_BYTES:
            raise TokenError(f"{place} holds no token: it is one line of signs without spaces")
        if len(text) < limits.MIN_API_TOKEN_CHARS:
            least = limits.MIN_API_TOKEN_CHARS
            raise TokenError(f"the token in {place} has {len(text)} signs, and at least {least} are needed")
        return text


NO_TOKEN = Token()


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
