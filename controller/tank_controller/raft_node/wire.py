"""Raft's messages as bytes: `RaftMessage` of control.proto. Pure."""

from google.protobuf.message import DecodeError

from tank_controller.raft.errors import MalformedMessageError
from tank_controller.raft.messages import (
    Append,
    AppendAnswer,
    Body,
    Configuration,
    EndAnswer,
    EndRequest,
    EntryKind,
    Heartbeat,
    HeartbeatAnswer,
    LogEntry,
    NodeId,
    RaftMessage,
    ReadAnswer,
    ReadRequest,
    SnapshotAnswer,
    SnapshotChunk,
    SnapshotMeta,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from tank_protos.generated import control_pb2 as pb


def encode(message: RaftMessage) -> pb.RaftMessage:
    """Encodes a message for another controller; below gRPC's limit of 4 MiB (see raft.settings)."""
    wire = pb.RaftMessage(
        cluster_id=message.cluster_id,
        sender=_node(message.sender),
        target=_node(message.target),
        term=message.term,
    )
    _put(wire, message.body)
    return wire


def decode(wire: pb.RaftMessage | bytes) -> RaftMessage:
    """Decodes a message. Raises MalformedMessageError when this version doesn't know its body, or a field has
    an impossible value.
    """
    try:
        if isinstance(wire, bytes):
            wire = pb.RaftMessage.FromString(wire)
        sender, target = (NodeId(node.ordinal, node.disk) for node in (wire.sender, wire.target))
        return RaftMessage(wire.cluster_id, sender, target, wire.term, _body(wire))
    except (DecodeError, ValueError) as error:
        raise MalformedMessageError(f"a message that can't be read: {error}") from error


def _node(node: NodeId) -> pb.RaftNode:
    return pb.RaftNode(ordinal=node.ordinal, disk=node.disk)


def _put(wire: pb.RaftMessage, body: Body) -> None:
    match body:
        case VoteRequest(last_index, last_term, pre, force):
            wire.vote_request.CopyFrom(
                pb.RaftVoteRequest(last_index=last_index, last_term=last_term, pre=pre, force=force)
            )
        case VoteAnswer(granted, pre):
            wire.vote_answer.CopyFrom(pb.RaftVoteAnswer(granted=granted, pre=pre))
        case Append(prev_index, prev_term, entries, commit):
            append = wire.append
            append.prev_index, append.prev_term, append.commit = prev_index, prev_term, commit
            for entry in entries:
                append.entries.add(index=entry.index, term=entry.term, kind=entry.kind, data=entry.data)
            append.SetInParent()
        case AppendAnswer(index, rejected, hint_index, hint_term, start):
            wire.append_answer.CopyFrom(
                pb.RaftAppendAnswer(
                    index=index, rejected=rejected, hint_index=hint_index, hint_term=hint_term, start=start
                )
            )
        case Heartbeat(commit, number, start):
            wire.heartbeat.CopyFrom(pb.RaftHeartbeat(commit=commit, round=number, start=start))
        case HeartbeatAnswer(number, max_level, start):
            wire.heartbeat_answer.CopyFrom(
                pb.RaftHeartbeatAnswer(round=number, max_level=max_level, start=start)
            )
        case SnapshotChunk(meta, offset, data):
            wire.snapshot_chunk.CopyFrom(
                pb.RaftSnapshotChunk(
                    index=meta.index,
                    term=meta.term,
                    configuration=meta.configuration.encode(),
                    size=meta.size,
                    checksum=meta.checksum,
                    offset=offset,
                    data=data,
                )
            )
        case SnapshotAnswer(index, term, received):
            wire.snapshot_answer.CopyFrom(pb.RaftSnapshotAnswer(index=index, term=term, received=received))
        case TimeoutNow():
            wire.timeout_now.SetInParent()
        case ReadRequest(read_id):
            wire.read_request.CopyFrom(pb.RaftReadRequest(read_id=read_id))
        case ReadAnswer(read_id, read_index):
            wire.read_answer.CopyFrom(pb.RaftReadAnswer(read_id=read_id, index=read_index))
        case EndRequest(nonce):
            wire.end_request.CopyFrom(pb.RaftEndRequest(nonce=nonce))
        case EndAnswer(nonce, last_index, last_term):
            wire.end_answer.CopyFrom(
                pb.RaftEndAnswer(nonce=nonce, last_index=last_index, last_term=last_term)
            )


def _body(wire: pb.RaftMessage) -> Body:
    match wire.WhichOneof("body"):
        case "vote_request":
            asked = wire.vote_request
            return VoteRequest(asked.last_index, asked.last_term, asked.pre, asked.force)
        case "vote_answer":
            return VoteAnswer(wire.vote_answer.granted, wire.vote_answer.pre)
        case "append":
            append = wire.append
            entries = tuple(LogEntry(e.index, e.term, EntryKind(e.kind), e.data) for e in append.entries)
            return Append(append.prev_index, append.prev_term, entries, append.commit)
        case "append_answer":
            answer = wire.append_answer
            return AppendAnswer(
                answer.index, answer.rejected, answer.hint_index, answer.hint_term, answer.start
            )
        case "heartbeat":
            return Heartbeat(wire.heartbeat.commit, wire.heartbeat.round, wire.heartbeat.start)
        case "heartbeat_answer":
            heard = wire.heartbeat_answer
            return HeartbeatAnswer(heard.round, heard.max_level, heard.start)
        case "snapshot_chunk":
            chunk = wire.snapshot_chunk
            configuration = Configuration.decode(chunk.configuration)
            meta = SnapshotMeta(chunk.index, chunk.term, configuration, chunk.size, chunk.checksum)
            return SnapshotChunk(meta, chunk.offset, chunk.data)
        case "snapshot_answer":
            got = wire.snapshot_answer
            return SnapshotAnswer(got.index, got.term, got.received)
        case "timeout_now":
            return TimeoutNow()
        case "read_request":
            return ReadRequest(wire.read_request.read_id)
        case "read_answer":
            read = wire.read_answer
            return ReadAnswer(read.read_id, read.index if read.HasField("index") else None)
        case "end_request":
            return EndRequest(wire.end_request.nonce)
        case "end_answer":
            end = wire.end_answer
            return EndAnswer(end.nonce, end.last_index, end.last_term)
        case _:
            raise ValueError("this version doesn't know its body")
