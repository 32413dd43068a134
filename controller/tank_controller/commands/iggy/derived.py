"""A topic's settings, by what an Iggy client said of it; and the other way, when others change them. Pure.

Retention is Iggy's expiry and maximal size, the size of segments and `flush` are options. What has no
meaning here is kept and reported, and has no effect.
"""

from collections.abc import Iterable
from dataclasses import replace

from tank_controller import limits
from tank_controller.commands.outcome import Rejected
from tank_controller.state.iggy.iggy_option import IggyOption
from tank_controller.state.iggy.iggy_part import IggyPart
from tank_controller.state.model import TopicState
from tank_protos import topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.iggy.limits import UNBOUNDED
from tank_protos.topic_settings import FlushPolicy

RETENTION, RETENTION_BYTES, SEGMENT, FLUSH = (
    "log.retention.secs",
    "log.retention.bytes",
    "log.segment.bytes",
    "flush",
)
_TEXT = 2
_WHOLE_NUMBERS = range(4, 14)
"""The kinds of options' values that are numbers: i8 to u128, of which Iggy uses the unsigned ones."""
_MAX_SECONDS = topic_settings.MAX_AMOUNT // 1000
_DURABILITIES = {"replicated": FlushPolicy.REPLICATED, "persisted": FlushPolicy.DISK}
_FORMAT = "iggy.format"
_WITHOUT_EFFECT = frozenset(
    {
        "compression_algorithm", "message_expiry", "max_topic_size",  # the part has them as values
        "consumer_offset_durability", "messages_required_to_save", "size_of_messages_required_to_save",
        "preallocate_segments",
    }
)  # fmt: skip


def check_values(values: pb.IggyValues) -> None:
    """Raises Rejected for what an Iggy client can't say of a topic."""
    check_options(values.options)


def check_options(options: Iterable[pb.IggyOption]) -> None:
    """Raises Rejected for an unknown option, or one with a value that it can't have."""
    given = [IggyOption(each.key, each.kind, each.value) for each in options]
    if len(given) > limits.MAX_IGGY_OPTIONS:
        message = f"a topic has at most {limits.MAX_IGGY_OPTIONS} options"
        raise Rejected(ErrorCode.INVALID_SETTING, message)
    for option in given:
        if option.size_bytes > limits.MAX_IGGY_OPTION_BYTES:
            message = f"an option has at most {limits.MAX_IGGY_OPTION_BYTES} bytes"
            raise Rejected(ErrorCode.INVALID_SETTING, message)
        if option.key in _WITHOUT_EFFECT:
            continue
        try:
            _settings_of(option)
        except ValueError as error:
            message = f"option {option.key[:60]}: {error}"
            raise Rejected(ErrorCode.INVALID_SETTING, message) from None


def derived(part: IggyPart, partitions: int) -> dict[str, str]:
    """The settings that follow from the part, of a topic with so many partitions. What is not in here has
    its default. The options were checked.
    """
    found: dict[str, str] = {}
    seconds = -(-part.expiry_us // 1_000_000)
    if 0 < seconds < _MAX_SECONDS:
        found[RETENTION] = str(seconds)
    size = part.max_bytes if part.per_partition else part.max_bytes // max(partitions, 1)
    if part.max_bytes not in (0, UNBOUNDED) and size < topic_settings.MAX_AMOUNT:
        found[RETENTION_BYTES] = str(max(size, 1))  # 0 would be no bound
    for option in part.options:
        if option.key not in _WITHOUT_EFFECT:
            found.update(_settings_of(option))
    return found


def with_part(settings: dict[str, str], before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    """A topic's settings when those that are derived were `before`, and are `after`. Where both are the same
    the setting stays as others may have changed it. The stored format is chosen at the creation alone.
    """
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    changed.discard(topic_settings.LOG_FORMAT)
    pairs = {key: value for key, value in settings.items() if key not in changed}
    pairs.update({key: value for key, value in after.items() if key in changed})
    return dict(sorted(pairs.items()))


def altered_with(topic: TopicState, alter: pb.AlterTopic) -> tuple[IggyPart | None, dict[str, str]]:
    """The Iggy part and the settings of a topic that a client of any protocol alters. What it sets of
    retention is what Iggy's clients see then; a bound of the whole topic is shared by new partitions.
    """
    pairs = {**topic.settings, **{setting.key: setting.value for setting in alter.set}}
    settings = {key: pairs[key] for key in sorted(pairs) if key not in alter.unset}
    part = topic.iggy
    if part is None:
        return None, settings
    count, partitions = len(topic.partitions), max(alter.partitions, len(topic.partitions))
    shared = with_part(settings, derived(part, count), derived(part, partitions))
    named = {*alter.unset, *(setting.key for setting in alter.set)} & {RETENTION, RETENTION_BYTES}
    for key in named:  # what the client says comes first
        shared.pop(key, None)
        if key in settings:
            shared[key] = settings[key]
    return reported(part, named, shared, partitions), dict(sorted(shared.items()))


def reported(part: IggyPart, keys: Iterable[str], settings: dict[str, str], partitions: int) -> IggyPart:
    """The part with the values that Iggy's clients see of these settings. Values that can't be read leave it
    as it is: the settings' own check refuses them.
    """
    try:
        for key in keys:
            text = settings.get(key)
            if key == RETENTION:
                ms = 0 if text is None else topic_settings.parse_duration_ms(text)
                part = replace(part, expiry_us=ms * 1000 or (0 if text is None else UNBOUNDED))
            elif key == RETENTION_BYTES:
                size = 0 if text is None else topic_settings.parse_size(text)
                size *= 1 if part.per_partition else max(partitions, 1)
                size = min(size, UNBOUNDED - 1)  # as much as the field takes
                part = replace(part, max_bytes=size or (0 if text is None else UNBOUNDED))
    except ValueError:
        return part
    return part


def _settings_of(option: IggyOption) -> dict[str, str]:
    """The settings that follow from an option with an effect. ValueError says what is wrong with it."""
    if option.key == "segment_size":
        size = _size(option)
        return {} if size in (0, UNBOUNDED) else {SEGMENT: str(size)}
    if option.key == "durability":
        policy = _DURABILITIES.get(_text(option))
        if policy is None:
            raise ValueError("takes replicated or persisted")
        return {FLUSH: policy.value}
    if option.key == _FORMAT:
        if _text(option) not in ("tank", "kafka"):
            raise ValueError("takes tank or kafka")
        return {topic_settings.LOG_FORMAT: _text(option)}
    raise ValueError("no such option")


def _text(option: IggyOption) -> str:
    if option.kind != _TEXT:
        raise ValueError("takes text")
    return option.value.decode("utf-8", "replace").strip().lower()


def _size(option: IggyOption) -> int:
    """Bytes: a number, or text with a unit of 1024s, such as `512 MiB`."""
    if option.kind in _WHOLE_NUMBERS and len(option.value) in (1, 2, 4, 8, 16):
        return int.from_bytes(option.value, "little")
    return topic_settings.parse_size(_text(option).replace("ib", "b"))
