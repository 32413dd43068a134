"""The stock libraries: how each is installed beside the project, and how its program is run.

All lies in one folder, `out/kafka_clients` if nothing else is chosen, and is kept from run to run. Package
registries are reached through the ordinary tools: pip, npm, go, Maven. A library whose tool is missing is
left out, and the run says so.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).parent / "programs"
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
    version: str
    codecs: tuple[str, ...]
    """The codecs that its producer has."""
    has_consumer: bool
    """Whether its program can read a partition without a group."""
    install: Callable[[Path], None]
    """Installs it into a folder. Raises NotInstalledError."""
    command: Callable[[Path], list[str]]
    """The command of its program, when it is installed in this folder."""


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NotInstalledError(f"there is no {name}")
    return found


def _run(command: list[str], folder: Path) -> None:
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


def _install_python(folder: Path) -> None:
    done = _venv(folder) / "installed"
    if done.exists() and done.read_text() == str(PYTHON_PACKAGES):
        return
    _run([sys.executable, "-m", "venv", str(_venv(folder))], folder)
    _run([str(_venv(folder) / "bin/pip"), "install", "--quiet", *PYTHON_PACKAGES], folder)
    done.write_text(str(PYTHON_PACKAGES))


def _python(program: str) -> Callable[[Path], list[str]]:
    return lambda folder: [str(_venv(folder) / "bin/python"), str(PROGRAMS / program)]


def _install_kafkajs(folder: Path) -> None:
    node = folder / "node"
    node.mkdir(exist_ok=True)
    if not (node / "node_modules/kafkajs").exists():
        _run([_tool("npm"), "install", "--no-audit", "--no-fund", "--prefix", str(node), KAFKAJS], node)
    _tool("node")
    shutil.copy(PROGRAMS / "kafkajs_program.js", node)


def _install_franz_go(folder: Path) -> None:
    _run(
        [_tool("go"), "build", "-o", str(folder / "franz_go"), "."], PROGRAMS / "franz_go"
    )  # go itself keeps what it has built


_POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>stock</groupId><artifactId>java-client</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>{JAVA_CLIENT}</version>
    </dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""


def _install_java(folder: Path) -> None:
    java = folder / "java"
    java.mkdir(exist_ok=True)
    if not list((java / "libs").glob(f"kafka-clients-{JAVA_CLIENT}.jar")):
        (java / "pom.xml").write_text(_POM)
        _run([_tool("mvn"), "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"], java)
    _run(
        [_tool("javac"), "-cp", "libs/*", "-d", str(java), str(PROGRAMS / "JavaClient.java")],
        java,
    )


def _java(folder: Path) -> list[str]:
    return ["java", "-cp", f"{folder / 'java/libs'}/*:{folder / 'java'}", "JavaClient"]


LIBRARIES: Final = (
    StockLibrary("librdkafka", "2.16.1", CODECS, True, _install_python, _python("confluent.py")),
    StockLibrary("kafka-python", "3.0.12", CODECS, True, _install_python, _python("kafka_python.py")),
    StockLibrary("aiokafka", "0.14.0", CODECS, True, _install_python, _python("aiokafka_program.py")),
    StockLibrary(
        "kafkajs",
        "2.2.4",
        ("none", "gzip"),
        False,
        _install_kafkajs,
        lambda folder: ["node", str(folder / "node/kafkajs_program.js")],
    ),
    StockLibrary(
        "franz-go", "1.18.1", CODECS, True, _install_franz_go, lambda folder: [str(folder / "franz_go")]
    ),
    StockLibrary("Java", JAVA_CLIENT, CODECS, True, _install_java, _java),
)
"""All libraries that are tried."""
