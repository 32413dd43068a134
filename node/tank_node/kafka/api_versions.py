"""ApiVersions (18): the requests that this broker serves, in which versions. Clients ask it first."""

import re
from typing import TYPE_CHECKING, Final

from tank_node.kafka.errors import KafkaError, outcome_of
from tank_protos.feature_levels import FIRST, NATIVE_GROUPS
from tank_protos.generated.kafka import (
    ApiVersion,
    ApiVersionCollection,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    FinalizedFeatureKeyCollection,
    SupportedFeatureKey,
    SupportedFeatureKeyCollection,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_SOFTWARE_SINCE: Final = 3
"""The first version in which clients name their library."""
_LEAST_ZERO_SINCE: Final = 4
"""The first version whose clients understand a feature that may be at level 0."""
_GROUP_VERSION: Final = "group.version"
_CONSUMER_GROUP_HEARTBEAT: Final = 68
_CONSUMER_GROUP_DESCRIBE: Final = 69
_SINCE: Final = {_CONSUMER_GROUP_HEARTBEAT: NATIVE_GROUPS, _CONSUMER_GROUP_DESCRIBE: NATIVE_GROUPS}
"""By api key: the cluster's feature level from which on ApiVersions lists a request. Brokers that know the
level before it cannot read what is stored of such groups."""
_CONSUMER_PROTOCOL: Final = 1
"""The level of that feature at which brokers assign the partitions of groups that want it (KIP-848)."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
MAX_SOFTWARE_CHARACTERS: Final = 64
"""The most characters kept of a library's name and version."""


def api_versions(call: "KafkaCall", body: memoryview) -> None:
    """Answers with all requests and their versions. A version above ours is answered in version 0 with the
    whole list, so that the client comes back with a version that it finds there."""
    if call.version > call.api.highest:
        call.version = 0
        _answer(call, KafkaError.UNSUPPORTED_VERSION)
        return
    request = ApiVersionsRequest.decode(body, call.version)
    if call.version >= _SOFTWARE_SINCE:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            _answer(call, KafkaError.INVALID_REQUEST)
            return
        session = call.session
        is_known = bool(session.software_name)
        session.software_name = name[:MAX_SOFTWARE_CHARACTERS]
        session.software_version = version[:MAX_SOFTWARE_CHARACTERS]
        if not is_known:
            session.metrics.count_kafka_software(session.software_name, session.software_version)
    _answer(call, KafkaError.NONE)


def _answer(call: "KafkaCall", error: KafkaError) -> None:
    session = call.session
    level = session.broker.link.view.feature_level
    served = [
        ApiVersion(api.key, api.lowest, api.highest)
        for api in session.apis.values()
        if level >= _SINCE.get(api.key, FIRST)
    ]
    response = ApiVersionsResponse(error_code=error, api_keys=ApiVersionCollection(served))
    if level >= NATIVE_GROUPS and call.version >= _SOFTWARE_SINCE:
        response.finalized_features_epoch = level
        response.finalized_features = FinalizedFeatureKeyCollection(
            [FinalizedFeatureKey(_GROUP_VERSION, _CONSUMER_PROTOCOL, _CONSUMER_PROTOCOL)]
        )
        if call.version >= _LEAST_ZERO_SINCE:
            response.supported_features = SupportedFeatureKeyCollection(
                [SupportedFeatureKey(_GROUP_VERSION, 0, _CONSUMER_PROTOCOL)]
            )
    call.answer(response, outcome_of(error))
