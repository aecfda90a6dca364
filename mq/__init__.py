"""Message queues behind one contract (`mq.contract`): embedded, in-memory; Kafka and RocketMQ to come."""
