"""The checked-in code of control.proto says what control.proto says."""

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from tank_protos.generated import control_pb2

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "tank_protos/generated/control.proto"


def test_control_pb2_is_fresh(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    written = tmp_path / "control.descriptors"
    mapped = f"tank_protos/generated={ROOT / 'protos'}"
    assert protoc.main(["protoc", "-I", mapped, f"--descriptor_set_out={written}", SOURCE]) == 0
    (declared,) = FileDescriptorSet.FromString(written.read_bytes()).file
    generated = FileDescriptorProto.FromString(control_pb2.DESCRIPTOR.serialized_pb)
    for message in declared.message_type:
        without_derived_names(message)
    assert generated == declared, (
        "run: python -m grpc_tools.protoc -I tank_protos/generated=protos "
        f"--python_out=protos --pyi_out=protos --grpc_python_out=protos {SOURCE}"
    )


def without_derived_names(message: DescriptorProto) -> None:
    """The compiler adds names for JSON to what it writes out, not to what it generates."""
    for field in message.field:
        field.ClearField("json_name")


def test_no_message_holds_a_map() -> None:
    for message in control_pb2.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            kind = field.message_type
            assert kind is None or not kind.GetOptions().map_entry, (
                "maps have no order: equal states, unequal bytes"
            )
