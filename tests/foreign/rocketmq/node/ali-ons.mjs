// Alibaba's client for JavaScript, which signs every request; see programs.py.
import { createRequire } from "node:module";

const { Consumer, Message, Producer } = createRequire(import.meta.url)("ali-ons");
const [mode, servers, topic, ...rest] = process.argv.slice(2);
const quiet = { debug() {}, info() {}, warn() {}, error() {}, write() {}, close() {}, child: () => quiet };
const common = { nameSrv: servers, accessKeyId: "anyone", accessKeySecret: "secret", logger: quiet, httpclient: {} }; // it asks for name servers over HTTP where none is given

async function send(producer, message) {
  const value = message.body.toString();
  try {
    const sent = await producer.send(message);
    const outcome = sent.sendStatus === "SEND_OK" ? "acked" : "failed";
    console.log(outcome, value, sent.msgId);
  } catch (error) {
    console.log("failed", value, error.message.replaceAll("\n", " "));
  }
}

async function started() {
  const producer = new Producer({ ...common, producerGroup: "producers" });
  producer.on("error", () => {});
  await producer.ready();
  return producer;
}

async function produce(count) {
  const producer = await started();
  for (let n = 0; n < count; n++) {
    const message = new Message(topic, "t", String(n));
    if (n % 5 === 1) message.delayTimeLevel = 1;
    if (n % 5 === 2) message.properties.TIMER_DELAY_MS = "700";
    if (n % 5 === 3) message.properties.delay = "900ms";
    if (n % 5 === 4) message.setStartDeliverTime(Date.now() + 800);
    await send(producer, message);
  }
}

async function refused() {
  const producer = await started();
  for (const [value, delay] of [["0", "soon"], ["1", "1s"]]) {
    const message = new Message(topic, "t", value);
    message.properties.delay = delay;
    await send(producer, message);
  }
}

async function consume(group, count) {
  const consumer = new Consumer({ ...common, consumerGroup: group, consumeFromWhere: "CONSUME_FROM_FIRST_OFFSET" });
  consumer.on("error", () => {});
  let failed = false;
  await new Promise((done) => {
    let left = count;
    setTimeout(done, 60_000);
    consumer.subscribe(topic, "*", async (message) => {
      const value = message.body.toString();
      if (value === "7" && !failed) { // one of them is sent back, and comes again
        failed = true;
        throw new Error("later");
      }
      console.log("read", message.queueId, String(message.queueOffset), value);
      if (--left === 0) done();
    });
  });
}

if (mode === "produce") await produce(Number(rest[0]));
else if (mode === "refused") await refused();
else await consume(rest[0], Number(rest[1]));
process.exit(0);
