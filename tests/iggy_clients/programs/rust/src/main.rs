//! Walks through what Iggy's crate for Rust can do over TCP: `walk HOST:PORT`. Prints a line of JSON for each step:
//! its name, and what was wrong; empty: nothing. The feature `framed` is for its versions from 0.11 on.
use futures_util::StreamExt;
use iggy::prelude::*;
use std::error::Error;
use std::future::Future;
use std::str::FromStr;

type Done = Result<(), Box<dyn Error>>;

const MESSAGES: u32 = 10;
const STREAM: &str = "walk";
const TOPIC: &str = "steps";

fn quoted(text: &str) -> String {
    let kept: String = text.chars().take(300).collect();
    let mut out = String::from("\"");
    for each in kept.chars() {
        match each {
            '"' | '\\' => out.extend(['\\', each]),
            each if each < ' ' => out.push(' '),
            each => out.push(each),
        }
    }
    out.push('"');
    out
}

async fn step(name: &str, run: impl Future<Output = Done>) {
    let wrong = match run.await {
        Ok(()) => String::new(),
        Err(error) => format!("{error:?}"),
    };
    println!("[{}, {}]", quoted(name), quoted(&wrong));
}

fn expect<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Done {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{found:?}, where {wanted:?} is wanted").into())
}

fn refused<T>(found: Result<T, IggyError>) -> Done {
    if found.is_err() {
        return Ok(());
    }
    Err("it was not refused".into())
}

fn id(text: &str) -> Identifier {
    Identifier::from_str(text).expect("a name")
}

fn numbered() -> Vec<IggyMessage> {
    let payloads = (0..MESSAGES).map(|number| format!("message {number}"));
    payloads.map(|each| IggyMessage::from_str(&each).expect("a message")).collect()
}

#[cfg(feature = "framed")]
async fn make_topic(client: &IggyClient, stream: &str, topic: &str, partitions: u32) -> Done {
    let options = TopicCreateOptions { partitions_count: Some(partitions), ..Default::default() };
    client.create_topic(&id(stream), topic, &options).await?;
    Ok(())
}

#[cfg(not(feature = "framed"))]
async fn make_topic(client: &IggyClient, stream: &str, topic: &str, partitions: u32) -> Done {
    let (expiry, size) = (IggyExpiry::ServerDefault, MaxTopicSize::ServerDefault);
    let none = CompressionAlgorithm::None;
    client.create_topic(&id(stream), topic, partitions, none, None, expiry, size).await?;
    Ok(())
}

fn connecting(address: &str) -> Result<IggyClient, IggyError> {
    IggyClient::from_connection_string(&format!("iggy+tcp://iggy:iggy@{address}"))
}

async fn polled(client: &IggyClient, strategy: PollingStrategy, count: u32) -> Result<Vec<u64>, IggyError> {
    let consumer = Consumer::new(id("walker"));
    let (stream, topic) = (id(STREAM), id(TOPIC));
    let found = client.poll_messages(&stream, &topic, Some(0), &consumer, &strategy, count, true).await?;
    Ok(found.messages.iter().map(|each| each.header.offset).collect())
}

async fn getting_started(address: &str) -> Done {
    let client = connecting(address)?;
    client.connect().await?;
    client.create_stream("sample-stream").await?;
    make_topic(&client, "sample-stream", "sample-topic", 1).await?;
    let producer = client.producer("sample-stream", "sample-topic")?.build();
    producer.init().await?;
    producer.send(numbered()).await?;
    let mut consumer = client
        .consumer_group("sample-group", "sample-stream", "sample-topic")?
        .polling_strategy(PollingStrategy::next())
        .auto_commit(AutoCommit::When(AutoCommitWhen::PollingMessages))
        .create_consumer_group_if_not_exists()
        .auto_join_consumer_group()
        .batch_length(3)
        .build();
    consumer.init().await?;
    let mut offsets = Vec::new();
    while offsets.len() < MESSAGES as usize {
        match consumer.next().await {
            Some(found) => offsets.push(found?.message.header.offset),
            None => return Err("the consumer ended".into()),
        }
    }
    expect(offsets, (0..u64::from(MESSAGES)).collect())?;
    consumer.shutdown().await?;
    client.delete_stream(&id("sample-stream")).await?;
    Ok(())
}

async fn users(client: &IggyClient, address: &str) -> Done {
    let made = client.create_user("reader", "secret password", UserStatus::Active, None).await?;
    expect(client.get_users().await?.len(), 2)?;
    expect(client.get_user(&id("reader")).await?.map(|each| each.id), Some(made.id))?;
    let text = format!("iggy+tcp://{}:{}@{address}", "reader", "secret password");
    let other = IggyClient::from_connection_string(&text)?;
    other.connect().await?;
    refused(other.create_stream("forbidden").await)?;
    client.change_password(&id("reader"), "secret password", "another password").await?;
    client.update_permissions(&id("reader"), None).await?;
    client.delete_user(&id("reader")).await?;
    expect(client.get_user(&id("reader")).await?.is_none(), true)
}

async fn tokens(client: &IggyClient, address: &str) -> Done {
    let token = client.create_personal_access_token("walker", PersonalAccessTokenExpiry::NeverExpire).await?;
    expect(client.get_personal_access_tokens().await?.len(), 1)?;
    let other = IggyClient::from_connection_string(&format!("iggy+tcp://{}@{address}", token.token))?;
    other.connect().await?;
    expect(other.get_streams().await?.len(), 1)?;
    client.delete_personal_access_token("walker").await?;
    expect(client.get_personal_access_tokens().await?.len(), 0)
}

