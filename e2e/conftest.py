"""What the scenarios share: the cluster, the image, one release, and load on it."""

import secrets
from collections.abc import Generator, Iterator

import pytest

from e2e.support import images
from e2e.support.environment import Environment
from e2e.support.kubernetes import Kubernetes, nodes
from e2e.support.load import Load, packed
from e2e.support.nodes import Nodes, all_in_zones
from e2e.support.release import Release

ONE_TEST_S = 1500


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each has its own bounds; this one is for a suite that hangs. Not of what all share: the first test
    would have to build the images within it."""
    for item in items:
        item.add_marker(pytest.mark.timeout(ONE_TEST_S, func_only=True))


@pytest.fixture(scope="session")
def environment() -> Environment:
    return Environment.read()


@pytest.fixture(scope="session")
def image(environment: Environment) -> str:
    """Its name; all nodes have it."""
    if environment.image:
        return environment.image
    name, archive = images.built(images.NAME, "Dockerfile")
    images.load(archive, environment.image_load)
    return name


@pytest.fixture(scope="session")
def kubernetes(environment: Environment) -> Iterator[Kubernetes]:
    """A namespace of its own."""
    opened = Kubernetes(f"tank-e2e-{secrets.token_hex(3)}")
    try:
        opened.open()
        yield opened
    finally:
        opened.close()


@pytest.fixture(scope="session")
def release(kubernetes: Kubernetes, image: str) -> Iterator[Release]:
    """Three controllers and three brokers, installed and ready. Every node is in a zone."""
    with all_in_zones():
        installed = Release(kubernetes, image)
        installed.install()
        yield installed


@pytest.fixture(scope="session")
def clients_node() -> str:
    """Where the clients run, which nothing is done to."""
    return nodes()[-1]


@pytest.fixture(scope="session")
def clients_code(kubernetes: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A ConfigMap with what the clients' pod runs."""
    archive = tmp_path_factory.mktemp("clients") / "clients.zip"
    archive.write_bytes(packed())
    kubernetes.kubectl("create", "configmap", "clients", f"--from-file={archive}")


@pytest.fixture
def load(release: Release, clients_node: str, clients_code: None) -> Iterator[Load]:
    """Clients of every kind at work, from the test's first line on."""
    release.scale_back()
    release.await_whole()
    started = Load(release.kubernetes, release, clients_node)
    try:
        started.start()
        yield started
    finally:
        started.close()


@pytest.fixture
def lost_nodes(environment: Environment, clients_node: str) -> Nodes:
    """Nodes that may be lost: at least one beside the clients'."""
    if not (environment.node_stop and environment.node_start) or len(nodes()) < 2:
        pytest.skip("NO NODE IS LOST HERE: set TANK_NODE_STOP and TANK_NODE_START, and have two nodes")
    return Nodes(environment)


@pytest.fixture
def inner_nodes(environment: Environment) -> Nodes:
    """Nodes in which a command can be run."""
    if not environment.in_node:
        pytest.skip("NO CONTAINER'S PROCESS IS KILLED HERE: set TANK_IN_NODE")
    return Nodes(environment)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What Kubernetes says of the pods stands below a failure."""
    report = yield
    found = getattr(item, "funcargs", {}).get("kubernetes")
    if report.failed and isinstance(found, Kubernetes):
        report.sections.append(("Kubernetes", found.told()))
    return report
