"""Writes the chart's alerts and dashboard for those without Helm: `python -m tests.chart.plain_monitoring`.

Nothing chooses a release there: a Prometheus that sees one cluster is taken for granted. Processes are named
by the label `instance`, which every Prometheus sets, and what only Kubernetes measures is left out.
"""

import json
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "charts" / "tank" / "monitoring"
FOLDER = ROOT / "docs" / "monitoring"
RULES_HEAD = """\
# The alerts of one cluster, for `rule_files` of a Prometheus that scrapes its controllers and brokers.
# Written by `make docs` from those of the chart; docs/operations.md says what each means, and what to do.
groups:
  - name: tank
    rules:
"""


def written() -> dict[Path, str]:
    """The files, and what they hold."""
    return {FOLDER / "alerts.yml": _rules(), FOLDER / "dashboard.json": _dashboard()}


def _rules() -> str:
    lines = (SOURCES / "alerts.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith("- alert:"))
    rules = _plain("".join(lines[first:]), "SELECTOR")
    return RULES_HEAD + textwrap.indent(rules.replace("$labels.pod", "$labels.instance"), "      ")


def _dashboard() -> str:
    board: dict[str, Any] = json.loads((SOURCES / "dashboard.json").read_text(encoding="utf-8"))
    board["templating"]["list"] = [
        variable for variable in board["templating"]["list"] if variable["name"] == "datasource"
    ]
    kept = []
    for panel in board["panels"]:
        targets = panel.get("targets", [])
        panel["targets"] = [target for target in targets if "kubelet_" not in target["expr"]]
        if not targets:
            del panel["targets"]
        elif not panel["targets"]:
            continue
        kept.append(panel)
    board["panels"] = kept
    chosen = r"namespace=\"$namespace\",pod=~\"$release-(broker|controller)-[0-9]+\""
    text = _plain(json.dumps(board, indent=2, ensure_ascii=False), chosen)
    return text.replace("{{pod}}", "{{instance}}").replace("by (pod", "by (instance") + "\n"


def _plain(text: str, selector: str) -> str:
    """Without what chooses the release."""
    return text.replace(f"{{{selector}}}", "").replace(f"{{{selector},", "{")


def main() -> None:
    """Writes them."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
