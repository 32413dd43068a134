from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VolumeRoom(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROOM_UNSAID: _ClassVar[VolumeRoom]
    ROOM_ENOUGH: _ClassVar[VolumeRoom]
    ROOM_NONE: _ClassVar[VolumeRoom]
    ROOM_AGAIN: _ClassVar[VolumeRoom]

class PartitionTrouble(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NO_TROUBLE: _ClassVar[PartitionTrouble]
    UNDER_REPLICATED: _ClassVar[PartitionTrouble]
    BELOW_MIN_INSYNC: _ClassVar[PartitionTrouble]
    LEADERLESS: _ClassVar[PartitionTrouble]
    MOVING: _ClassVar[PartitionTrouble]
    DISPLACED: _ClassVar[PartitionTrouble]
    LOSSY: _ClassVar[PartitionTrouble]
ROOM_UNSAID: VolumeRoom
ROOM_ENOUGH: VolumeRoom
ROOM_NONE: VolumeRoom
ROOM_AGAIN: VolumeRoom
NO_TROUBLE: PartitionTrouble
UNDER_REPLICATED: PartitionTrouble
BELOW_MIN_INSYNC: PartitionTrouble
LEADERLESS: PartitionTrouble
MOVING: PartitionTrouble
DISPLACED: PartitionTrouble
LOSSY: PartitionTrouble

class Command(_message.Message):
    __slots__ = ("now_ms", "register_broker", "create_topic", "alter_topic", "delete_topic", "init_producer", "commit_positions", "fence_broker", "unfence_broker", "set_broker", "remove_broker", "change_in_sync", "report_failed", "elect_leader", "elect_lossy", "reassign", "finish_reassign", "cancel_reassign", "found_cluster", "raise_level", "drop_positions", "create_stream", "rename_stream", "delete_stream", "create_iggy_topic", "alter_iggy_topic", "purge_topic", "shrink_topic", "create_iggy_group", "delete_iggy_group", "expose_topic", "hide_topic", "create_user", "delete_user", "update_user", "change_password", "update_permissions", "create_token", "delete_token")
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    REGISTER_BROKER_FIELD_NUMBER: _ClassVar[int]
    CREATE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    ALTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    DELETE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    INIT_PRODUCER_FIELD_NUMBER: _ClassVar[int]
    COMMIT_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    FENCE_BROKER_FIELD_NUMBER: _ClassVar[int]
    UNFENCE_BROKER_FIELD_NUMBER: _ClassVar[int]
    SET_BROKER_FIELD_NUMBER: _ClassVar[int]
    REMOVE_BROKER_FIELD_NUMBER: _ClassVar[int]
    CHANGE_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    REPORT_FAILED_FIELD_NUMBER: _ClassVar[int]
    ELECT_LEADER_FIELD_NUMBER: _ClassVar[int]
    ELECT_LOSSY_FIELD_NUMBER: _ClassVar[int]
    REASSIGN_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASSIGN_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASSIGN_FIELD_NUMBER: _ClassVar[int]
    FOUND_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    RAISE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    DROP_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    CREATE_STREAM_FIELD_NUMBER: _ClassVar[int]
    RENAME_STREAM_FIELD_NUMBER: _ClassVar[int]
    DELETE_STREAM_FIELD_NUMBER: _ClassVar[int]
    CREATE_IGGY_TOPIC_FIELD_NUMBER: _ClassVar[int]
    ALTER_IGGY_TOPIC_FIELD_NUMBER: _ClassVar[int]
    PURGE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    SHRINK_TOPIC_FIELD_NUMBER: _ClassVar[int]
    CREATE_IGGY_GROUP_FIELD_NUMBER: _ClassVar[int]
    DELETE_IGGY_GROUP_FIELD_NUMBER: _ClassVar[int]
    EXPOSE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    HIDE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    CREATE_USER_FIELD_NUMBER: _ClassVar[int]
    DELETE_USER_FIELD_NUMBER: _ClassVar[int]
    UPDATE_USER_FIELD_NUMBER: _ClassVar[int]
    CHANGE_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    UPDATE_PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    CREATE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DELETE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    now_ms: int
    register_broker: RegisterBroker
    create_topic: CreateTopic
    alter_topic: AlterTopic
    delete_topic: DeleteTopic
    init_producer: InitProducer
    commit_positions: CommitPositions
    fence_broker: FenceBroker
    unfence_broker: UnfenceBroker
    set_broker: SetBroker
    remove_broker: RemoveBroker
    change_in_sync: ChangeInSync
    report_failed: ReportFailed
    elect_leader: ElectLeader
    elect_lossy: ElectLossy
    reassign: Reassign
    finish_reassign: FinishReassign
    cancel_reassign: CancelReassign
    found_cluster: FoundCluster
    raise_level: RaiseLevel
    drop_positions: DropPositions
    create_stream: CreateStream
    rename_stream: RenameStream
    delete_stream: DeleteStream
    create_iggy_topic: CreateIggyTopic
    alter_iggy_topic: AlterIggyTopic
    purge_topic: PurgeTopic
    shrink_topic: ShrinkTopic
    create_iggy_group: CreateIggyGroup
    delete_iggy_group: DeleteIggyGroup
    expose_topic: ExposeTopic
    hide_topic: HideTopic
    create_user: CreateUser
    delete_user: DeleteUser
    update_user: UpdateUser
    change_password: ChangePassword
    update_permissions: UpdatePermissions
    create_token: CreateToken
    delete_token: DeleteToken
    def __init__(self, now_ms: _Optional[int] = ..., register_broker: _Optional[_Union[RegisterBroker, _Mapping]] = ..., create_topic: _Optional[_Union[CreateTopic, _Mapping]] = ..., alter_topic: _Optional[_Union[AlterTopic, _Mapping]] = ..., delete_topic: _Optional[_Union[DeleteTopic, _Mapping]] = ..., init_producer: _Optional[_Union[InitProducer, _Mapping]] = ..., commit_positions: _Optional[_Union[CommitPositions, _Mapping]] = ..., fence_broker: _Optional[_Union[FenceBroker, _Mapping]] = ..., unfence_broker: _Optional[_Union[UnfenceBroker, _Mapping]] = ..., set_broker: _Optional[_Union[SetBroker, _Mapping]] = ..., remove_broker: _Optional[_Union[RemoveBroker, _Mapping]] = ..., change_in_sync: _Optional[_Union[ChangeInSync, _Mapping]] = ..., report_failed: _Optional[_Union[ReportFailed, _Mapping]] = ..., elect_leader: _Optional[_Union[ElectLeader, _Mapping]] = ..., elect_lossy: _Optional[_Union[ElectLossy, _Mapping]] = ..., reassign: _Optional[_Union[Reassign, _Mapping]] = ..., finish_reassign: _Optional[_Union[FinishReassign, _Mapping]] = ..., cancel_reassign: _Optional[_Union[CancelReassign, _Mapping]] = ..., found_cluster: _Optional[_Union[FoundCluster, _Mapping]] = ..., raise_level: _Optional[_Union[RaiseLevel, _Mapping]] = ..., drop_positions: _Optional[_Union[DropPositions, _Mapping]] = ..., create_stream: _Optional[_Union[CreateStream, _Mapping]] = ..., rename_stream: _Optional[_Union[RenameStream, _Mapping]] = ..., delete_stream: _Optional[_Union[DeleteStream, _Mapping]] = ..., create_iggy_topic: _Optional[_Union[CreateIggyTopic, _Mapping]] = ..., alter_iggy_topic: _Optional[_Union[AlterIggyTopic, _Mapping]] = ..., purge_topic: _Optional[_Union[PurgeTopic, _Mapping]] = ..., shrink_topic: _Optional[_Union[ShrinkTopic, _Mapping]] = ..., create_iggy_group: _Optional[_Union[CreateIggyGroup, _Mapping]] = ..., delete_iggy_group: _Optional[_Union[DeleteIggyGroup, _Mapping]] = ..., expose_topic: _Optional[_Union[ExposeTopic, _Mapping]] = ..., hide_topic: _Optional[_Union[HideTopic, _Mapping]] = ..., create_user: _Optional[_Union[CreateUser, _Mapping]] = ..., delete_user: _Optional[_Union[DeleteUser, _Mapping]] = ..., update_user: _Optional[_Union[UpdateUser, _Mapping]] = ..., change_password: _Optional[_Union[ChangePassword, _Mapping]] = ..., update_permissions: _Optional[_Union[UpdatePermissions, _Mapping]] = ..., create_token: _Optional[_Union[CreateToken, _Mapping]] = ..., delete_token: _Optional[_Union[DeleteToken, _Mapping]] = ...) -> None: ...

class RegisterBroker(_message.Message):
    __slots__ = ("broker_id", "incarnation", "disk_uuid", "tail_sure", "endpoints", "rack", "damaged", "replicates", "flush_replicated", "all_damaged", "min_level", "max_level", "folder_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    DISK_UUID_FIELD_NUMBER: _ClassVar[int]
    TAIL_SURE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    REPLICATES_FIELD_NUMBER: _ClassVar[int]
    FLUSH_REPLICATED_FIELD_NUMBER: _ClassVar[int]
    ALL_DAMAGED_FIELD_NUMBER: _ClassVar[int]
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
    FOLDER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    incarnation: bytes
    disk_uuid: bytes
    tail_sure: bool
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    rack: str
    damaged: _containers.RepeatedCompositeFieldContainer[PartitionRef]
    replicates: bool
    flush_replicated: bool
    all_damaged: bool
    min_level: int
    max_level: int
    folder_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., disk_uuid: _Optional[bytes] = ..., tail_sure: bool = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., rack: _Optional[str] = ..., damaged: _Optional[_Iterable[_Union[PartitionRef, _Mapping]]] = ..., replicates: bool = ..., flush_replicated: bool = ..., all_damaged: bool = ..., min_level: _Optional[int] = ..., max_level: _Optional[int] = ..., folder_epoch: _Optional[int] = ...) -> None: ...

class FenceBroker(_message.Message):
    __slots__ = ("broker_id", "epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class UnfenceBroker(_message.Message):
    __slots__ = ("broker_id", "epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class SetBroker(_message.Message):
    __slots__ = ("broker_id", "epoch", "draining", "shutting_down", "scaled_down", "clock_off", "no_room")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SHUTTING_DOWN_FIELD_NUMBER: _ClassVar[int]
    SCALED_DOWN_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFF_FIELD_NUMBER: _ClassVar[int]
    NO_ROOM_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    epoch: int
    draining: bool
    shutting_down: bool
    scaled_down: bool
    clock_off: bool
    no_room: bool
    def __init__(self, broker_id: _Optional[int] = ..., epoch: _Optional[int] = ..., draining: bool = ..., shutting_down: bool = ..., scaled_down: bool = ..., clock_off: bool = ..., no_room: bool = ...) -> None: ...

class RemoveBroker(_message.Message):
    __slots__ = ("broker_id",)
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    def __init__(self, broker_id: _Optional[int] = ...) -> None: ...

class PartitionRef(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    partition: int
    def __init__(self, topic_id: _Optional[int] = ..., partition: _Optional[int] = ...) -> None: ...

class InSyncMember(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class InSyncSet(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "partition_epoch", "in_sync")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    partition: int
    leader_epoch: int
    partition_epoch: int
    in_sync: _containers.RepeatedCompositeFieldContainer[InSyncMember]
    def __init__(self, topic_id: _Optional[int] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., in_sync: _Optional[_Iterable[_Union[InSyncMember, _Mapping]]] = ...) -> None: ...

class ChangeInSync(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "sets")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SETS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    sets: _containers.RepeatedCompositeFieldContainer[InSyncSet]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., sets: _Optional[_Iterable[_Union[InSyncSet, _Mapping]]] = ...) -> None: ...

class ReportFailed(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "partitions")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionRef]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionRef, _Mapping]]] = ...) -> None: ...

