"""The dashboard and the alerts: of metrics that there are, and in a language that Prometheus understands."""

import json
import re
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.chart import plain_monitoring
from tests.chart.helm import ROOT
from tests.chart.rendering import Object, by_key, render
from tests.chart.watched import WATCHED, program
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.processes.ports import free_port

OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
JUDGED = 38
"""Queries of the dashboard whose metrics all have samples in a small cluster at work."""
NAME = re.compile(r"\b(?:tank|process|kubelet)_[a-z_]+\b")
VARIABLES = {"$namespace": "data", "$release": "tank", "$__rate_interval": "1m", "$__range": "1h"}


def metrics_of(expression: str) -> set[str]:
    """The families that it is about; the kubelet's are not ours."""
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in NAME.findall(expression)}
    return {name for name in names if not name.startswith("kubelet_")}


def alerts() -> list[Object]:
    groups = by_key(render(WATCHED))["PrometheusRule", "tank"]["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> Object:
    board: Object = json.loads(by_key(render(WATCHED))["ConfigMap", "tank-dashboard"]["data"]["tank.json"])
    return board


def queries() -> list[str]:
    """Of all panels, with the dashboard's variables filled in."""
    found = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]
    for name, value in VARIABLES.items():
        found = [query.replace(name, value) for query in found]
    return found


def known() -> set[str]:
    """The metrics in the page's tables, which other tests compare with /metrics."""
    return set(re.findall(r"^\| `((?:tank|process)_\w+)` \|", OPERATIONS, re.MULTILINE))


def test_alerts_and_panels_are_about_metrics_that_there_are() -> None:
    assert len(known()) > 60
    for expression in [rule["expr"] for rule in alerts()] + queries():
        assert metrics_of(expression) <= known(), expression


def plain(expression: str) -> str:
    """Without what chooses the release."""
    return re.sub(r'namespace="data",pod=~"[^"]*",?', "", expression).replace("{}", "")


def test_every_alarm_of_the_operators_page_is_an_alert() -> None:
    tables = OPERATIONS[OPERATIONS.index("| Alarm |") : OPERATIONS.index("## Start and stop")]
    alarms = [row.split(" | ")[0] for row in tables.splitlines() if row.startswith("| ")]
    said = {
        expression.replace("\\|", "|")
        for alarm in alarms
        for expression in re.findall(r"`([^`]+)`", alarm)
        if re.search(r" [<>=]=? ", expression)
    }
    assert len(said) > 20
    assert said <= {plain(rule["expr"]) for rule in alerts()}


def test_an_alert_waits_as_long_as_the_page_says() -> None:
    tables = OPERATIONS[OPERATIONS.index("| Alarm |") : OPERATIONS.index("## Start and stop")]
    said = set()
    for alarm in re.findall(r"^\| (.+?) \| ", tables, re.MULTILINE):
        waits = re.search(r"` for (\d+|an?) (second|minute|hour)s?|, for (\d+) (minute)s", alarm)
        often, unit = [found for found in waits.groups() if found] if waits else ("", "")
        duration = f"{often.replace('an', '1').replace('a', '1')}{unit[:1]}"
        for expression in re.findall(r"`([^`]+)`", alarm):
            said.add((expression.replace("\\|", "|"), duration))
    for rule in alerts():
        assert (plain(rule["expr"]), rule.get("for", "")) in said, rule["alert"]


