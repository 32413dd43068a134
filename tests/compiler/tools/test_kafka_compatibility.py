"""What the check says of a real history: the Kafka project's definitions of three dates.

They lie beside the repository. Without them this suite is skipped, and the summary says so.
"""

import pytest

from tank_compiler.schema import definition_files
from tank_compiler.tools import compatibility
from tank_compiler.tools.compatibility import Finding
from tests.support.shared_folder import DEFINITIONS, needs

pytestmark = needs(DEFINITIONS)


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