class ElectLeader(_message.Message):
    __slots__ = ("kind", "partitions")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PREFERRED: _ClassVar[ElectLeader.Kind]
        UNCLEAN: _ClassVar[ElectLeader.Kind]
    PREFERRED: ElectLeader.Kind
    UNCLEAN: ElectLeader.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    kind: ElectLeader.Kind
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionRef]
    def __init__(self, kind: _Optional[_Union[ElectLeader.Kind, str]] = ..., partitions: _Optional[_Iterable[_Union[PartitionRef, _Mapping]]] = ...) -> None: ...

class ReplicaEnd(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "epoch_at_end", "end", "unusable", "damaged")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    EPOCH_AT_END_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    UNUSABLE_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    epoch_at_end: int
    end: int
    unusable: bool
    damaged: bool
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., epoch_at_end: _Optional[int] = ..., end: _Optional[int] = ..., unusable: bool = ..., damaged: bool = ...) -> None: ...

class ElectLossy(_message.Message):
    __slots__ = ("topic_id", "partition", "ends")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    partition: int
    ends: _containers.RepeatedCompositeFieldContainer[ReplicaEnd]
    def __init__(self, topic_id: _Optional[int] = ..., partition: _Optional[int] = ..., ends: _Optional[_Iterable[_Union[ReplicaEnd, _Mapping]]] = ...) -> None: ...

class Placed(_message.Message):
    __slots__ = ("topic_id", "partition", "replicas")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[int] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class Reassign(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[Placed]
    def __init__(self, partitions: _Optional[_Iterable[_Union[Placed, _Mapping]]] = ...) -> None: ...

class FinishReassign(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionRef]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionRef, _Mapping]]] = ...) -> None: ...

class CancelReassign(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionRef]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionRef, _Mapping]]] = ...) -> None: ...

class FoundCluster(_message.Message):
    __slots__ = ("peer_key", "demands_secret")
    PEER_KEY_FIELD_NUMBER: _ClassVar[int]
    DEMANDS_SECRET_FIELD_NUMBER: _ClassVar[int]
    peer_key: bytes
    demands_secret: bool
    def __init__(self, peer_key: _Optional[bytes] = ..., demands_secret: bool = ...) -> None: ...

class RaiseLevel(_message.Message):
    __slots__ = ("level", "seen_index")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SEEN_INDEX_FIELD_NUMBER: _ClassVar[int]
    level: int
    seen_index: int
    def __init__(self, level: _Optional[int] = ..., seen_index: _Optional[int] = ...) -> None: ...

class CreateTopic(_message.Message):
    __slots__ = ("name", "partitions", "replication_factor", "settings", "assignments", "internal", "expose")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    EXPOSE_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: int
    replication_factor: int
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    assignments: _containers.RepeatedCompositeFieldContainer[Assignment]
    internal: bool
    expose: Exposure
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., assignments: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., internal: bool = ..., expose: _Optional[_Union[Exposure, _Mapping]] = ...) -> None: ...