async fn groups(client: &IggyClient) -> Done {
    let (stream, topic, group) = (id(STREAM), id(TOPIC), id("workers"));
    client.create_consumer_group(&stream, &topic, "workers").await?;
    client.join_consumer_group(&stream, &topic, &group).await?;
    let found = client.get_consumer_group(&stream, &topic, &group).await?.ok_or("no group")?;
    expect((found.members_count, found.partitions_count), (1, 2))?;
    expect(client.get_consumer_groups(&stream, &topic).await?.len(), 1)?;
    client.leave_consumer_group(&stream, &topic, &group).await?;
    client.delete_consumer_group(&stream, &topic, &group).await?;
    expect(client.get_consumer_group(&stream, &topic, &group).await?.is_none(), true)
}

async fn offsets(client: &IggyClient) -> Done {
    let (stream, topic, me) = (id(STREAM), id(TOPIC), Consumer::new(id("me")));
    client.store_consumer_offset(&me, &stream, &topic, Some(0), 4).await?;
    let found = client.get_consumer_offset(&me, &stream, &topic, Some(0)).await?.ok_or("nothing is stored")?;
    expect((found.current_offset, found.stored_offset), (9, 4))?;
    client.delete_consumer_offset(&me, &stream, &topic, Some(0)).await?;
    expect(client.get_consumer_offset(&me, &stream, &topic, Some(0)).await?.is_none(), true)?;
    refused(client.store_consumer_offset(&me, &stream, &topic, Some(0), 1000).await)
}

async fn sends(client: &IggyClient) -> Done {
    let (stream, topic) = (id(STREAM), id(TOPIC));
    client.send_messages(&stream, &topic, &Partitioning::partition_id(0), &mut numbered()).await?;
    let optional = id("optional");
    for each in [Partitioning::balanced(), Partitioning::messages_key_str("a key")?] {
        client.send_messages(&stream, &optional, &each, &mut numbered()[..1]).await?;
    }
    let found = client.get_topic(&stream, &optional).await?.ok_or("no topic")?;
    expect(found.messages_count, 2)
}

async fn polls(client: &IggyClient) -> Done {
    expect(polled(client, PollingStrategy::first(), 100).await?, (0..10).collect())?;
    expect(polled(client, PollingStrategy::offset(7), 2).await?, vec![7, 8])?;
    expect(polled(client, PollingStrategy::last(), 3).await?, vec![7, 8, 9])?;
    expect(polled(client, PollingStrategy::timestamp(IggyTimestamp::zero()), 100).await?.len(), 10)?;
    expect(polled(client, PollingStrategy::offset(1000), 10).await?, vec![])?;
    expect(polled(client, PollingStrategy::next(), 10).await?, vec![])
}

async fn ends(client: &IggyClient) -> Done {
    let (stream, topic) = (id(STREAM), id(TOPIC));
    client.create_partitions(&stream, &topic, 3).await?;
    client.delete_partitions(&stream, &topic, 2).await?;
    expect(client.get_topic(&stream, &topic).await?.map(|each| each.partitions_count), Some(3))?;
    client.purge_topic(&stream, &topic).await?;
    expect(polled(client, PollingStrategy::first(), 1).await?, vec![])?;
    client.purge_stream(&stream).await?;
    client.delete_topic(&stream, &topic).await?;
    expect(client.get_topic(&stream, &topic).await?.is_none(), true)?;
    client.delete_stream(&stream).await?;
    expect(client.get_stream(&stream).await?.is_none(), true)
}

#[tokio::main]
async fn main() {
    let address = std::env::args().nth(1).expect("HOST:PORT");
    step("getting started: a producer, and a consumer of a group", getting_started(&address)).await;
    let client = connecting(&address).expect("a client");
    step("connects and logs in", async { Ok(client.connect().await?) }).await;
    step("pings", async { Ok(client.ping().await?) }).await;
    step("shows statistics, itself and all clients", async {
        expect(client.get_stats().await?.hostname.is_empty(), false)?;
        let me = client.get_me().await?;
        expect(client.get_client(me.client_id).await?.is_some(), true)?;
        expect(client.get_clients().await?.iter().any(|each| each.client_id == me.client_id), true)
    })
    .await;
    step("shows the cluster", async { expect(client.get_cluster_metadata().await?.nodes.len(), 1) }).await;
    step("makes a stream, and is refused a second one of the name", async {
        expect(client.get_stream(&id(STREAM)).await?.is_none(), true)?;
        client.create_stream(STREAM).await?;
        expect(client.get_stream(&id(STREAM)).await?.map(|each| each.topics_count), Some(0))?;
        refused(client.create_stream(STREAM).await)
    })
    .await;
    step("makes and lists topics", async {
        make_topic(&client, STREAM, TOPIC, 2).await?;
        make_topic(&client, STREAM, "optional", 1).await?;
        expect(client.get_topics(&id(STREAM)).await?.len(), 2)
    })
    .await;
    step("sends messages, by key and balanced", sends(&client)).await;
    step("polls from the first, an offset, the last, a time and the next", polls(&client)).await;
    step("stores, shows and deletes offsets", offsets(&client)).await;
    step("makes, joins, leaves and deletes a group", groups(&client)).await;
    step("manages users", users(&client, &address)).await;
    step("makes and deletes access tokens and logs in by one", tokens(&client, &address)).await;
    step("adds and removes partitions, empties and deletes", ends(&client)).await;
    step("logs out", async { Ok(client.logout_user().await?) }).await;
}
