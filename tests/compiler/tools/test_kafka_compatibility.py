"""What the check says of a real history: the Kafka project's definitions of three dates, and ours.

They lie beside the repository. Without them this suite is skipped, and the summary says so.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tank_compiler.schema import definition_files
from tank_compiler.schema.schema import Protocol
from tank_compiler.tools import compatibility
from tank_compiler.tools.compatibility import Finding
from tests.support.processes.shared_folder import DEFINITIONS, needs

pytestmark = needs(DEFINITIONS)

OURS = Path(__file__).parents[3] / "protos/kafka"
OF_OURS_ALONE = {
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "TransactionLogKey",
    "TransactionLogValue",
}
"""Records of internal topics, which Kafka declares elsewhere."""


def breaks(old: str, new: str) -> list[Finding]:
    found = compatibility.compare(*(definition_files.load(DEFINITIONS / name) for name in (old, new)))
    return [finding for finding in found.findings if finding.is_break]


@pytest.mark.parametrize("name", ["2019-01", "4.1"])
def test_what_did_not_change_has_no_findings(name: str) -> None:
    protocol = definition_files.load(DEFINITIONS / name)
    assert compatibility.compare(protocol, protocol).findings == []


def test_within_a_year_versions_went_and_nothing_else_broke() -> None:
    found = breaks("all-versions-2024-10", "4.1")
    assert len(found) == 13
    assert all(finding.what.startswith("gone") for finding in found)


def test_within_six_years_some_defaults_changed_in_versions_without_the_field() -> None:
    found = [finding for finding in breaks("2019-01", "4.1") if not finding.what.startswith("gone")]
    assert {finding.subject for finding in found} == {
        "ListOffsetPartition.CurrentLeaderEpoch",
        "ListOffsetPartitionResponse.LeaderEpoch",
        "MetadataResponse.ClusterId",
        "MetadataResponseBroker.Rack",
        "OffsetFetchResponsePartition.CommittedLeaderEpoch",
    }
    assert all("is read where the version has no such field" in finding.what for finding in found)


def named_in_ours(theirs: Protocol, ours: Protocol) -> Protocol:
    """Those of their messages that we declare, too; by number, because names changed."""
    numbers = {(message.kind, message.id or message.root.name) for message in ours.messages}
    kept = [
        message for message in theirs.messages if (message.kind, message.id or message.root.name) in numbers
    ]
    return replace(theirs, messages=kept)


@pytest.mark.parametrize("name", ["all-versions-2024-10", "4.1"])
def test_our_definitions_read_what_kafkas_wrote(name: str) -> None:
    ours = definition_files.load(OURS)
    theirs = named_in_ours(definition_files.load(DEFINITIONS / name), ours)
    assert len(theirs.messages) > 99
    assert [one for one in compatibility.compare(theirs, ours).findings if one.is_break] == []


def test_kafkas_definitions_read_what_ours_wrote() -> None:
    """But for the versions that Kafka 4 dropped."""
    ours = definition_files.load(OURS)
    theirs = named_in_ours(definition_files.load(DEFINITIONS / "4.1"), ours)
    found = [one for one in compatibility.compare(ours, theirs).findings if one.is_break]
    assert found
    assert [one for one in found if not one.what.startswith("gone")] == []


def test_our_definitions_have_all_versions_up_to_the_newest_stable_one() -> None:
    ours = definition_files.load(OURS)
    newest = {message.root.name: message for message in definition_files.load(DEFINITIONS / "4.1").messages}
    assert {message.root.name for message in ours.messages} - set(newest) == OF_OURS_ALONE
    unstable = {
        message.id: message.versions.high
        for message in newest.values()
        if message.is_latest_unstable and message.id is not None
    }
    for message in ours.messages:
        if message.root.name in newest:
            assert message.versions.low == 0
            high = newest[message.root.name].versions.high_end
            assert message.versions.high == high - (message.id in unstable), message.root.name
    declared = {message.id: message.versions.high for message in ours.messages if message.id in unstable}
    assert declared == {8: 9, 9: 9, 22: 5}


def test_what_six_years_ago_was_otherwise_in_what_we_declare() -> None:
    """Defaults in versions without the field; and a header whose first version had a client id."""
    ours = definition_files.load(OURS)
    theirs = named_in_ours(definition_files.load(DEFINITIONS / "2019-01"), ours)
    found = [finding for finding in compatibility.compare(theirs, ours).findings if finding.is_break]
    assert {finding.subject for finding in found} == {
        "ListOffsetPartition.CurrentLeaderEpoch",
        "ListOffsetPartition.MaxNumOffsets",
        "ListOffsetPartitionResponse.LeaderEpoch",
        "ListOffsetPartitionResponse.Offset",
        "ListOffsetPartitionResponse.Timestamp",
        "MetadataResponse.ClusterId",
        "MetadataResponseBroker.Rack",
        "OffsetFetchResponsePartition.CommittedLeaderEpoch",
        "ProduceRequest.TransactionalId",
        "RequestHeader.ClientId",
    }
