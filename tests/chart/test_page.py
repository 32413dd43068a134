"""docs/kubernetes.md says what the programs do in a pod."""

import re

from tank_controller.leader.scaling import Reason
from tests.chart.helm import ROOT

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (Normal|Warning) \| [^|]+ \| [^|]+ \| [^|]*\|$", re.MULTILINE)


def test_every_event_stands_in_the_table_and_no_other() -> None:
    _, _, watching = PAGE.partition("\n## Watching it\n")
    section, _, _ = watching.partition("\n## ")
    told = {str(reason): "Warning" if reason.is_warning else "Normal" for reason in Reason}
    rows = ROW.findall(section)
    assert dict(rows) == told
    assert len(rows) == len(told), "one is there twice"
