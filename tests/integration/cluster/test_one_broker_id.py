"""Two processes with one broker's id: who came second is refused while the first lives, and taken after."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patient
from tests.support.processes.cluster import running_cluster
from tests.support.processes.ports import free_port
from tests.support.processes.readiness import facts_of
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_the_second_process_says_why_it_waits_and_the_first_serves_on(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1, brokers=1) as cluster:
        [controller], [first] = cluster.processes("controller"), cluster.processes("broker")
        http, output = f"127.0.0.1:{free_port()}", tmp_path / "second.log"
        command = [
            *[sys.executable, "-m", "tank_node", "--controllers", str(controller.addresses["grpc"])],
            *["--broker-id", "1", "--data", str(tmp_path / "second"), "--http", http],
            *["--listen", f"127.0.0.1:{free_port()}", "--secret-file", str(cluster.data / "secret")],
        ]
        with open(output, "wb") as log:
            second = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            sentence = f"another process is broker 1 at {first.addresses['tank']}, and lives"
            until(lambda: sentence in output.read_text(), "it doesn't say why it isn't taken")
            assert output.read_text().count(f"refuse this broker now: {sentence}") == 1, "once is enough"
            cluster.tank("topic", "create", "t")
            broker = cluster.look("status")["brokers"][0]
            assert (broker["fenced"], broker["connected"]) == (False, True)
            first.kill()
            until(lambda: facts_of(http).get("broker_id") == 1, "the second is not taken")
        finally:
            second.terminate()
            second.wait(patient(60))
