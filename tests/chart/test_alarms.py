"""The alerts fire when they should, and only then: told to Prometheus' own tester, minute by minute."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.chart.rendering import by_key, render
from tests.chart.watched import WATCHED, program

POD = 'namespace="data",pod="tank-controller-{}"'
BROKER = 'namespace="data",pod="tank-broker-0"'
ALWAYS = "1x60"
NEVER = "0x60"
UNTIL_MINUTE_5 = "1x5 stale"

Series = dict[str, str]
"""Values minute by minute, by name with labels, in the tester's own notation."""


def controller(number: int, alive: str = ALWAYS, *, leads: str = "", role: str = "follower") -> Series:
    """One of three, from whose samples a story's others differ. `alive`: its readiness."""
    pod = POD.format(number)
    gone = alive.endswith("stale")
    still = {value: f"{value}x5 stale" if gone else f"{value}x60" for value in (0, 3)}
    return {
        f"tank_controller_ready{{{pod}}}": alive,
        f"tank_controller_voters{{{pod}}}": still[3],
        f"tank_controller_leads{{{pod}}}": leads or still[0],
        f"tank_controller_lossy_elections_total{{{pod}}}": still[0],
        f'tank_controller_role{{{pod},role="{role}"}}': alive,
    }


WELL = {**controller(0, leads=ALWAYS), **controller(1), **controller(2)}
LOSSY = [f"tank_controller_lossy_elections_total{{{POD.format(number)}}}" for number in range(3)]

DISK = {
    f"tank_disk_size_bytes{{{POD.format(0)}}}": "100x60",
    f"tank_controller_disk_size_bytes{{{POD.format(0)}}}": "100x60",
}

STORIES: dict[str, tuple[Series, dict[int, set[str]]]] = {
    "all is well": (WELL, {1: set(), 30: set()}),
    "one controller is gone": (
        {**WELL, **controller(2, UNTIL_MINUTE_5)},
        {5: set(), 30: {"TankControllersMissing"}},
    ),
    "one controller takes no part": (
        {**WELL, **controller(2, "1x5 0x60")},
        {5: set(), 30: {"TankControllersMissing", "TankControllerNotReady"}},
    ),
    "one learns, beside three that vote": (
        {**WELL, f"tank_controller_ready{{{POD.format(3)}}}": NEVER},
        {30: {"TankControllerNotReady"}},
    ),
    "all controllers are gone": (
        {
            **controller(0, UNTIL_MINUTE_5, leads=UNTIL_MINUTE_5),
            **controller(1, UNTIL_MINUTE_5),
            **controller(2, UNTIL_MINUTE_5),
        },
        {5: set(), 30: {"TankNoControllerLeads"}},
    ),
    "nothing was ever scraped": ({}, {1: {"TankNoControllerLeads"}}),
    "one is cut off, and tries now by one name and now by the other": (
        {
            **WELL,
            f'tank_controller_role{{{POD.format(2)},role="follower"}}': "1x5 0x60",
            f'tank_controller_role{{{POD.format(2)},role="pre-candidate"}}': "0x5 " + "1 0 " * 30,
            f'tank_controller_role{{{POD.format(2)},role="candidate"}}': "0x5 " + "0 1 " * 30,
        },
        {5: set(), 30: {"TankControllerCutOff"}},
    ),
    "the disk of a broker is slow, and another's hangs": (
        {
            **WELL,
            'tank_fsync_running_seconds{namespace="data",pod="tank-broker-0"}': "0x5 30 0x54",
            'tank_fsync_running_seconds{namespace="data",pod="tank-broker-1"}': "0x5 1+60x54",
        },
        {6: set(), 9: {"TankDiskHangs"}},
    ),
    "two disks fill": (
        {
            **WELL,
            **DISK,
            f"tank_disk_free_bytes{{{POD.format(0)}}}": "10x10 9x50",
            f"tank_controller_disk_free_bytes{{{POD.format(0)}}}": "10x30 9x30",
        },
        {10: set(), 20: {"TankDiskNearlyFull"}, 40: {"TankDiskNearlyFull", "TankControllerDiskNearlyFull"}},
    ),
    "one group falls behind, and another catches up": (
        {
            **WELL,
            f'tank_partition_end_offset{{{BROKER},topic="t",partition="0"}}': "0+1000x60",
            f'tank_group_committed_offset{{{BROKER},group="slow",topic="t",partition="0"}}': "0x60",
            f'tank_group_committed_offset{{{BROKER},group="fast",topic="t",partition="0"}}': (
                "0x20 20000+1000x39"
            ),
        },
        {20: set(), 50: set(), 60: {"TankGroupLagGrows"}},
    ),
    "a group rebalances without end, and its coordinator has read long": (
        {
            **WELL,
            f'tank_groups{{{BROKER},state="PreparingRebalance"}}': "1 0 " * 30,
            f'tank_groups{{{BROKER},state="CompletingRebalance"}}': "0 1 " * 30,
            f'tank_groups{{{BROKER},state="Stable"}}': "9x60",
            f'tank_group_partitions{{{BROKER},state="loading"}}': "3x5 0x54",
        },
        {1: set(), 4: {"TankGroupsLoading"}, 10: set(), 20: {"TankGroupsRebalance"}},
    ),
    "a group whose broker assigns the partitions rebalances without end": (
        {
            **WELL,
            f'tank_groups{{{BROKER},state="Assigning"}}': "1 0 " * 30,
            f'tank_groups{{{BROKER},state="Reconciling"}}': "0 1 " * 30,
        },
        {10: set(), 20: {"TankGroupsRebalance"}},
    ),
    "a lossy election": (
        {**WELL, **dict.fromkeys(LOSSY, "2x20 3x60")},
        {20: set(), 22: {"TankLossyElection"}, 40: set()},
    ),
    "a controller starts, and reads of old lossy elections": (
        {**WELL, **dict.fromkeys(LOSSY, "2x60"), LOSSY[1]: "2x20 _x3 0 2x60"},
        {24: set(), 26: set(), 40: set()},
    ),
    "a lossy election behind a loss of power of all": (
        {**WELL, **dict.fromkeys(LOSSY, "2x10 stale _x19 3x40")},
        {10: set(), 31: {"TankLossyElection"}, 50: set()},
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_who_is_woken(story: str, tmp_path: Path) -> None:
    series, firing = STORIES[story]
    groups = by_key(render(WATCHED))["PrometheusRule", "tank"]["spec"]["groups"]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": groups}))
    told = {
        "rule_files": ["rules.json"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": f"{minute}m",
                        "exp_samples": [
                            {"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)
                        ],
                    }
                    for minute, names in firing.items()
                ],
            }
        ],
    }
    (tmp_path / "story.json").write_text(json.dumps(told))
    command: list[str | Path] = [program("promtool"), "test", "rules", tmp_path / "story.json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
