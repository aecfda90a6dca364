// rskafka: see ../../programs.py for what a program is asked.
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::ClientBuilder;
use rskafka::record::Record;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let servers = args[2].split(',').map(str::to_owned).collect();
    let client = ClientBuilder::new(servers).build().await.expect("a client");
    let topics = client.list_topics().await.expect("topics");
    let topic = topics.into_iter().find(|one| one.name == args[3]).expect("the topic");
    let partitions: Vec<i32> = topic.partitions.iter().copied().collect();
    match args[1].as_str() {
        "produce" => produce(&client, &args[3], args[4].parse().unwrap()).await,
        "consume" => consume(&client, &args[3], partitions, args[4].parse().unwrap()).await,
        _ => refused(&client, &args[3]).await,
    }
}

fn record(value: &str, delay: &str) -> Record {
    let mut headers = BTreeMap::new();
    if !delay.is_empty() {
        headers.insert("delay".to_owned(), delay.as_bytes().to_vec());
    }
    Record {
        key: Some(value.as_bytes().to_vec()),
        value: Some(value.as_bytes().to_vec()),
        headers,
        timestamp: chrono::DateTime::from_timestamp_millis(1_767_225_600_000).unwrap(),
    }
}

async fn produce(client: &rskafka::client::Client, topic: &str, count: usize) {
    let partition = client.partition_client(topic, 0, UnknownTopicHandling::Retry).await.expect("a partition");
    for first in (0..count).step_by(20) {
        let values: Vec<usize> = (first..count.min(first + 20)).collect();
        let records = values.iter().map(|n| record(&n.to_string(), if n % 3 == 0 { "1s" } else { "" })).collect();
        match partition.produce(records, Compression::Snappy).await {
            Ok(offsets) => values.iter().zip(offsets).for_each(|(n, offset)| println!("acked {n} {offset}")),
            Err(error) => values.iter().for_each(|n| println!("failed {n} {error}")),
        }
    }
}

async fn consume(client: &rskafka::client::Client, topic: &str, partitions: Vec<i32>, count: usize) {
    let mut values = BTreeSet::new();
    for id in partitions {
        let partition = client.partition_client(topic, id, UnknownTopicHandling::Retry).await.expect("a partition");
        let mut at = 0;
        let mut last = Instant::now();
        while values.len() < count && last.elapsed() < PATIENCE / 4 {
            let (records, _) = match partition.fetch_records(at, 1..1_000_000, 1_000).await {
                Ok(fetched) => fetched,
                Err(error) => {
                    println!("failed {at} {error}");
                    break;
                }
            };
            for one in records {
                let value = String::from_utf8_lossy(&one.record.value.unwrap_or_default()).into_owned();
                println!("read {id} {} {value}", one.offset);
                at = one.offset + 1;
                values.insert(value);
                last = Instant::now();
            }
        }
    }
}

async fn refused(client: &rskafka::client::Client, topic: &str) {
    let partition = client.partition_client(topic, 0, UnknownTopicHandling::Retry).await.expect("a partition");
    for (n, delay) in ["soon", "1s"].iter().enumerate() {
        match partition.produce(vec![record(&n.to_string(), delay)], Compression::NoCompression).await {
            Ok(offsets) => println!("acked {n} {}", offsets[0]),
            Err(error) => println!("failed {n} {error}"),
        }
    }
}
