//! Hostile servers on loopback.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, WatchParams};
use metal3_runtime::error::chain;
use metal3_runtime::lookups::Lookups;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::workload::account::Limits;
use crate::workload::connect;
use crate::workload::pace::Paces;
use metal3_runtime::store::ObjectKey;

fn pace() -> Pace {
    Paces::default().of(ObjectKey::new("ns", "c"))
}

fn limited(config: &kube::Config, limits: Limits) -> Client {
    rustls::crypto::ring::default_provider().install_default().ok();
    let (places, pace) = (Lookups::new(WORKLOAD_BODY).of("ns"), pace());
    let client = connect::client(config, &crate::sim::limits().into(), places, &pace).unwrap();
    bounded(client, &Account::new(limits), "ns", &pace)
}

/// Answers every request with this head, then with this text for ever.
async fn endless(head: &'static str, text: &'static str) -> (Client, JoinSet<()>) {
    let (config, server) = endless_at(head, text).await;
    (limited(&config, Limits::DEFAULT), server)
}

async fn endless_at(head: &'static str, text: &'static str) -> (kube::Config, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut callers = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            callers.spawn(async move {
                let mut request = [0; 4096];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                stream.write_all(head.as_bytes()).await.unwrap();
                let text = text.repeat(64 << 10);
                while !text.is_empty() && stream.write_all(text.as_bytes()).await.is_ok() {}
            });
        }
    });
    (kube::Config::new(url.parse().unwrap()), server)
}

const OK: &str = "HTTP/1.1 200 OK\r\n\r\n";

async fn within<T>(request: impl Future<Output = Result<T, kube::Error>>) -> String {
    let answer = tokio::time::timeout(Duration::from_secs(20), request).await;
    let error = answer.expect("the body is bounded").err().unwrap();
    chain(&error).to_string()
}

// OWN 23a: a workload cluster that streams for ever filled the memory of all.
#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    for (head, text, told) in [
        (OK, " ", "more than 16777216 bytes"),
        (OK, "{},", "fit into 134217728 bytes"),
        (OK, "[],", "fit into 134217728 bytes"),
        (OK, "\"a\":", "fit into 134217728 bytes"),
        ("HTTP/1.1 500 No\r\n\r\n", "x", "more than 65536 bytes"),
    ] {
        let (client, _server) = endless(head, text).await;
        let nodes: Api<Node> = Api::all(client);
        let error = within(nodes.list(&ListParams::default())).await;
        assert!(error.contains(told), "{error}");
    }
}

#[tokio::test]
async fn an_answer_with_one_node_may_be_no_larger_than_a_line_of_a_watch() {
    let (client, _server) = endless(OK, " ").await;
    let nodes: Api<Node> = Api::all(client);
    let error = within(nodes.get("n")).await;
    assert!(error.contains("more than 4194304 bytes"), "{error}");
}

// OWN 31ab: the name of a Node made a patch of it count as a watch, whose answer may be of any length.
#[test]
fn only_a_collection_is_watched() {
    let asked = |path: &str| Asked::of(&path.parse().unwrap());
    assert_eq!(asked("/api/v1/nodes?&watch=true"), Asked::Watch);
    assert_eq!(asked("/api/v1/nodes/x?watch=true?"), Asked::Node);
}

#[test]
fn a_list_has_no_more_pages_than_its_nodes_need() {
    let pages = Pages::default();
    let ask = |query: &str| pages.check(Asked::of(&format!("/api/v1/nodes?&{query}").parse().unwrap()));
    for _ in 0..2 {
        ask("limit=50").unwrap();
        (1..MOST_PAGES).for_each(|_| ask("limit=50&continue=x").unwrap());
        // A probe and a watch do not begin the list anew.
        ask("limit=1").unwrap();
        ask("watch=true&resourceVersion=1").unwrap();
        assert_eq!(ask("limit=50&continue=x"), Err(Exceeded::Pages));
    }
}

