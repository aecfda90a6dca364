// kafkajs: see ../programs.py for what a program is asked.
import { Kafka, logLevel } from "kafkajs";

const [what, servers, topic, count] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "foreign", brokers: servers.split(","), logLevel: logLevel.NOTHING });

const message = (value, delay) => ({ key: `${value}`, value: `${value}`, headers: delay ? { delay } : {} });

async function send(producer, value, delay) {
  try {
    const [done] = await producer.send({ topic, acks: -1, messages: [message(value, delay)] });
    console.log(`acked ${value} ${done.baseOffset}`);
  } catch (error) {
    console.log(`failed ${value} ${error.message}`);
  }
}

async function produce() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (let first = 0; first < Number(count); first += 20) {
    const values = Array.from({ length: Math.min(20, count - first) }, (_, n) => first + n);
    const messages = values.map((n) => message(n, n % 3 === 0 ? "1s" : ""));
    try {
      const done = await producer.send({ topic, acks: -1, messages });
      for (const n of values) console.log(`acked ${n} ${done[0].baseOffset}`);
    } catch (error) {
      for (const n of values) console.log(`failed ${n} ${error.message}`);
    }
  }
  await producer.disconnect();
}

async function consume() {
  const consumer = kafka.consumer({ groupId: `foreign-${Date.now()}`, readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const values = new Set();
  let last = Date.now();
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      console.log(`read ${partition} ${message.offset} ${message.value}`);
      values.add(`${message.value}`);
      last = Date.now();
    },
  });
  while (values.size < Number(count) && Date.now() - last < 20_000) await new Promise((done) => setTimeout(done, 100));
  await consumer.disconnect();
}

async function refused() {
  const producer = kafka.producer({ retry: { retries: 2 } });
  await producer.connect();
  await send(producer, 0, "soon");
  await send(producer, 1, "1s");
  await producer.disconnect();
}

await { produce, consume, refused }[what]();
