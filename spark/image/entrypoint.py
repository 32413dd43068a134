#!/usr/bin/env python3
"""The entrypoint of the Spark image's containers, because PySpark's wheel has none for Kubernetes.

    executor               the JVM of an executor, as a driver on Kubernetes asks for it
    driver ARGUMENTS…      spark-submit in client mode, as spark-submit in cluster mode asks for it
    COMMAND ARGUMENTS…     that command

The program replaces this process, so that SIGTERM reaches it. Source: Spark's documentation of Kubernetes,
and the variables that its drivers put into the pods of their executors (4.3). Uses only the standard library.
"""

import os
import re
import sys
from collections.abc import Mapping

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTIONS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""The backend's options, and the variables in which the driver puts their values into the pod."""


class NotAskedError(ValueError):
    """The environment is not one that a Spark driver makes; the message names the missing variables."""


def command(arguments: list[str], environment: Mapping[str, str]) -> list[str]:
    """The program to run, and its arguments. Raises NotAskedError."""
    if arguments[:1] == ["executor"]:
        return _executor(environment)
    if arguments[:1] == ["driver"]:
        address = _value(environment, "SPARK_DRIVER_BIND_ADDRESS")
        bound = ["--conf", f"spark.driver.bindAddress={address}", "--deploy-mode", "client"]
        return ["spark-submit", *bound, *arguments[1:]]
    return arguments or ["pyspark", "--help"]


def _executor(environment: Mapping[str, str]) -> list[str]:
    memory = _value(environment, "SPARK_EXECUTOR_MEMORY")
    paths = [
        environment.get("SPARK_CONF_DIR", ""),
        environment.get("SPARK_CLASSPATH", ""),
        f"{_value(environment, 'SPARK_HOME')}/jars/*",
        environment.get("SPARK_DIST_CLASSPATH", ""),
    ]
    java = f"{environment['JAVA_HOME']}/bin/java" if environment.get("JAVA_HOME") else "java"
    backend = [word for flag, name in OPTIONS.items() for word in (flag, _value(environment, name))]
    return [
        java, *java_options(environment), f"-Xms{memory}", f"-Xmx{memory}",
        "-cp", ":".join(filter(None, paths)), BACKEND, *backend,
    ]  # fmt: skip


def java_options(environment: Mapping[str, str]) -> list[str]:
    """The Java options, in the order of their variables: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …."""
    numbered = {
        int(match[1]): value
        for name, value in environment.items()
        if (match := re.fullmatch(r"SPARK_JAVA_OPT_(\d+)", name)) is not None
    }
    return [numbered[number] for number in sorted(numbered)]


def _value(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        raise NotAskedError(f"{name} is not set: this is for pods that a Spark driver makes")
    return environment[name]


def main() -> None:
    """Replaces this process with the command."""
    try:
        words = command(sys.argv[1:], os.environ)
    except NotAskedError as error:
        sys.exit(f"error: {error}")
    try:
        os.execvp(words[0], words)
    except OSError as error:
        sys.exit(f"error: {words[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
