"""`python -m tests.unit.api.serve_api PORT`: the real shell around an API over a queue in memory. `undecided`: owners
are asked, which is printed, and do not answer."""

import sys

from api.server import HttpPort, serve
from delayline.process.listening import CannotListen
from tests.unit.api.in_memory import Api


def main() -> int:
    api = Api()
    if "undecided" in sys.argv:
        api.owners.decide = lambda: print("asked", flush=True)
    try:
        port = HttpPort(api.app, "127.0.0.1", int(sys.argv[1]), "worker.port")
        serve(port, on_started=lambda _: print("started", flush=True))
    except CannotListen as error:
        print(error, flush=True)
        return 1
    print("ended", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
