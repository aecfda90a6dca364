"""Programs on clients of RocketMQ, fetched from packages and built once into .cache/foreign.

Each takes the same arguments and prints the same lines. SERVER is a name server, or RocketMQ's own proxy for gRPC.

    produce SERVER TOPIC COUNT          values 0 to COUNT - 1, due at once or in about a second; of five each asks
                                        in another way (not at all, level, milliseconds, directive, moment)
    refused SERVER TOPIC                value 0 with `delay: soon`, then value 1 with `delay: 1s`
    consume SERVER TOPIC GROUP COUNT    until so many values are taken, or a minute; value 7 is sent back once
    simple SERVER TOPIC GROUP COUNT     gRPC only: as `consume`, with a SimpleConsumer, which sends nothing back
    recall SERVER TOPIC                 gRPC only: values 0 and 1, due in a few seconds, and 0 is recalled

    acked VALUE ID  |  failed VALUE REASON  |  recalled VALUE ID  |  read QUEUE OFFSET VALUE
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.brokers.distribution import copy_once
from tests.foreign.programs import BUILT, HERE, built, java_program, run

JAVA_VERSIONS = ("4.3.2", "4.9.8", "5.5.0")
GRPC_JAVA_VERSION = "5.2.0"
PROXY_VERSION = "5.5.0"
_OLD_NETTY = (
    "-Dio.netty.noUnsafe=true",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
"""Netty of 2016 reaches into a Java of its time."""

_FOLDER = HERE / "rocketmq"
_BUILT = BUILT / "rocketmq"


def _jars(artifact: str, version: str) -> tuple[Path, str, str]:
    return _BUILT / "java" / f"{artifact}-{version}", f"-Dartifact={artifact}", f"-Dartifact.version={version}"


def _java(artifact: str, version: str, program: str, *options: str) -> list[str]:
    home = f"-Duser.home={_BUILT}"  # where these clients write logs
    return java_program(
        _FOLDER / "java" / f"{program}.java", *_jars(artifact, version), run_with=[*_OLD_NETTY, home, *options]
    )


def grpc_proxy(config: Path, logback: Path) -> list[str]:
    """RocketMQ's own proxy, which serves gRPC. Needs `ROCKETMQ_HOME` in its environment. Raises Unavailable."""
    lib, *properties = _jars("rocketmq-proxy", PROXY_VERSION)
    copy_once(_FOLDER / "java" / "pom.xml", lib, *properties)
    options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={config.parent}"]
    main = "org.apache.rocketmq.proxy.ProxyStartup"
    return [
        "java",
        *options,
        f"-Drmq.logback.configurationFile={logback}",
        "-cp",
        f"{lib}/*",
        main,
        "-pc",
        str(config),
    ]


def _go() -> list[str]:
    folder = built("rocketmq/go", lambda at: run(["go", "build", "-o", f"{at}/bin/", "./..."], at))
    return [str(folder / "bin" / "rocketmq")]


def _node() -> list[str]:
    folder = built("rocketmq/node", lambda at: run(["npm", "install", "--no-audit", "--no-fund"], at))
    return ["node", str(folder / "ali-ons.mjs")]


def _python(program: str, requirement: str) -> list[str]:
    """In an environment of its own: two packages, and this tree, have the name `rocketmq`."""

    def build(at: Path) -> None:
        run([sys.executable, "-m", "venv", str(at / program)], at)
        run([str(at / program / "bin" / "python"), "-m", "pip", "install", "--quiet", requirement], at)

    folder = built(f"rocketmq/python-{program}", build)
    return [str(folder / program / "bin" / "python"), str(folder / f"{program}_program.py")]


REMOTING: Mapping[str, Callable[[], Sequence[str]]] = {
    **{
        f"Java {version}": lambda version=version: _java("rocketmq-client", version, "Remoting")
        for version in JAVA_VERSIONS
    },
    "C++ 2.1 (Python)": lambda: _python("cpp", "rocketmq==0.4.4"),
    "Go 2.1": _go,
    "ali-ons 3.12": _node,
}
GRPC: Mapping[str, Callable[[], Sequence[str]]] = {
    f"Java {GRPC_JAVA_VERSION}": lambda: _java("rocketmq-client-java", GRPC_JAVA_VERSION, "Grpc"),
    "Python 5.1": lambda: _python("grpc", "rocketmq-python-client==5.1.2"),
}