def test_those_without_helm_have_the_same_as_files() -> None:
    for path, text in plain_monitoring.written().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old: make docs"
    rules = yaml.safe_load((plain_monitoring.FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
    assert [(rule["alert"], rule["expr"]) for rule in rules] == [
        (rule["alert"], plain(rule["expr"])) for rule in alerts()
    ]
    board = json.loads((plain_monitoring.FOLDER / "dashboard.json").read_text())
    said = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert said, "a dashboard without a query"
    for expression in said:
        assert metrics_of(expression) <= known(), expression
        assert not re.search(r"\$(namespace|release)|pod\b|kubelet", expression), expression


def test_promtool_takes_the_plain_rules() -> None:
    checked = [program("promtool"), "check", "rules", str(plain_monitoring.FOLDER / "alerts.yml")]
    done = subprocess.run(checked, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_choose_the_releases_own_pods() -> None:
    for rule in alerts():
        assert "SELECTOR" not in rule["expr"]
        chosen = re.findall(r"\{([^}]*)\}", rule["expr"])
        assert chosen, rule["alert"]
        assert all('namespace="data"' in each and '~"' in each for each in chosen), rule["alert"]
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names))


def test_the_dashboard_answers_its_questions_in_order() -> None:
    board = dashboard()
    rows = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows[:3] == ["Is it healthy?", "Where is the lag?", "What moved?"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for target in panel.get("targets", []):
            assert '$namespace"' in target["expr"], target["expr"]
            assert "$release" in target["expr"], target["expr"]


# --- on a real Prometheus ---


def test_prometheus_takes_the_alerts(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(
        json.dumps({"groups": by_key(render(WATCHED))["PrometheusRule", "tank"]["spec"]["groups"]})
    )
    done = subprocess.run(
        [program("promtool"), "check", "rules", rules], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(alerts())} rules found" in done.stdout


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        body: bytes = answer.read()
        return body


@contextmanager
def running(*command: str | Path) -> Iterator[None]:
    """A process for as long as the block takes."""
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url: str, wanted: str) -> str:
    """What it answers as soon as `wanted` is in there."""
    for _ in range(600):
        try:
            text = fetch(url).decode()
        except OSError:
            text = ""
        if wanted in text:
            return text
        time.sleep(0.1)
    raise AssertionError(f"{url} never said {wanted}")


def asked(base: str, query: str) -> Object:
    """Prometheus' answer to a query of now."""
    answer: Object = json.loads(fetch(f"{base}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
    return answer


def scrapes(cluster: LocalCluster) -> list[Object]:
    """What Prometheus reads of each process, under the name of the pod that it would be."""
    return [
        {
            "targets": [process.addresses["http"]],
            "labels": {"namespace": "data", "pod": f"tank-{role}-{number}"},
        }
        for role in ("controller", "broker")
        for number, process in enumerate(cluster.processes(role))
    ]


def families(shown: str) -> set[str]:
    """Of which there is a sample in these metrics."""
    names = re.findall(r"^(\w+)[{ ]", shown, re.MULTILINE)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


def test_a_real_prometheus_answers_every_query_of_the_dashboard(tmp_path: Path) -> None:
    prometheus = program("prometheus")
    base = f"http://127.0.0.1:{free_port()}"
    with running_cluster(tmp_path / "cluster", controllers=1, brokers=2) as cluster:
        cluster.tank("topic", "create", "orders", "--replication-factor", "2")
        cluster.tank("produce", "orders", "--message", "one")
        cluster.tank("consume", "orders", "--from", "first", "--count", "1")
        targets = scrapes(cluster)
        configuration = {
            "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"},
            "scrape_configs": [{"job_name": "tank", "static_configs": targets}],
        }
        (tmp_path / "prometheus.yml").write_text(json.dumps(configuration))
        with running(
            prometheus, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/series",
            f"--web.listen-address={base.removeprefix('http://')}",
        ):  # fmt: skip
            wait_for(f"{base}/-/ready", "Ready")
            for each in targets:
                pod = each["labels"]["pod"]
                read = urllib.parse.quote(f'sum_over_time(up{{pod="{pod}"}}[1m]) > 5')
                wait_for(f"{base}/api/v1/query?query={read}", pod)
            shown = "".join(fetch(f"http://{each['targets'][0]}/metrics").decode() for each in targets)
            judged, empty = 0, []
            for query in queries():
                answer = asked(base, query)
                assert answer["status"] == "success", f"{query}: {answer}"
                if metrics_of(query) <= families(shown) and "kubelet_" not in query:
                    judged += 1
                    empty += [] if answer["data"]["result"] else [query]
    assert not empty, "metrics are there, and these queries find none of them: " + "\n".join(empty)
    assert judged >= JUDGED, "the others are of metrics without a sample, and could ask anything"
