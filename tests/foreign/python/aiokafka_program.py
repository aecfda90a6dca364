"""aiokafka: see ../programs.py for what a program is asked."""

import asyncio
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

PATIENCE_S = 20.0


async def _produce(servers: str, topic: str, count: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, linger_ms=2) as producer:
        sent = [await producer.send(topic, b"%d" % n, key=b"%d" % n, headers=_headers(n)) for n in range(count)]
        for n, one in enumerate(sent):
            await _print(n, one)


def _headers(n: int) -> list[tuple[str, bytes]]:
    return [("delay", b"1s")] if n % 3 == 0 else []


async def _print(n: int, sent: "asyncio.Future[object]") -> None:
    try:
        print(f"acked {n} {(await sent).offset}")  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - whatever its user gets
        print(f"failed {n} {error!r}")


async def _refused(servers: str, topic: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True) as producer:
        for n, delay in enumerate((b"soon", b"1s")):
            await _print(n, await producer.send(topic, b"%d" % n, headers=[("delay", delay)], partition=0))


async def _consume(servers: str, topic: str, count: int) -> None:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    values: set[bytes] = set()
    async with consumer:
        last = time.monotonic()
        while len(values) < count and time.monotonic() - last < PATIENCE_S:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for one in records:
                    print(f"read {one.partition} {one.offset} {one.value.decode()}")
                    values.add(one.value)
                    last = time.monotonic()


if __name__ == "__main__":
    what, servers, topic, *rest = sys.argv[1:]
    if what == "refused":
        asyncio.run(_refused(servers, topic))
    else:
        asyncio.run({"produce": _produce, "consume": _consume}[what](servers, topic, int(rest[0])))
