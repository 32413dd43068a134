"""Files for diagnosis (11)."""

from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.iggy.refusals import refusal
from tank_node.iggy.services import Packing, SnapshotPart
from tank_protos.generated.iggy import GetSnapshotRequest, GetSnapshotResponse
from tank_protos.iggy.errors import IggyError, IggyTrouble

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

_PACKINGS: Final = {
    1: Packing.STORED,
    2: Packing.DEFLATE,
    3: Packing.BZIP2,
    4: Packing.DEFLATE,
    5: Packing.LZMA,
    6: Packing.LZMA,
}
"""By the wire's numbers. 4 and 6 are zstd and xz, which Python's zip files don't have."""
_ALL: Final = 100
_PARTS: Final = {3: SnapshotPart.METRICS, 5: SnapshotPart.LOG, 6: SnapshotPart.CONFIGURATION}
"""By the wire's numbers: what it calls resources, the server's logs, its configuration. Others, such as files
and processes of the machine, are not shown to clients, and left out."""


def get_snapshot(call: "IggyCall", payload: memoryview) -> None:
    """Answers with a zip file of what helps to find a fault in this broker: without a kind, of all."""
    request = GetSnapshotRequest.decode(payload, call.era.version)
    packing = _PACKINGS.get(request.compression)
    if packing is None:
        raise refusal(IggyError.INVALID_COMMAND)
    kinds = frozenset(request.kinds)
    if not kinds or _ALL in kinds:
        kinds = frozenset(_PARTS)
    parts = frozenset(part for kind, part in _PARTS.items() if kind in kinds)
    snapshots = call.session.services.snapshots
    if snapshots is None:
        raise refusal(IggyError.FEATURE_UNAVAILABLE)
    if not snapshots.make(parts, packing, partial(_made, call)):
        call.fail(IggyTrouble.OVERLOADED)


def _made(call: "IggyCall", zipped: bytes) -> None:
    if call.session.closed:
        return
    if zipped:
        call.answer(GetSnapshotResponse(zipped).encode(call.era.version))
    else:
        call.fail(IggyError.CANNOT_CREATE_SNAPSHOT)