class Exposure(_message.Message):
    __slots__ = ("stream", "name")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    stream: str
    name: str
    def __init__(self, stream: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class AlterTopic(_message.Message):
    __slots__ = ("topic_id", "partitions", "set", "unset", "assignments", "replication_factor")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    UNSET_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    partitions: int
    set: _containers.RepeatedCompositeFieldContainer[Setting]
    unset: _containers.RepeatedScalarFieldContainer[str]
    assignments: _containers.RepeatedCompositeFieldContainer[Assignment]
    replication_factor: int
    def __init__(self, topic_id: _Optional[int] = ..., partitions: _Optional[int] = ..., set: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., unset: _Optional[_Iterable[str]] = ..., assignments: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., replication_factor: _Optional[int] = ...) -> None: ...

class DeleteTopic(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    def __init__(self, topic_id: _Optional[int] = ...) -> None: ...

class InitProducer(_message.Message):
    __slots__ = ("name", "generation", "block", "block_ids")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    BLOCK_IDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    generation: int
    block: bool
    block_ids: int
    def __init__(self, name: _Optional[str] = ..., generation: _Optional[int] = ..., block: bool = ..., block_ids: _Optional[int] = ...) -> None: ...

class CommitPositions(_message.Message):
    __slots__ = ("group", "positions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    def __init__(self, group: _Optional[str] = ..., positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ...) -> None: ...

class DropPositions(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateStream(_message.Message):
    __slots__ = ("name", "number", "maker")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    MAKER_FIELD_NUMBER: _ClassVar[int]
    name: str
    number: int
    maker: Maker
    def __init__(self, name: _Optional[str] = ..., number: _Optional[int] = ..., maker: _Optional[_Union[Maker, _Mapping]] = ...) -> None: ...

class Maker(_message.Message):
    __slots__ = ("broker_epoch", "request")
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    broker_epoch: int
    request: int
    def __init__(self, broker_epoch: _Optional[int] = ..., request: _Optional[int] = ...) -> None: ...

class RenameStream(_message.Message):
    __slots__ = ("stream", "born", "name")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    stream: int
    born: int
    name: str
    def __init__(self, stream: _Optional[int] = ..., born: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class DeleteStream(_message.Message):
    __slots__ = ("stream", "born")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    stream: int
    born: int
    def __init__(self, stream: _Optional[int] = ..., born: _Optional[int] = ...) -> None: ...

class IggyValues(_message.Message):
    __slots__ = ("expiry_us", "max_bytes", "per_partition", "compression", "options")
    EXPIRY_US_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    PER_PARTITION_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    expiry_us: int
    max_bytes: int
    per_partition: bool
    compression: int
    options: _containers.RepeatedCompositeFieldContainer[IggyOption]
    def __init__(self, expiry_us: _Optional[int] = ..., max_bytes: _Optional[int] = ..., per_partition: bool = ..., compression: _Optional[int] = ..., options: _Optional[_Iterable[_Union[IggyOption, _Mapping]]] = ...) -> None: ...

class IggyOption(_message.Message):
    __slots__ = ("key", "kind", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    kind: int
    value: bytes
    def __init__(self, key: _Optional[str] = ..., kind: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...

class CreateIggyTopic(_message.Message):
    __slots__ = ("stream", "born", "name", "number", "partitions", "replication_factor", "settings", "values", "maker")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    MAKER_FIELD_NUMBER: _ClassVar[int]
    stream: int
    born: int
    name: str
    number: int
    partitions: int
    replication_factor: int
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    values: IggyValues
    maker: Maker
    def __init__(self, stream: _Optional[int] = ..., born: _Optional[int] = ..., name: _Optional[str] = ..., number: _Optional[int] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., values: _Optional[_Union[IggyValues, _Mapping]] = ..., maker: _Optional[_Union[Maker, _Mapping]] = ...) -> None: ...

class AlterIggyTopic(_message.Message):
    __slots__ = ("topic_id", "name", "expiry_us", "max_bytes", "per_partition", "compression", "options")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_US_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    PER_PARTITION_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    name: str
    expiry_us: int
    max_bytes: int
    per_partition: bool
    compression: int
    options: IggyOptions
    def __init__(self, topic_id: _Optional[int] = ..., name: _Optional[str] = ..., expiry_us: _Optional[int] = ..., max_bytes: _Optional[int] = ..., per_partition: bool = ..., compression: _Optional[int] = ..., options: _Optional[_Union[IggyOptions, _Mapping]] = ...) -> None: ...

class IggyOptions(_message.Message):
    __slots__ = ("options",)
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    options: _containers.RepeatedCompositeFieldContainer[IggyOption]
    def __init__(self, options: _Optional[_Iterable[_Union[IggyOption, _Mapping]]] = ...) -> None: ...

class PurgeTopic(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    def __init__(self, topic_id: _Optional[int] = ...) -> None: ...

class ShrinkTopic(_message.Message):
    __slots__ = ("topic_id", "partitions", "seen_partitions", "seen_epoch_floor")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SEEN_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SEEN_EPOCH_FLOOR_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    partitions: int
    seen_partitions: int
    seen_epoch_floor: int
    def __init__(self, topic_id: _Optional[int] = ..., partitions: _Optional[int] = ..., seen_partitions: _Optional[int] = ..., seen_epoch_floor: _Optional[int] = ...) -> None: ...

class CreateIggyGroup(_message.Message):
    __slots__ = ("topic_id", "name", "number", "maker")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    MAKER_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    name: str
    number: int
    maker: Maker
    def __init__(self, topic_id: _Optional[int] = ..., name: _Optional[str] = ..., number: _Optional[int] = ..., maker: _Optional[_Union[Maker, _Mapping]] = ...) -> None: ...

class DeleteIggyGroup(_message.Message):
    __slots__ = ("topic_id", "number", "born")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    number: int
    born: int
    def __init__(self, topic_id: _Optional[int] = ..., number: _Optional[int] = ..., born: _Optional[int] = ...) -> None: ...

class ExposeTopic(_message.Message):
    __slots__ = ("topic_id", "stream", "born", "name")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    stream: int
    born: int
    name: str
    def __init__(self, topic_id: _Optional[int] = ..., stream: _Optional[int] = ..., born: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class HideTopic(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    def __init__(self, topic_id: _Optional[int] = ...) -> None: ...

class UserRef(_message.Message):
    __slots__ = ("number", "born")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    number: int
    born: int
    def __init__(self, number: _Optional[int] = ..., born: _Optional[int] = ...) -> None: ...

class CreateUser(_message.Message):
    __slots__ = ("name", "password_hash", "inactive", "permissions", "root", "births")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_HASH_FIELD_NUMBER: _ClassVar[int]
    INACTIVE_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    BIRTHS_FIELD_NUMBER: _ClassVar[int]
    name: str
    password_hash: str
    inactive: bool
    permissions: bytes
    root: bool
    births: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., password_hash: _Optional[str] = ..., inactive: bool = ..., permissions: _Optional[bytes] = ..., root: bool = ..., births: _Optional[_Iterable[int]] = ...) -> None: ...

class DeleteUser(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: UserRef
    def __init__(self, user: _Optional[_Union[UserRef, _Mapping]] = ...) -> None: ...

class UpdateUser(_message.Message):
    __slots__ = ("user", "name", "inactive")
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INACTIVE_FIELD_NUMBER: _ClassVar[int]
    user: UserRef
    name: str
    inactive: bool
    def __init__(self, user: _Optional[_Union[UserRef, _Mapping]] = ..., name: _Optional[str] = ..., inactive: bool = ...) -> None: ...

class ChangePassword(_message.Message):
    __slots__ = ("user", "password_hash", "credentials_index")
    USER_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_HASH_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_INDEX_FIELD_NUMBER: _ClassVar[int]
    user: UserRef
    password_hash: str
    credentials_index: int
    def __init__(self, user: _Optional[_Union[UserRef, _Mapping]] = ..., password_hash: _Optional[str] = ..., credentials_index: _Optional[int] = ...) -> None: ...

class UpdatePermissions(_message.Message):
    __slots__ = ("user", "permissions", "births")
    USER_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    BIRTHS_FIELD_NUMBER: _ClassVar[int]
    user: UserRef
    permissions: bytes
    births: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, user: _Optional[_Union[UserRef, _Mapping]] = ..., permissions: _Optional[bytes] = ..., births: _Optional[_Iterable[int]] = ...) -> None: ...

class CreateToken(_message.Message):
    __slots__ = ("user", "name", "digest", "expires_us", "token_deleted_index")
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_US_FIELD_NUMBER: _ClassVar[int]
    TOKEN_DELETED_INDEX_FIELD_NUMBER: _ClassVar[int]
    user: UserRef
    name: str
    digest: bytes
    expires_us: int
    token_deleted_index: int
    def __init__(self, user: _Optional[_Union[UserRef, _Mapping]] = ..., name: _Optional[str] = ..., digest: _Optional[bytes] = ..., expires_us: _Optional[int] = ..., token_deleted_index: _Optional[int] = ...) -> None: ...

class DeleteToken(_message.Message):
    __slots__ = ("user", "name")
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    user: UserRef
    name: str
    def __init__(self, user: _Optional[_Union[UserRef, _Mapping]] = ..., name: _Optional[str] = ...) -> None: ...

class IggyStream(_message.Message):
    __slots__ = ("number", "name", "created_ms", "born", "going", "maker")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    GOING_FIELD_NUMBER: _ClassVar[int]
    MAKER_FIELD_NUMBER: _ClassVar[int]
    number: int
    name: str
    created_ms: int
    born: int
    going: bool
    maker: Maker
    def __init__(self, number: _Optional[int] = ..., name: _Optional[str] = ..., created_ms: _Optional[int] = ..., born: _Optional[int] = ..., going: bool = ..., maker: _Optional[_Union[Maker, _Mapping]] = ...) -> None: ...

class IggyPart(_message.Message):
    __slots__ = ("stream", "number", "name", "values", "created_ms", "born", "exposed", "purged", "maker")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    EXPOSED_FIELD_NUMBER: _ClassVar[int]
    PURGED_FIELD_NUMBER: _ClassVar[int]
    MAKER_FIELD_NUMBER: _ClassVar[int]
    stream: int
    number: int
    name: str
    values: IggyValues
    created_ms: int
    born: int
    exposed: bool
    purged: _containers.RepeatedScalarFieldContainer[int]
    maker: Maker
    def __init__(self, stream: _Optional[int] = ..., number: _Optional[int] = ..., name: _Optional[str] = ..., values: _Optional[_Union[IggyValues, _Mapping]] = ..., created_ms: _Optional[int] = ..., born: _Optional[int] = ..., exposed: bool = ..., purged: _Optional[_Iterable[int]] = ..., maker: _Optional[_Union[Maker, _Mapping]] = ...) -> None: ...

class IggyGroup(_message.Message):
    __slots__ = ("topic_id", "number", "name", "born", "maker")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    MAKER_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    number: int
    name: str
    born: int
    maker: Maker
    def __init__(self, topic_id: _Optional[int] = ..., number: _Optional[int] = ..., name: _Optional[str] = ..., born: _Optional[int] = ..., maker: _Optional[_Union[Maker, _Mapping]] = ...) -> None: ...

class IggyGroupRef(_message.Message):
    __slots__ = ("topic_id", "number")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    number: int
    def __init__(self, topic_id: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class User(_message.Message):
    __slots__ = ("number", "name", "created_ms", "born", "password_hash", "credentials_index", "inactive", "permissions", "births", "tokens", "token_deleted_index")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_HASH_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_INDEX_FIELD_NUMBER: _ClassVar[int]
    INACTIVE_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    BIRTHS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_DELETED_INDEX_FIELD_NUMBER: _ClassVar[int]
    number: int
    name: str
    created_ms: int
    born: int
    password_hash: str
    credentials_index: int
    inactive: bool
    permissions: bytes
    births: _containers.RepeatedScalarFieldContainer[int]
    tokens: _containers.RepeatedCompositeFieldContainer[UserToken]
    token_deleted_index: int
    def __init__(self, number: _Optional[int] = ..., name: _Optional[str] = ..., created_ms: _Optional[int] = ..., born: _Optional[int] = ..., password_hash: _Optional[str] = ..., credentials_index: _Optional[int] = ..., inactive: bool = ..., permissions: _Optional[bytes] = ..., births: _Optional[_Iterable[int]] = ..., tokens: _Optional[_Iterable[_Union[UserToken, _Mapping]]] = ..., token_deleted_index: _Optional[int] = ...) -> None: ...

class UserToken(_message.Message):
    __slots__ = ("name", "digest", "expires_us")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_US_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: bytes
    expires_us: int
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[bytes] = ..., expires_us: _Optional[int] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("name", "host", "port")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    name: str
    host: str
    port: int
    def __init__(self, name: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class Broker(_message.Message):
    __slots__ = ("broker_id", "incarnation", "epoch", "endpoints", "rack", "disk_uuid", "fenced_index", "draining", "shutting_down", "replicates", "flush_replicated", "scaled_down", "served_epoch", "clock_off", "no_room")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    DISK_UUID_FIELD_NUMBER: _ClassVar[int]
    FENCED_INDEX_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SHUTTING_DOWN_FIELD_NUMBER: _ClassVar[int]
    REPLICATES_FIELD_NUMBER: _ClassVar[int]
    FLUSH_REPLICATED_FIELD_NUMBER: _ClassVar[int]
    SCALED_DOWN_FIELD_NUMBER: _ClassVar[int]
    SERVED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFF_FIELD_NUMBER: _ClassVar[int]
    NO_ROOM_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    incarnation: bytes
    epoch: int
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    rack: str
    disk_uuid: bytes
    fenced_index: int
    draining: bool
    shutting_down: bool
    replicates: bool
    flush_replicated: bool
    scaled_down: bool
    served_epoch: int
    clock_off: bool
    no_room: bool
    def __init__(self, broker_id: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., epoch: _Optional[int] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., rack: _Optional[str] = ..., disk_uuid: _Optional[bytes] = ..., fenced_index: _Optional[int] = ..., draining: bool = ..., shutting_down: bool = ..., replicates: bool = ..., flush_replicated: bool = ..., scaled_down: bool = ..., served_epoch: _Optional[int] = ..., clock_off: bool = ..., no_room: bool = ...) -> None: ...

class Setting(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("partition", "replicas", "in_sync", "leader", "leader_epoch", "partition_epoch", "eligible", "impaired", "adding", "removing", "lossy_elections", "lossy_epoch", "first_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_FIELD_NUMBER: _ClassVar[int]
    IMPAIRED_FIELD_NUMBER: _ClassVar[int]
    ADDING_FIELD_NUMBER: _ClassVar[int]
    REMOVING_FIELD_NUMBER: _ClassVar[int]
    LOSSY_ELECTIONS_FIELD_NUMBER: _ClassVar[int]
    LOSSY_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    in_sync: _containers.RepeatedScalarFieldContainer[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    eligible: _containers.RepeatedScalarFieldContainer[int]
    impaired: _containers.RepeatedScalarFieldContainer[int]
    adding: _containers.RepeatedScalarFieldContainer[int]
    removing: _containers.RepeatedScalarFieldContainer[int]
    lossy_elections: int
    lossy_epoch: int
    first_epoch: int
    def __init__(self, partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., in_sync: _Optional[_Iterable[int]] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., eligible: _Optional[_Iterable[int]] = ..., impaired: _Optional[_Iterable[int]] = ..., adding: _Optional[_Iterable[int]] = ..., removing: _Optional[_Iterable[int]] = ..., lossy_elections: _Optional[int] = ..., lossy_epoch: _Optional[int] = ..., first_epoch: _Optional[int] = ...) -> None: ...

class ChangedPartitions(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    def __init__(self, topic_id: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("topic_id", "name", "replication_factor", "settings", "partitions", "was_replicated", "iggy", "epoch_floor")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    WAS_REPLICATED_FIELD_NUMBER: _ClassVar[int]
    IGGY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FLOOR_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    name: str
    replication_factor: int
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    was_replicated: bool
    iggy: IggyPart
    epoch_floor: int
    def __init__(self, topic_id: _Optional[int] = ..., name: _Optional[str] = ..., replication_factor: _Optional[int] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., was_replicated: bool = ..., iggy: _Optional[_Union[IggyPart, _Mapping]] = ..., epoch_floor: _Optional[int] = ...) -> None: ...

class Producer(_message.Message):
    __slots__ = ("name", "generation", "producer_id", "ended", "used_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    USED_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    generation: int
    producer_id: int
    ended: _containers.RepeatedScalarFieldContainer[int]
    used_ms: int
    def __init__(self, name: _Optional[str] = ..., generation: _Optional[int] = ..., producer_id: _Optional[int] = ..., ended: _Optional[_Iterable[int]] = ..., used_ms: _Optional[int] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("topic_id", "partition", "sequence_number", "metadata", "committed_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    partition: int
    sequence_number: int
    metadata: bytes
    committed_ms: int
    def __init__(self, topic_id: _Optional[int] = ..., partition: _Optional[int] = ..., sequence_number: _Optional[int] = ..., metadata: _Optional[bytes] = ..., committed_ms: _Optional[int] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("name", "positions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    def __init__(self, name: _Optional[str] = ..., positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("format", "index", "brokers", "topics", "producers", "groups", "replicates", "peer_key", "lossy_elections", "feature_level", "demands_secret", "streams", "iggy_groups", "users")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    REPLICATES_FIELD_NUMBER: _ClassVar[int]
    PEER_KEY_FIELD_NUMBER: _ClassVar[int]
    LOSSY_ELECTIONS_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    DEMANDS_SECRET_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    IGGY_GROUPS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    format: int
    index: int
    brokers: _containers.RepeatedCompositeFieldContainer[Broker]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    producers: _containers.RepeatedCompositeFieldContainer[Producer]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    replicates: bool
    peer_key: bytes
    lossy_elections: int
    feature_level: int
    demands_secret: bool
    streams: _containers.RepeatedCompositeFieldContainer[IggyStream]
    iggy_groups: _containers.RepeatedCompositeFieldContainer[IggyGroup]
    users: _containers.RepeatedCompositeFieldContainer[User]
    def __init__(self, format: _Optional[int] = ..., index: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[Broker, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., producers: _Optional[_Iterable[_Union[Producer, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ..., replicates: bool = ..., peer_key: _Optional[bytes] = ..., lossy_elections: _Optional[int] = ..., feature_level: _Optional[int] = ..., demands_secret: bool = ..., streams: _Optional[_Iterable[_Union[IggyStream, _Mapping]]] = ..., iggy_groups: _Optional[_Iterable[_Union[IggyGroup, _Mapping]]] = ..., users: _Optional[_Iterable[_Union[User, _Mapping]]] = ...) -> None: ...

class Delta(_message.Message):
    __slots__ = ("index", "brokers", "topics", "deleted_topics", "ended_producers", "forgotten_producers", "removed_brokers", "changed", "feature_level", "streams", "deleted_streams", "iggy_groups", "deleted_iggy_groups", "users", "removed_users")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    DELETED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    ENDED_PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_BROKERS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    DELETED_STREAMS_FIELD_NUMBER: _ClassVar[int]
    IGGY_GROUPS_FIELD_NUMBER: _ClassVar[int]
    DELETED_IGGY_GROUPS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_USERS_FIELD_NUMBER: _ClassVar[int]
    index: int
    brokers: _containers.RepeatedCompositeFieldContainer[Broker]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    deleted_topics: _containers.RepeatedScalarFieldContainer[int]
    ended_producers: _containers.RepeatedScalarFieldContainer[int]
    forgotten_producers: _containers.RepeatedScalarFieldContainer[int]
    removed_brokers: _containers.RepeatedScalarFieldContainer[int]
    changed: _containers.RepeatedCompositeFieldContainer[ChangedPartitions]
    feature_level: int
    streams: _containers.RepeatedCompositeFieldContainer[IggyStream]
    deleted_streams: _containers.RepeatedScalarFieldContainer[int]
    iggy_groups: _containers.RepeatedCompositeFieldContainer[IggyGroup]
    deleted_iggy_groups: _containers.RepeatedCompositeFieldContainer[IggyGroupRef]
    users: _containers.RepeatedCompositeFieldContainer[User]
    removed_users: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, index: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[Broker, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., deleted_topics: _Optional[_Iterable[int]] = ..., ended_producers: _Optional[_Iterable[int]] = ..., forgotten_producers: _Optional[_Iterable[int]] = ..., removed_brokers: _Optional[_Iterable[int]] = ..., changed: _Optional[_Iterable[_Union[ChangedPartitions, _Mapping]]] = ..., feature_level: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[IggyStream, _Mapping]]] = ..., deleted_streams: _Optional[_Iterable[int]] = ..., iggy_groups: _Optional[_Iterable[_Union[IggyGroup, _Mapping]]] = ..., deleted_iggy_groups: _Optional[_Iterable[_Union[IggyGroupRef, _Mapping]]] = ..., users: _Optional[_Iterable[_Union[User, _Mapping]]] = ..., removed_users: _Optional[_Iterable[int]] = ...) -> None: ...

class RaftNode(_message.Message):
    __slots__ = ("ordinal", "disk")
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    ordinal: int
    disk: bytes
    def __init__(self, ordinal: _Optional[int] = ..., disk: _Optional[bytes] = ...) -> None: ...

class RaftEntry(_message.Message):
    __slots__ = ("index", "term", "kind", "data")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    kind: int
    data: bytes
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., kind: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class RaftVoteRequest(_message.Message):
    __slots__ = ("last_index", "last_term", "pre", "force")
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    PRE_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    last_index: int
    last_term: int
    pre: bool
    force: bool
    def __init__(self, last_index: _Optional[int] = ..., last_term: _Optional[int] = ..., pre: bool = ..., force: bool = ...) -> None: ...

class RaftVoteAnswer(_message.Message):
    __slots__ = ("granted", "pre")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    PRE_FIELD_NUMBER: _ClassVar[int]
    granted: bool
    pre: bool
    def __init__(self, granted: bool = ..., pre: bool = ...) -> None: ...

class RaftAppend(_message.Message):
    __slots__ = ("prev_index", "prev_term", "entries", "commit")
    PREV_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREV_TERM_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    prev_index: int
    prev_term: int
    entries: _containers.RepeatedCompositeFieldContainer[RaftEntry]
    commit: int
    def __init__(self, prev_index: _Optional[int] = ..., prev_term: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[RaftEntry, _Mapping]]] = ..., commit: _Optional[int] = ...) -> None: ...

class RaftAppendAnswer(_message.Message):
    __slots__ = ("index", "rejected", "hint_index", "hint_term", "start")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    HINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    HINT_TERM_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    index: int
    rejected: bool
    hint_index: int
    hint_term: int
    start: int
    def __init__(self, index: _Optional[int] = ..., rejected: bool = ..., hint_index: _Optional[int] = ..., hint_term: _Optional[int] = ..., start: _Optional[int] = ...) -> None: ...

class RaftHeartbeat(_message.Message):
    __slots__ = ("commit", "round", "start")
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    commit: int
    round: int
    start: int
    def __init__(self, commit: _Optional[int] = ..., round: _Optional[int] = ..., start: _Optional[int] = ...) -> None: ...

class RaftHeartbeatAnswer(_message.Message):
    __slots__ = ("round", "max_level", "start")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    round: int
    max_level: int
    start: int
    def __init__(self, round: _Optional[int] = ..., max_level: _Optional[int] = ..., start: _Optional[int] = ...) -> None: ...

class RaftSnapshotChunk(_message.Message):
    __slots__ = ("index", "term", "configuration", "size", "checksum", "offset", "data")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    configuration: bytes
    size: int
    checksum: int
    offset: int
    data: bytes
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., configuration: _Optional[bytes] = ..., size: _Optional[int] = ..., checksum: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class RaftSnapshotAnswer(_message.Message):
    __slots__ = ("index", "term", "received")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    received: int
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., received: _Optional[int] = ...) -> None: ...

class RaftTimeoutNow(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RaftReadRequest(_message.Message):
    __slots__ = ("read_id",)
    READ_ID_FIELD_NUMBER: _ClassVar[int]
    read_id: int
    def __init__(self, read_id: _Optional[int] = ...) -> None: ...

class RaftReadAnswer(_message.Message):
    __slots__ = ("read_id", "index")
    READ_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    read_id: int
    index: int
    def __init__(self, read_id: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class RaftEndRequest(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    def __init__(self, nonce: _Optional[int] = ...) -> None: ...

class RaftEndAnswer(_message.Message):
    __slots__ = ("nonce", "last_index", "last_term")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    last_index: int
    last_term: int
    def __init__(self, nonce: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ...) -> None: ...

class RaftMessage(_message.Message):
    __slots__ = ("cluster_id", "sender", "target", "term", "vote_request", "vote_answer", "append", "append_answer", "heartbeat", "heartbeat_answer", "snapshot_chunk", "snapshot_answer", "timeout_now", "read_request", "read_answer", "end_request", "end_answer")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    VOTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    VOTE_ANSWER_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    APPEND_ANSWER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ANSWER_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ANSWER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NOW_FIELD_NUMBER: _ClassVar[int]
    READ_REQUEST_FIELD_NUMBER: _ClassVar[int]
    READ_ANSWER_FIELD_NUMBER: _ClassVar[int]
    END_REQUEST_FIELD_NUMBER: _ClassVar[int]
    END_ANSWER_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    sender: RaftNode
    target: RaftNode
    term: int
    vote_request: RaftVoteRequest
    vote_answer: RaftVoteAnswer
    append: RaftAppend
    append_answer: RaftAppendAnswer
    heartbeat: RaftHeartbeat
    heartbeat_answer: RaftHeartbeatAnswer
    snapshot_chunk: RaftSnapshotChunk
    snapshot_answer: RaftSnapshotAnswer
    timeout_now: RaftTimeoutNow
    read_request: RaftReadRequest
    read_answer: RaftReadAnswer
    end_request: RaftEndRequest
    end_answer: RaftEndAnswer
    def __init__(self, cluster_id: _Optional[str] = ..., sender: _Optional[_Union[RaftNode, _Mapping]] = ..., target: _Optional[_Union[RaftNode, _Mapping]] = ..., term: _Optional[int] = ..., vote_request: _Optional[_Union[RaftVoteRequest, _Mapping]] = ..., vote_answer: _Optional[_Union[RaftVoteAnswer, _Mapping]] = ..., append: _Optional[_Union[RaftAppend, _Mapping]] = ..., append_answer: _Optional[_Union[RaftAppendAnswer, _Mapping]] = ..., heartbeat: _Optional[_Union[RaftHeartbeat, _Mapping]] = ..., heartbeat_answer: _Optional[_Union[RaftHeartbeatAnswer, _Mapping]] = ..., snapshot_chunk: _Optional[_Union[RaftSnapshotChunk, _Mapping]] = ..., snapshot_answer: _Optional[_Union[RaftSnapshotAnswer, _Mapping]] = ..., timeout_now: _Optional[_Union[RaftTimeoutNow, _Mapping]] = ..., read_request: _Optional[_Union[RaftReadRequest, _Mapping]] = ..., read_answer: _Optional[_Union[RaftReadAnswer, _Mapping]] = ..., end_request: _Optional[_Union[RaftEndRequest, _Mapping]] = ..., end_answer: _Optional[_Union[RaftEndAnswer, _Mapping]] = ...) -> None: ...

class MessagesEnd(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IdentifyRequest(_message.Message):
    __slots__ = ("asker", "nonce")
    ASKER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    asker: RaftNode
    nonce: int
    def __init__(self, asker: _Optional[_Union[RaftNode, _Mapping]] = ..., nonce: _Optional[int] = ...) -> None: ...

class IdentifyAnswer(_message.Message):
    __slots__ = ("answerer", "nonce", "cluster_id", "asker_is_member", "configuration_index", "leader", "founding")
    ANSWERER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    ASKER_IS_MEMBER_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_INDEX_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    FOUNDING_FIELD_NUMBER: _ClassVar[int]
    answerer: RaftNode
    nonce: int
    cluster_id: str
    asker_is_member: bool
    configuration_index: int
    leader: str
    founding: bytes
    def __init__(self, answerer: _Optional[_Union[RaftNode, _Mapping]] = ..., nonce: _Optional[int] = ..., cluster_id: _Optional[str] = ..., asker_is_member: bool = ..., configuration_index: _Optional[int] = ..., leader: _Optional[str] = ..., founding: _Optional[bytes] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("node", "cluster_id", "min_level", "max_level")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
    node: RaftNode
    cluster_id: str
    min_level: int
    max_level: int
    def __init__(self, node: _Optional[_Union[RaftNode, _Mapping]] = ..., cluster_id: _Optional[str] = ..., min_level: _Optional[int] = ..., max_level: _Optional[int] = ...) -> None: ...

class JoinAnswer(_message.Message):
    __slots__ = ("kind", "message", "not_leader")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WAIT: _ClassVar[JoinAnswer.Kind]
        ADDED: _ClassVar[JoinAnswer.Kind]
        REFUSED: _ClassVar[JoinAnswer.Kind]
    WAIT: JoinAnswer.Kind
    ADDED: JoinAnswer.Kind
    REFUSED: JoinAnswer.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    kind: JoinAnswer.Kind
    message: str
    not_leader: NotLeader
    def __init__(self, kind: _Optional[_Union[JoinAnswer.Kind, str]] = ..., message: _Optional[str] = ..., not_leader: _Optional[_Union[NotLeader, _Mapping]] = ...) -> None: ...

class NotLeader(_message.Message):
    __slots__ = ("leader",)
    LEADER_FIELD_NUMBER: _ClassVar[int]
    leader: str
    def __init__(self, leader: _Optional[str] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("broker_id", "pod_name", "pod_uid")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    POD_NAME_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    pod_name: str
    pod_uid: str
    def __init__(self, broker_id: _Optional[int] = ..., pod_name: _Optional[str] = ..., pod_uid: _Optional[str] = ...) -> None: ...

class LeaveAnswer(_message.Message):
    __slots__ = ("not_leader", "may_stop", "reason", "replicas")
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    MAY_STOP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    not_leader: NotLeader
    may_stop: bool
    reason: str
    replicas: int
    def __init__(self, not_leader: _Optional[_Union[NotLeader, _Mapping]] = ..., may_stop: bool = ..., reason: _Optional[str] = ..., replicas: _Optional[int] = ...) -> None: ...

class BrokerUp(_message.Message):
    __slots__ = ("register", "heartbeat", "proposal", "query", "log_ends")
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    LOG_ENDS_FIELD_NUMBER: _ClassVar[int]
    register: BrokerRegister
    heartbeat: BrokerHeartbeat
    proposal: BrokerProposal
    query: BrokerQuery
    log_ends: LogEnds
    def __init__(self, register: _Optional[_Union[BrokerRegister, _Mapping]] = ..., heartbeat: _Optional[_Union[BrokerHeartbeat, _Mapping]] = ..., proposal: _Optional[_Union[BrokerProposal, _Mapping]] = ..., query: _Optional[_Union[BrokerQuery, _Mapping]] = ..., log_ends: _Optional[_Union[LogEnds, _Mapping]] = ...) -> None: ...

class BrokerRegister(_message.Message):
    __slots__ = ("broker", "cluster_id", "view_index")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    VIEW_INDEX_FIELD_NUMBER: _ClassVar[int]
    broker: RegisterBroker
    cluster_id: str
    view_index: int
    def __init__(self, broker: _Optional[_Union[RegisterBroker, _Mapping]] = ..., cluster_id: _Optional[str] = ..., view_index: _Optional[int] = ...) -> None: ...

class BrokerHeartbeat(_message.Message):
    __slots__ = ("seen_index", "wall_ms", "answers_ms", "held_ms", "room", "names_held")
    SEEN_INDEX_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_MS_FIELD_NUMBER: _ClassVar[int]
    HELD_MS_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    NAMES_HELD_FIELD_NUMBER: _ClassVar[int]
    seen_index: int
    wall_ms: int
    answers_ms: int
    held_ms: int
    room: VolumeRoom
    names_held: NamesHeld
    def __init__(self, seen_index: _Optional[int] = ..., wall_ms: _Optional[int] = ..., answers_ms: _Optional[int] = ..., held_ms: _Optional[int] = ..., room: _Optional[_Union[VolumeRoom, str]] = ..., names_held: _Optional[_Union[NamesHeld, _Mapping]] = ...) -> None: ...

class NamesHeld(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ...) -> None: ...

class BrokerProposal(_message.Message):
    __slots__ = ("request_id", "command", "validate_only", "seen_index")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    SEEN_INDEX_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    command: Command
    validate_only: bool
    seen_index: int
    def __init__(self, request_id: _Optional[int] = ..., command: _Optional[_Union[Command, _Mapping]] = ..., validate_only: bool = ..., seen_index: _Optional[int] = ...) -> None: ...

class BrokerQuery(_message.Message):
    __slots__ = ("request_id", "positions", "groups", "view")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    positions: PositionsQuery
    groups: GroupsQuery
    view: ViewQuery
    def __init__(self, request_id: _Optional[int] = ..., positions: _Optional[_Union[PositionsQuery, _Mapping]] = ..., groups: _Optional[_Union[GroupsQuery, _Mapping]] = ..., view: _Optional[_Union[ViewQuery, _Mapping]] = ...) -> None: ...

class ViewQuery(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PositionsQuery(_message.Message):
    __slots__ = ("group", "topic_ids", "to_move")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    TO_MOVE_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic_ids: _containers.RepeatedScalarFieldContainer[int]
    to_move: bool
    def __init__(self, group: _Optional[str] = ..., topic_ids: _Optional[_Iterable[int]] = ..., to_move: bool = ...) -> None: ...

class GroupsQuery(_message.Message):
    __slots__ = ("to_move",)
    TO_MOVE_FIELD_NUMBER: _ClassVar[int]
    to_move: bool
    def __init__(self, to_move: bool = ...) -> None: ...

class LogEnd(_message.Message):
    __slots__ = ("topic_id", "partition", "epoch_at_end", "end", "damaged")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_AT_END_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    partition: int
    epoch_at_end: int
    end: int
    damaged: bool
    def __init__(self, topic_id: _Optional[int] = ..., partition: _Optional[int] = ..., epoch_at_end: _Optional[int] = ..., end: _Optional[int] = ..., damaged: bool = ...) -> None: ...

class LogEnds(_message.Message):
    __slots__ = ("ends", "question")
    ENDS_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ends: _containers.RepeatedCompositeFieldContainer[LogEnd]
    question: int
    def __init__(self, ends: _Optional[_Iterable[_Union[LogEnd, _Mapping]]] = ..., question: _Optional[int] = ...) -> None: ...

class BrokerDown(_message.Message):
    __slots__ = ("registered", "view", "outcome", "answer", "ask_ends", "may_stop", "not_leader", "refused")
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ASK_ENDS_FIELD_NUMBER: _ClassVar[int]
    MAY_STOP_FIELD_NUMBER: _ClassVar[int]
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    registered: Registered
    view: ViewUpdate
    outcome: ProposalOutcome
    answer: QueryAnswer
    ask_ends: AskEnds
    may_stop: MayStop
    not_leader: NotLeader
    refused: RegisterRefused
    def __init__(self, registered: _Optional[_Union[Registered, _Mapping]] = ..., view: _Optional[_Union[ViewUpdate, _Mapping]] = ..., outcome: _Optional[_Union[ProposalOutcome, _Mapping]] = ..., answer: _Optional[_Union[QueryAnswer, _Mapping]] = ..., ask_ends: _Optional[_Union[AskEnds, _Mapping]] = ..., may_stop: _Optional[_Union[MayStop, _Mapping]] = ..., not_leader: _Optional[_Union[NotLeader, _Mapping]] = ..., refused: _Optional[_Union[RegisterRefused, _Mapping]] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("broker_epoch", "index", "cluster_id", "session_timeout_ms", "peer_key", "demands_secret")
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PEER_KEY_FIELD_NUMBER: _ClassVar[int]
    DEMANDS_SECRET_FIELD_NUMBER: _ClassVar[int]
    broker_epoch: int
    index: int
    cluster_id: str
    session_timeout_ms: int
    peer_key: bytes
    demands_secret: bool
    def __init__(self, broker_epoch: _Optional[int] = ..., index: _Optional[int] = ..., cluster_id: _Optional[str] = ..., session_timeout_ms: _Optional[int] = ..., peer_key: _Optional[bytes] = ..., demands_secret: bool = ...) -> None: ...

class RegisterRefused(_message.Message):
    __slots__ = ("error", "message", "passing")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PASSING_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    passing: bool
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., passing: bool = ...) -> None: ...

class ViewUpdate(_message.Message):
    __slots__ = ("delta", "more", "whole", "said_ms")
    DELTA_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    SAID_MS_FIELD_NUMBER: _ClassVar[int]
    delta: Delta
    more: bool
    whole: bool
    said_ms: int
    def __init__(self, delta: _Optional[_Union[Delta, _Mapping]] = ..., more: bool = ..., whole: bool = ..., said_ms: _Optional[int] = ...) -> None: ...

class ProposalOutcome(_message.Message):
    __slots__ = ("request_id", "error", "message", "topic_id", "producer_id", "results", "index", "producer_ids", "number")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    error: int
    message: str
    topic_id: int
    producer_id: int
    results: _containers.RepeatedScalarFieldContainer[int]
    index: int
    producer_ids: int
    number: int
    def __init__(self, request_id: _Optional[int] = ..., error: _Optional[int] = ..., message: _Optional[str] = ..., topic_id: _Optional[int] = ..., producer_id: _Optional[int] = ..., results: _Optional[_Iterable[int]] = ..., index: _Optional[int] = ..., producer_ids: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class QueryAnswer(_message.Message):
    __slots__ = ("request_id", "error", "message", "positions", "groups", "more", "index")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    error: int
    message: str
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    groups: _containers.RepeatedScalarFieldContainer[str]
    more: bool
    index: int
    def __init__(self, request_id: _Optional[int] = ..., error: _Optional[int] = ..., message: _Optional[str] = ..., positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ..., groups: _Optional[_Iterable[str]] = ..., more: bool = ..., index: _Optional[int] = ...) -> None: ...

class AskEnds(_message.Message):
    __slots__ = ("partitions", "question")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[LogEnd]
    question: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[LogEnd, _Mapping]]] = ..., question: _Optional[int] = ...) -> None: ...

class MayStop(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TrustParty(_message.Message):
    __slots__ = ("role", "number", "disk")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    role: int
    number: int
    disk: bytes
    def __init__(self, role: _Optional[int] = ..., number: _Optional[int] = ..., disk: _Optional[bytes] = ...) -> None: ...

class ChallengeRequest(_message.Message):
    __slots__ = ("caller", "method", "nonce")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    caller: TrustParty
    method: str
    nonce: bytes
    def __init__(self, caller: _Optional[_Union[TrustParty, _Mapping]] = ..., method: _Optional[str] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class ChallengeAnswer(_message.Message):
    __slots__ = ("answerer", "nonce", "proof")
    ANSWERER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    answerer: TrustParty
    nonce: bytes
    proof: bytes
    def __init__(self, answerer: _Optional[_Union[TrustParty, _Mapping]] = ..., nonce: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class CallProof(_message.Message):
    __slots__ = ("caller", "answerer", "asked", "answered", "proof")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    ANSWERER_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    caller: TrustParty
    answerer: TrustParty
    asked: bytes
    answered: bytes
    proof: bytes
    def __init__(self, caller: _Optional[_Union[TrustParty, _Mapping]] = ..., answerer: _Optional[_Union[TrustParty, _Mapping]] = ..., asked: _Optional[bytes] = ..., answered: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class DescribeControllersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ControllerMember(_message.Message):
    __slots__ = ("node", "votes", "address")
    NODE_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node: RaftNode
    votes: bool
    address: str
    def __init__(self, node: _Optional[_Union[RaftNode, _Mapping]] = ..., votes: bool = ..., address: _Optional[str] = ...) -> None: ...

class ControllersDescription(_message.Message):
    __slots__ = ("node", "cluster_id", "term", "leader", "leads", "commit_index", "applied_index", "members", "problem", "free_bytes", "disk_bytes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    node: RaftNode
    cluster_id: str
    term: int
    leader: str
    leads: bool
    commit_index: int
    applied_index: int
    members: _containers.RepeatedCompositeFieldContainer[ControllerMember]
    problem: str
    free_bytes: int
    disk_bytes: int
    def __init__(self, node: _Optional[_Union[RaftNode, _Mapping]] = ..., cluster_id: _Optional[str] = ..., term: _Optional[int] = ..., leader: _Optional[str] = ..., leads: bool = ..., commit_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., members: _Optional[_Iterable[_Union[ControllerMember, _Mapping]]] = ..., problem: _Optional[str] = ..., free_bytes: _Optional[int] = ..., disk_bytes: _Optional[int] = ...) -> None: ...

class StateRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StateAnswer(_message.Message):
    __slots__ = ("view", "not_leader")
    VIEW_FIELD_NUMBER: _ClassVar[int]
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    view: ViewUpdate
    not_leader: NotLeader
    def __init__(self, view: _Optional[_Union[ViewUpdate, _Mapping]] = ..., not_leader: _Optional[_Union[NotLeader, _Mapping]] = ...) -> None: ...

class ChangeAnswer(_message.Message):
    __slots__ = ("outcome", "not_leader")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    outcome: ProposalOutcome
    not_leader: NotLeader
    def __init__(self, outcome: _Optional[_Union[ProposalOutcome, _Mapping]] = ..., not_leader: _Optional[_Union[NotLeader, _Mapping]] = ...) -> None: ...

class TransferLeadershipRequest(_message.Message):
    __slots__ = ("ordinal",)
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    ordinal: int
    def __init__(self, ordinal: _Optional[int] = ...) -> None: ...

class RemoveControllerRequest(_message.Message):
    __slots__ = ("ordinal", "disk", "only_silent")
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    ONLY_SILENT_FIELD_NUMBER: _ClassVar[int]
    ordinal: int
    disk: bytes
    only_silent: bool
    def __init__(self, ordinal: _Optional[int] = ..., disk: _Optional[bytes] = ..., only_silent: bool = ...) -> None: ...

class OverviewRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BrokerLoad(_message.Message):
    __slots__ = ("broker", "connected", "replicas", "leads", "arriving", "clock_ahead_ms")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    ARRIVING_FIELD_NUMBER: _ClassVar[int]
    CLOCK_AHEAD_MS_FIELD_NUMBER: _ClassVar[int]
    broker: Broker
    connected: bool
    replicas: int
    leads: int
    arriving: int
    clock_ahead_ms: int
    def __init__(self, broker: _Optional[_Union[Broker, _Mapping]] = ..., connected: bool = ..., replicas: _Optional[int] = ..., leads: _Optional[int] = ..., arriving: _Optional[int] = ..., clock_ahead_ms: _Optional[int] = ...) -> None: ...

class ScaleDownRefused(_message.Message):
    __slots__ = ("broker_id", "why")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    why: str
    def __init__(self, broker_id: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class OverviewAnswer(_message.Message):
    __slots__ = ("not_leader", "index", "topics", "partitions", "under_replicated", "below_min_insync", "leaderless", "moving", "displaced", "lossy_elections", "brokers", "widest", "balanced", "feature_level", "brokers_behind", "controllers_behind", "secret", "brokers_unproven", "controllers_unproven", "scale_down_refused", "clocks_disagree", "controller_clock_ahead_ms", "clock_skew_max_ms", "topics_in_the_way", "groups_in_the_way")
    class SecretStanding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSAID: _ClassVar[OverviewAnswer.SecretStanding]
        NO_SECRET: _ClassVar[OverviewAnswer.SecretStanding]
        OFFERED: _ClassVar[OverviewAnswer.SecretStanding]
        DEMANDED: _ClassVar[OverviewAnswer.SecretStanding]
    UNSAID: OverviewAnswer.SecretStanding
    NO_SECRET: OverviewAnswer.SecretStanding
    OFFERED: OverviewAnswer.SecretStanding
    DEMANDED: OverviewAnswer.SecretStanding
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    UNDER_REPLICATED_FIELD_NUMBER: _ClassVar[int]
    BELOW_MIN_INSYNC_FIELD_NUMBER: _ClassVar[int]
    LEADERLESS_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    DISPLACED_FIELD_NUMBER: _ClassVar[int]
    LOSSY_ELECTIONS_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    WIDEST_FIELD_NUMBER: _ClassVar[int]
    BALANCED_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    BROKERS_BEHIND_FIELD_NUMBER: _ClassVar[int]
    CONTROLLERS_BEHIND_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    BROKERS_UNPROVEN_FIELD_NUMBER: _ClassVar[int]
    CONTROLLERS_UNPROVEN_FIELD_NUMBER: _ClassVar[int]
    SCALE_DOWN_REFUSED_FIELD_NUMBER: _ClassVar[int]
    CLOCKS_DISAGREE_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_CLOCK_AHEAD_MS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_SKEW_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_IN_THE_WAY_FIELD_NUMBER: _ClassVar[int]
    GROUPS_IN_THE_WAY_FIELD_NUMBER: _ClassVar[int]
    not_leader: NotLeader
    index: int
    topics: int
    partitions: int
    under_replicated: int
    below_min_insync: int
    leaderless: int
    moving: int
    displaced: int
    lossy_elections: int
    brokers: _containers.RepeatedCompositeFieldContainer[BrokerLoad]
    widest: int
    balanced: bool
    feature_level: int
    brokers_behind: _containers.RepeatedScalarFieldContainer[int]
    controllers_behind: _containers.RepeatedScalarFieldContainer[int]
    secret: OverviewAnswer.SecretStanding
    brokers_unproven: _containers.RepeatedScalarFieldContainer[int]
    controllers_unproven: _containers.RepeatedScalarFieldContainer[int]
    scale_down_refused: _containers.RepeatedCompositeFieldContainer[ScaleDownRefused]
    clocks_disagree: bool
    controller_clock_ahead_ms: int
    clock_skew_max_ms: int
    topics_in_the_way: _containers.RepeatedScalarFieldContainer[str]
    groups_in_the_way: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, not_leader: _Optional[_Union[NotLeader, _Mapping]] = ..., index: _Optional[int] = ..., topics: _Optional[int] = ..., partitions: _Optional[int] = ..., under_replicated: _Optional[int] = ..., below_min_insync: _Optional[int] = ..., leaderless: _Optional[int] = ..., moving: _Optional[int] = ..., displaced: _Optional[int] = ..., lossy_elections: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[BrokerLoad, _Mapping]]] = ..., widest: _Optional[int] = ..., balanced: bool = ..., feature_level: _Optional[int] = ..., brokers_behind: _Optional[_Iterable[int]] = ..., controllers_behind: _Optional[_Iterable[int]] = ..., secret: _Optional[_Union[OverviewAnswer.SecretStanding, str]] = ..., brokers_unproven: _Optional[_Iterable[int]] = ..., controllers_unproven: _Optional[_Iterable[int]] = ..., scale_down_refused: _Optional[_Iterable[_Union[ScaleDownRefused, _Mapping]]] = ..., clocks_disagree: bool = ..., controller_clock_ahead_ms: _Optional[int] = ..., clock_skew_max_ms: _Optional[int] = ..., topics_in_the_way: _Optional[_Iterable[str]] = ..., groups_in_the_way: _Optional[_Iterable[str]] = ...) -> None: ...

class PartitionsRequest(_message.Message):
    __slots__ = ("topics", "only", "limit", "after_topic", "after_partition")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    AFTER_PARTITION_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    only: PartitionTrouble
    limit: int
    after_topic: str
    after_partition: int
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., only: _Optional[_Union[PartitionTrouble, str]] = ..., limit: _Optional[int] = ..., after_topic: _Optional[str] = ..., after_partition: _Optional[int] = ...) -> None: ...

class TopicSummary(_message.Message):
    __slots__ = ("topic", "min_insync")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MIN_INSYNC_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    min_insync: int
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ..., min_insync: _Optional[int] = ...) -> None: ...

class PartitionReport(_message.Message):
    __slots__ = ("topic_id", "partition", "troubles", "unreadable")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    partition: Partition
    troubles: _containers.RepeatedScalarFieldContainer[PartitionTrouble]
    unreadable: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[int] = ..., partition: _Optional[_Union[Partition, _Mapping]] = ..., troubles: _Optional[_Iterable[_Union[PartitionTrouble, str]]] = ..., unreadable: _Optional[_Iterable[int]] = ...) -> None: ...

class PartitionsAnswer(_message.Message):
    __slots__ = ("not_leader", "topics", "partitions", "unknown_topics")
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_TOPICS_FIELD_NUMBER: _ClassVar[int]
    not_leader: NotLeader
    topics: _containers.RepeatedCompositeFieldContainer[TopicSummary]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionReport]
    unknown_topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, not_leader: _Optional[_Union[NotLeader, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicSummary, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[PartitionReport, _Mapping]]] = ..., unknown_topics: _Optional[_Iterable[str]] = ...) -> None: ...

class BalanceRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IggyNamesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IggyTopicSummary(_message.Message):
    __slots__ = ("topic", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    partitions: int
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ..., partitions: _Optional[int] = ...) -> None: ...

class IggyNamesAnswer(_message.Message):
    __slots__ = ("not_leader", "streams", "topics", "groups")
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    not_leader: NotLeader
    streams: _containers.RepeatedCompositeFieldContainer[IggyStream]
    topics: _containers.RepeatedCompositeFieldContainer[IggyTopicSummary]
    groups: _containers.RepeatedCompositeFieldContainer[IggyGroup]
    def __init__(self, not_leader: _Optional[_Union[NotLeader, _Mapping]] = ..., streams: _Optional[_Iterable[_Union[IggyStream, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[IggyTopicSummary, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[IggyGroup, _Mapping]]] = ...) -> None: ...

class UsersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UsersAnswer(_message.Message):
    __slots__ = ("not_leader", "users")
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    not_leader: NotLeader
    users: _containers.RepeatedCompositeFieldContainer[User]
    def __init__(self, not_leader: _Optional[_Union[NotLeader, _Mapping]] = ..., users: _Optional[_Iterable[_Union[User, _Mapping]]] = ...) -> None: ...
