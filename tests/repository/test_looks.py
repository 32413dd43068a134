"""What deserves a look: large classes and files, and base classes with one heir. Each is mended, or is listed
here with the reason why it is one thing."""

import ast
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.repository.tree import ROOMS, ROOT, python_files

MOST_LINES, MOST_ATTRIBUTES, MOST_METHODS, MOST_ARGUMENTS = 500, 15, 25, 6

FILES: Final = {
    "node/tank_node/app/config.py": "one table of options, and how each value is read",
    "node/tank_node/coordinators/group_partition.py": "what is asked of one partition's groups",
    "node/tank_node/iggy/session.py": "one connection: a request, its call and its answer name each other",
    "node/tank_node/limits.py": "one table of limits, each with its reason",
    "node/tank_node/partition/partition.py": "one replica: every method reads or changes the same few states",
    "protos/tank_compiler/emit/decode.py": "one decoder: arrays, texts and tags call each other",
    "protos/tank_protos/topic_settings.py": "one table of settings, and how each value is read and shown",
    "tests/simulation/cluster_story.py": "one story: its parts, its events, and what must hold at its end",
}
CLASSES: Final = {
    "tank_client.Admin": "what a program asks of a cluster and changes in it: each method a request or a few",
    "tank_client.Consumer": "the face of reading: what users find in one place, each method a few lines",
    "tank_client.Fetcher": "the fetches of one consumer: what is under way, what came, what memory is left",
    "tank_client.LeaderFinder": "which broker leads, and all that is under way to find it out",
    "tank_client.MessageBatch": "columns of messages: one argument a column",
    "tank_client.Sender": "one producer's batches under way: their order, their repeats, their end",
    "tank_controller.ControllerNode": "what a controller consists of: one argument a part",
    "tank_controller.Raft": "the core's events: one method a message, and what it is told at its start",
    "tank_controller.RaftDriver": "clock, disk and network of one Raft core, in its order",
    "tank_controller.RaftState": "the variables of Raft as the paper has them",
    "tank_controller.RaftStorage": "the files of one Raft log, and which of them is which",
    "tank_node.Broker": "the topics of a node, their tick and what it ends with",
    "tank_node.ClassicGroup": "what is asked of a group's machine: one method a question",
    "tank_node.Connection": "the state of one socket between ticks: what came, what has to go, since when",
    "tank_node.ControllerRequests": "one method a request, as `MetadataRequests` has them",
    "tank_node.ConsumerGroup": "what is asked of a group's machine: one method a question",
    "tank_node.ControllerStream": "one conversation with the controllers: its parts, what it has learned",
    "tank_node.Flusher": "one queue of disk work, and the threads that take from it",
    "tank_node.Groups": "what protocols ask of a coordinator: one method a question",
    "tank_node.GroupPartition": "the groups of one partition, from their load to the end of the lead",
    "tank_node.IggySession": "one conversation: its limits, its requests, who its client is",
    "tank_node.IggyGroupMachine": "what is asked of a group's machine: one method a question",
    "tank_node.IggyMemberships": "what sessions ask about the members of one broker: one method a question",
    "tank_node.KafkaSession": "one conversation: its limits, its requests, what its client has said",
    "tank_node.ForwardedProduce": "one part of a request: whose it is, and what it is called there",
    "tank_node.LateFetch": "one answer that is made later: one argument a field of it",
    "tank_node.PartitionLeader": "what a leader knows of its followers, and what it tells them",
    "tank_node.NodeProcess": "the composition of a broker: one method a step of its start and stop",
    "tank_node.Partition": "one partition: appends, reads, the end of a tick, its role",
    "tank_node.PartitionLog": "one log: what its five parts have is read through it",
    "tank_node.PeerConnections": "the connections of one owner: one argument a difference",
    "tank_node.ProduceForm": "one form of a request: what is compared, and all that its answer is made of",
    "tank_node.ReplicationStream": "one connection's pushes: what was sent, what is due, what may be",
    "tank_node.Server": "sockets, timers and the order of a tick",
    "tank_node.FileRange": "a range of a file: one argument a number",
    "tank_node.TankSession": "one conversation: its limits, what it has learned, what is under way",
}
BASES: Final = {
    "tank_compiler.Protocol": "an interface",
    "tank_compiler.ValueScope": "values of a message, and those that a corpus chooses",
    "tank_controller.ChangeRefusedError": "an error that callers catch, and one that says more",
    "tank_controller.JournalError": "an error that callers catch, and one that says more",
    "tank_controller.RaftState": "the paper's variables, which all roles work on",
    "tank_node.BatchRun": "an interface: a log does not know whose batches it stores",
    "tank_node.Completion": "an interface: a partition does not know who waits for its appends",
    "tank_node.Dialer": "an interface: peers dial without knowing the server",
    "tank_node.FetchWait": "a wait for data, and one for what another broker leads beside it",
    "tank_node.IggyKnown": "an interface: machines of groups do not know the view",
    "tank_node.UserLogins": "logins, and those at a listener that other machines reach",
    "tank_node.Topics": "an interface: machines of groups do not know the view",
    "tank_node.FollowerRole": "an interface: the partition does not know what takes its leader's pushes",
    "tank_node.Forwarding": "an interface: a lone broker has none",
    "tank_node.KafkaCall": "a request, and a run of learned ones",
    "tank_node.LeaderRole": "an interface: the partition does not know what its leader does for followers",
    "tank_node.NodeProcess": "a broker alone, and one of a cluster",
    "tank_node.Pushers": "an interface: the roles do not know the connections",
    "tank_node.FetchTarget": "one partition of a fetch, and one that another broker leads",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a class is that is not data alone."""

    attributes: int
    methods: int
    arguments: int
    """Of its constructor."""

    @property
    def deserves_a_look(self) -> bool:
        return (
            self.attributes > MOST_ATTRIBUTES
            or self.methods > MOST_METHODS
            or self.arguments > MOST_ARGUMENTS
        )


def is_data(definition: ast.ClassDef) -> bool:
    """Whether it is a dataclass, a named tuple, an enum or a protocol."""
    bases = [ast.unparse(base) for base in definition.bases]
    decorated = any("dataclass" in ast.unparse(decorator) for decorator in definition.decorator_list)
    return decorated or any(base in ("NamedTuple", "Protocol") or base.endswith("Enum") for base in bases)


def shape_of(definition: ast.ClassDef) -> Shape:
    methods = [node for node in definition.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    stored = {
        node.attr
        for node in ast.walk(definition)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }
    arguments = next((method.args for method in methods if method.name == "__init__"), None)
    count = 0 if arguments is None else len(arguments.args) - 1 + len(arguments.kwonlyargs)
    return Shape(len(stored), len(methods), count)


def definitions() -> list[tuple[Path, ast.ClassDef]]:
    return [
        (path, node)
        for path in python_files()
        if path.parts[0] in ROOMS
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.ClassDef)
    ]


def test_a_file_that_is_long_is_one_thing() -> None:
    long = {str(p) for p in python_files() if len((ROOT / p).read_text().splitlines()) > MOST_LINES}
    assert long == FILES.keys(), f"over {MOST_LINES} lines"


def test_a_class_that_is_large_is_one_thing() -> None:
    large = {
        f"{path.parts[1]}.{found.name}"
        for path, found in definitions()
        if not is_data(found) and shape_of(found).deserves_a_look
    }
    assert large == CLASSES.keys()


def test_a_base_class_has_more_than_one_heir() -> None:
    """In its package: what is inherited by one class alone is a slice of it, or an interface."""
    heirs: Counter[str] = Counter()
    there = set()
    for path, found in definitions():
        there.add(f"{path.parts[1]}.{found.name}")
        heirs.update(f"{path.parts[1]}.{ast.unparse(base).split('[')[0]}" for base in found.bases)
    assert {base for base, count in heirs.items() if count == 1 and base in there} == BASES.keys()


def test_a_large_class_is_seen() -> None:
    body = "\n".join(f"        self.a{n} = n" for n in range(16))
    [found] = ast.parse(f"class Large:\n    def __init__(self, n, *, m):\n{body}\n").body
    assert isinstance(found, ast.ClassDef)
    assert shape_of(found) == Shape(attributes=16, methods=1, arguments=2)
    assert shape_of(found).deserves_a_look
    assert not is_data(found)


FACES: Final = {
    "Admin": "async and sync",
    "BundleDelivery": "async and sync",
    "Client": "async and sync",
    "Consumer": "async and sync",
    "Producer": "async and sync",
    "ProduceRun": "in Python and in C",
    "KafkaProduceRun": "in Python and in C",
    "Message": "of a bundle, and the base of all of the wire's: both are public",
}
"""Class names that stand for one thing in two faces."""


def test_a_class_name_means_one_thing() -> None:
    names = Counter(found.name for _, found in definitions())
    assert {name for name, count in names.items() if count > 1} == FACES.keys()
