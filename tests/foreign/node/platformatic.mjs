// @platformatic/kafka: see ../programs.py for what a program is asked.
import { Consumer, MessagesStreamModes, Producer, ProduceAcks, stringDeserializers, stringSerializers } from "@platformatic/kafka";

const [what, servers, topic, count] = process.argv.slice(2);
const common = { clientId: "foreign", bootstrapBrokers: servers.split(",") };

const message = (value, delay) => ({ topic, key: `${value}`, value: `${value}`, headers: delay ? { delay } : {} });
const reason = (error) => [error.message, ...(error.errors ?? []).map((one) => one.message)].join("; ");

async function send(producer, value, delay) {
  try {
    const done = await producer.send({ acks: ProduceAcks.ALL, messages: [message(value, delay)] });
    console.log(`acked ${value} ${done.offsets?.[0]?.offset}`);
  } catch (error) {
    console.log(`failed ${value} ${reason(error)}`);
  }
}

async function produce() {
  const producer = new Producer({ ...common, idempotent: true, serializers: stringSerializers });
  for (let first = 0; first < Number(count); first += 20) {
    const values = Array.from({ length: Math.min(20, count - first) }, (_, n) => first + n);
    try {
      const done = await producer.send({ acks: ProduceAcks.ALL, messages: values.map((n) => message(n, n % 3 === 0 ? "1s" : "")) });
      for (const n of values) console.log(`acked ${n} ${done.offsets?.[0]?.offset}`);
    } catch (error) {
      for (const n of values) console.log(`failed ${n} ${reason(error)}`);
    }
  }
  await producer.close();
}

async function consume() {
  const consumer = new Consumer({ ...common, groupId: `foreign-${Date.now()}`, deserializers: stringDeserializers });
  const stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.EARLIEST, isolationLevel: "READ_COMMITTED" });
  const values = new Set();
  let last = Date.now();
  stream.on("data", (one) => {
    console.log(`read ${one.partition} ${one.offset} ${one.value}`);
    values.add(one.value);
    last = Date.now();
  });
  while (values.size < Number(count) && Date.now() - last < 20_000) await new Promise((done) => setTimeout(done, 100));
  await consumer.close(true);
}

async function refused() {
  const producer = new Producer({ ...common, retries: 2, serializers: stringSerializers });
  await send(producer, 0, "soon");
  await send(producer, 1, "1s");
  await producer.close();
}

await { produce, consume, refused }[what]();
