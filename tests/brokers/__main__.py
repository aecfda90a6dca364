"""`make kafka`: one Kafka node for people, in the foreground. Topics are made on first use, data is kept."""

import os
import signal
import sys
import time
from contextlib import closing

from tests.brokers.distribution import CACHE, NEWEST, Unavailable
from tests.brokers.kafka import Kafka


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    port = int(os.environ.get("PORT") or 9092)
    if not (CACHE / NEWEST / "lib").is_dir():
        print(f"Fetching Kafka {NEWEST} with Maven into {CACHE}, once: 54 MB.", flush=True)
    try:
        with closing(Kafka(ports=[port], folder=CACHE / "data" / f"{NEWEST}-{port}", java_options=())) as kafka:
            kafka.start()
            print(
                f"Kafka {NEWEST} on {kafka.bootstrap_servers}; Ctrl-C ends it. Log: {kafka.nodes[0].log}", flush=True
            )
            while kafka.nodes[0].running:
                time.sleep(0.5)
        print("The broker ended by itself; see its log.", file=sys.stderr)
    except Unavailable as error:
        print(f"No Kafka: {error}.", file=sys.stderr)
    except KeyboardInterrupt:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
