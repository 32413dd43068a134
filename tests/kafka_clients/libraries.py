"""The stock libraries: how each is installed beside the project, and how its program is run.

All lies in one folder, `out/kafka_clients` if nothing else is chosen, and is kept from run to run. Package
registries are reached through the ordinary tools: pip, npm, go, Maven. A library whose tool is missing is
left out, and the run says so.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).parent / "programs"
ROOT: Final = Path(__file__).parents[2]
INSTALL_TIMEOUT_S: Final = 600
"""The longest that one library's installation may take."""

PYTHON_PACKAGES: Final = (
    *("kafka-python==3.0.12", "aiokafka==0.14.0", "confluent-kafka==2.16.1"),
    # The codecs that the three leave to the user.
    *("cramjam==2.14.0", "lz4==4.4.5", "python-snappy==0.7.3", "zstandard==0.25.0"),
)
KAFKAJS: Final = "kafkajs@2.2.4"
JAVA_CLIENT: Final = "4.1.2"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class NotInstalledError(Exception):
    """A library can't be installed here; the message says why."""


@dataclass(frozen=True, slots=True)
class StockLibrary:
    """A library, and its program."""

    name: str
    title: str
    """How the page on compatibility calls it."""
    version: str
    codecs: tuple[str, ...]
    """The codecs that its producer has."""
    no_consumer: str
    """Why its program can't read a partition; empty: it can."""
    install: Callable[[Path], None]
    """Installs it into a folder. Raises NotInstalledError."""
    command: Callable[[Path], list[str]]
    """The command of its program, when it is installed in this folder."""
    null_headers: bool = True
    """Whether its producer takes headers without a value."""
    speaks_tank: bool = False
    """Whether it connects to the brokers' addresses of TANK's protocol."""
    assigns_by_range: bool = True
    """Whether its members of groups agree with those of other libraries on who reads what. kafkajs has a way
    of its own alone."""
    has_static_members: bool = True
    """Whether a member can keep its place when its process starts again."""
    has_consumer_protocol: bool = False
    """Whether its members of groups can leave it to the broker who reads what (KIP-848)."""


def tool(name: str) -> str:
    """Where a program is. Raises NotInstalledError."""
    found = shutil.which(name)
    if found is None:
        raise NotInstalledError(f"there is no {name}")
    return found


def run_tool(command: list[str], folder: Path) -> None:
    """Runs a program of an installation in this folder. Raises NotInstalledError."""
    try:
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"{command[0]} takes longer than {INSTALL_TIMEOUT_S} s") from None
    if ended.returncode:
        raise NotInstalledError(f"{' '.join(command[:3])}: {(ended.stderr or ended.stdout).strip()[-300:]}")


def _venv(folder: Path) -> Path:
    return folder / "python"


def python_of(folder: Path) -> Path:
    """The Python that the libraries for Python are installed for."""
    return _venv(folder) / "bin/python"


def install_python_packages(environment: Path, packages: tuple[str, ...]) -> None:
    """Makes a virtual environment with these, unless it is there. Raises NotInstalledError."""
    done = environment / "installed"
    if done.exists() and done.read_text() == str(packages):
        return
    run_tool([sys.executable, "-m", "venv", str(environment)], environment.parent)
    run_tool([str(environment / "bin/pip"), "install", "--quiet", *packages], environment.parent)
    done.write_text(str(packages))


def _install_python(folder: Path) -> None:
    install_python_packages(_venv(folder), PYTHON_PACKAGES)


def _python(program: str) -> Callable[[Path], list[str]]:
    found = ["env", f"PYTHONPATH={ROOT}"]
    return lambda folder: [*found, str(python_of(folder)), str(PROGRAMS / program)]


def _our_own(folder: Path) -> list[str]:
    paths = os.pathsep.join(str(ROOT / package) for package in ("", "client", "protos"))
    return ["env", f"PYTHONPATH={paths}", sys.executable, str(PROGRAMS / "tank.py")]


def _install_kafkajs(folder: Path) -> None:
    node = folder / "node"
    node.mkdir(exist_ok=True)
    if not (node / "node_modules/kafkajs").exists():
        run_tool([tool("npm"), "install", "--no-audit", "--no-fund", "--prefix", str(node), KAFKAJS], node)
    tool("node")
    shutil.copy(PROGRAMS / "kafkajs_program.js", node)


def _install_franz_go(folder: Path) -> None:
    run_tool(
        [tool("go"), "build", "-o", str(folder / "franz_go"), "."], PROGRAMS / "franz_go"
    )  # go itself keeps what it has built


Jar = tuple[str, str, str]
"""Group, artefact, version."""

