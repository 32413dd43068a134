"""Options of a topic as the controllers' messages hold them."""

from collections.abc import Iterable, Mapping

from tank_protos.generated import control_pb2 as pb
from tank_protos.iggy.kinds import HeaderKind


def with_texts(options: Iterable[pb.IggyOption], given: Mapping[str, str]) -> list[pb.IggyOption]:
    """A topic's options, with these texts instead of those of the same names."""
    kept = [option for option in options if option.key not in given]
    return kept + [
        pb.IggyOption(key=key, kind=HeaderKind.STRING, value=value.encode()) for key, value in given.items()
    ]