#[tokio::test]
async fn an_endless_line_of_a_watch_is_cut_off() {
    use futures::TryStreamExt;
    let (client, _server) = endless(OK, "x").await;
    let nodes: Api<Node> = Api::all(client);
    let error = within(async {
        let events = nodes.watch(&WatchParams::default(), "0").await?;
        std::pin::pin!(events).try_next().await
    })
    .await;
    assert!(error.contains("more than 4194304 bytes"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let head = format!("HTTP/1.1 307 Elsewhere\r\nlocation: http://{to}/\r\ncontent-length: 0\r\n\r\n");
    let (client, _server) = endless(head.leak(), "").await;
    let nodes: Api<Node> = Api::all(client);
    assert!(
        tokio::time::timeout(Duration::from_secs(2), nodes.get("n"))
            .await
            .is_ok_and(|n| n.is_err())
    );
    let asked = tokio::time::timeout(Duration::from_millis(200), listener.accept()).await;
    assert!(asked.is_err(), "the credentials went to another host");
}

#[tokio::test]
async fn what_is_read_at_once_for_one_namespace_is_bounded_and_given_back() {
    let small = Limits {
        namespace: 1 << 20,
        ..Limits::DEFAULT
    };
    for watch in [false, true] {
        let (config, _server) = endless_at(OK, "x").await;
        let nodes: Api<Node> = Api::all(limited(&config, small));
        for _ in 0..2 {
            let error = within(async {
                if !watch {
                    return nodes.list(&ListParams::default()).await.map(drop);
                }
                let events = nodes.watch(&WatchParams::default(), "0").await?;
                futures::TryStreamExt::try_next(&mut std::pin::pin!(events))
                    .await
                    .map(drop)
            })
            .await;
            assert!(error.contains("its namespace take 1048576 bytes"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_small_answer_comes_through_when_the_namespace_has_its_part() {
    let text = r#"{"metadata": {"resourceVersion": "1"}, "items": []}"#;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
    let (config, _server) = endless_at(head.leak(), "").await;
    let none = Limits {
        namespace: 0,
        ..Limits::DEFAULT
    };
    let nodes: Api<Node> = Api::all(limited(&config, none));
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 0);
}

/// Answers every request with the head, then with one byte per interval, for ever.
async fn trickling(interval: Duration) -> (Client, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = kube::Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut callers = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            callers.spawn(async move {
                let mut request = [0; 4096];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                stream.write_all(OK.as_bytes()).await.unwrap();
                while stream.write_all(b" ").await.is_ok() {
                    tokio::time::sleep(interval).await;
                }
            });
        }
    });
    (limited(&config, Limits::DEFAULT), server)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_trickles_for_ever_is_cut_off() {
    use futures::TryStreamExt;
    let (client, _server) = trickling(Duration::from_secs(1)).await;
    let (nodes, start) = (Api::<Node>::all(client), tokio::time::Instant::now());
    let error = chain(&nodes.list(&ListParams::default()).await.unwrap_err()).to_string();
    assert!(error.contains("within 30 s"), "{error}");
    let after_list = start.elapsed();
    assert!(
        after_list >= WORKLOAD_BODY && after_list < WORKLOAD_BODY * 2,
        "{after_list:?}"
    );
    let start = tokio::time::Instant::now();
    let events = nodes.watch(&WatchParams::default(), "0").await.unwrap();
    let error = chain(&std::pin::pin!(events).try_next().await.unwrap_err()).to_string();
    assert!(error.contains("within 330 s"), "{error}");
    let watched = start.elapsed();
    assert!(watched >= WORKLOAD_WATCH && watched < WORKLOAD_WATCH * 2, "{watched:?}");
}

// OWN 23l: a watch was read as fast as its server sent it.
#[tokio::test(start_paused = true)]
async fn a_watch_is_read_no_faster_than_its_pace() {
    let frame =
        async |body: &mut Bounded| std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
    let start = tokio::time::Instant::now();
    for (is_watch, at_least) in [(false, 0), (true, 20)] {
        let share = Account::new(Limits::DEFAULT).share("ns");
        let mut body = Bounded::new(
            KubeBody::from([&[b'x'; 49][..], b"\n"].concat().repeat(7000)),
            MOST_LINE,
            is_watch,
            pace(),
            share,
        );
        assert!(frame(&mut body).await.unwrap().is_ok());
        assert!(frame(&mut body).await.is_none());
        assert_eq!(start.elapsed().as_secs() / 10 * 10, at_least);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_at_the_pace_of_the_cluster_and_its_pauses_do_not_end_it() {
    let (pace, start) = (pace(), tokio::time::Instant::now());
    let owed = pace.received(350 << 20);
    assert!(owed > WORKLOAD_BODY, "{owed:?}");
    let share = Account::new(Limits::DEFAULT).share("ns");
    let body = KubeBody::from(vec![b'x'; 8 << 20]);
    let mut body = Bounded::new(body, MOST_ANSWER, false, pace, share);
    let mut frames = 0;
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        frame.unwrap();
        frames += 1;
    }
    assert_eq!(frames, 1);
    assert!(start.elapsed() >= owed, "{:?}", start.elapsed());
}

// OWN 31sc: of each chunk of one byte, a list or an object kept the 8 KiB that hyper had read it into.
#[tokio::test]
async fn a_part_of_an_answer_does_not_keep_the_buffer_it_was_read_into() {
    let buffer = Bytes::from(vec![b' '; 8 << 10]);
    let share = Account::new(Limits::DEFAULT).share("ns");
    let mut body = Bounded::new(KubeBody::from(buffer.slice(..1)), MOST_ANSWER, false, pace(), share);
    let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
    let kept = frame.unwrap().unwrap().into_data().unwrap();
    drop(body);
    assert_eq!(kept.len(), 1);
    assert!(buffer.is_unique());
}

/// A chunk of one byte costs more than its byte.
#[tokio::test(start_paused = true)]
async fn each_part_of_an_answer_is_paced() {
    let pace = pace();
    let before = pace.received(350 << 20);
    let after = (0..1000).fold(before, |_, _| pace.read(0, 1));
    assert_eq!(after, before + Duration::from_millis(2));
}

/// A server that ends each watch at once would be asked again as fast as it answers.
#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_begun_once_in_a_second() {
    let (pace, start) = (pace(), tokio::time::Instant::now());
    for _ in 0..80 {
        tokio::time::sleep(pace.begin()).await;
    }
    assert!((29..=31).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}