JAVA_JARS: Final[tuple[Jar, ...]] = (
    ("org.apache.kafka", "kafka-clients", JAVA_CLIENT),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
)
JAVA_PROGRAMS: Final = ("JavaClient.java", "AdminCalls.java", "GroupCalls.java")
_ALONE: Final = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def _pom(jars: tuple[Jar, ...], alone: bool) -> str:
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artefact}</artifactId>"
        f"<version>{version}</version>{_ALONE if alone else ''}</dependency>"
        for group, artefact, version in jars
    )
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>stock</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{wanted}</dependencies>
</project>
"""


def install_jars(folder: Path, jars: tuple[Jar, ...], *, alone: bool) -> None:
    """Puts these into the folder's `libs`, with those that they need unless `alone`. Raises
    NotInstalledError."""
    pom = _pom(jars, alone)
    file, done = folder / "pom.xml", folder / "libs"
    if done.exists() and file.exists() and file.read_text() == pom:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    file.write_text(pom)
    try:
        run_tool([tool("mvn"), "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"], folder)
    except NotInstalledError:
        shutil.rmtree(done, ignore_errors=True)
        raise


def install_archive(folder: Path, archive: Jar, kind: str) -> None:
    """Unpacks an archive of Maven's repositories into a folder, unless it is there. kind: its packaging and
    classifier, as `tar.gz:all`. Raises NotInstalledError."""
    name = ":".join((*archive, kind))
    done = folder / "installed"
    if done.exists() and done.read_text() == name:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    unpack = ["dependency:unpack", f"-Dartifact={name}", "-DoutputDirectory=."]
    run_tool([tool("mvn"), "-q", "-B", *unpack], folder)
    done.write_text(name)


def _install_java(folder: Path) -> None:
    java = folder / "java"
    install_jars(java, JAVA_JARS, alone=False)
    sources = [str(PROGRAMS / program) for program in JAVA_PROGRAMS]
    run_tool([tool("javac"), "-cp", "libs/*", "-d", str(java), *sources], java)


def java_command(folder: Path, program: str) -> list[str]:
    """The command of one of the programs in Java."""
    return ["java", "-Xmx256m", "-cp", f"{folder / 'java/libs'}/*:{folder / 'java'}", program]


def _java(folder: Path) -> list[str]:
    return java_command(folder, "JavaClient")


def java_since(release: int) -> str:
    """The newest Java of JAVA_HOME and below /usr/lib/jvm, which is of this release at least. Raises
    NotInstalledError."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    homes += Path("/usr/lib/jvm").glob("*")
    found = {_java_release(home): home for home in homes}
    if not found or max(found) < release:
        raise NotInstalledError(f"it needs Java {release}: install it, or set JAVA_HOME to it")
    return str(found[max(found)] / "bin" / "java")


def _java_release(home: Path) -> int:
    """0: there is no Java."""
    try:
        said = re.search(r'^JAVA_VERSION="(\d+)', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(said[1]) if said else 0


def _nothing(folder: Path) -> None:
    """What our own client needs, the environment of the tests has."""


LIBRARIES: Final = (
    StockLibrary(
        "librdkafka",
        "librdkafka, by confluent-kafka",
        "2.16.1",
        CODECS,
        "",
        _install_python,
        _python("confluent.py"),
        has_consumer_protocol=True,
    ),
    StockLibrary("Java", "Java", JAVA_CLIENT, CODECS, "", _install_java, _java, has_consumer_protocol=True),
    StockLibrary(
        "franz-go",
        "franz-go",
        "1.22.2",
        CODECS,
        "",
        _install_franz_go,
        lambda folder: [str(folder / "franz_go")],
    ),
    StockLibrary(
        "aiokafka", "aiokafka", "0.14.0", CODECS, "", _install_python, _python("aiokafka_program.py")
    ),
    StockLibrary(
        "kafka-python",
        "kafka-python",
        "3.0.12",
        CODECS,
        "",
        _install_python,
        _python("kafka_python.py"),
        null_headers=False,
    ),
    StockLibrary(
        "kafkajs",
        "kafkajs",
        "2.2.4",
        ("none", "gzip"),
        "its consumers are members of groups",
        _install_kafkajs,
        lambda folder: ["node", str(folder / "node/kafkajs_program.js")],
        null_headers=False,
        assigns_by_range=False,
        has_static_members=False,
    ),
    StockLibrary(
        "tank-client",
        "our own, by TANK's protocol",
        "this one",
        ("none", "snappy"),
        "",
        _nothing,
        _our_own,
        speaks_tank=True,
    ),
)
"""All libraries that are tried."""
