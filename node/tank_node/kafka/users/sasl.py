"""SaslHandshake (17) and SaslAuthenticate (36): this broker asks no client who it is.

Clients that are told to authenticate should learn that from an error, and not from a closed connection.
"""

from typing import TYPE_CHECKING, Final

from tank_node.kafka.errors import KafkaError, outcome_of
from tank_protos.generated.kafka import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_ILLEGAL: Final = KafkaError.ILLEGAL_SASL_STATE
_SENTENCE: Final = "this listener takes no authentication: set security.protocol=PLAINTEXT"


def sasl_handshake(call: "KafkaCall", body: memoryview) -> None:
    """Answers that there is no mechanism."""
    SaslHandshakeRequest.decode(body, call.version)
    call.answer(SaslHandshakeResponse(_ILLEGAL, []), outcome_of(_ILLEGAL))


def sasl_authenticate(call: "KafkaCall", body: memoryview) -> None:
    """Answers that no handshake was agreed on. The token is dropped."""
    SaslAuthenticateRequest.decode(body, call.version)
    response = SaslAuthenticateResponse(_ILLEGAL, _SENTENCE, b"")
    call.answer(response, outcome_of(_ILLEGAL))
