//! Bounds on what a workload cluster may send. Its API server belongs to a tenant: without them one server that streams for
//! ever fills the memory that all clusters share.
//!
//! Compressed answers need no bound of their own: kube's gzip feature is off, so nothing is ever unpacked. Redirects are
//! not followed: hyper's client does not, and kube adds nothing that would.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use kube::Client;
use kube::client::{Body as KubeBody, ClientBuilder};
use metal3_runtime::timing::provider::{WORKLOAD_BODY, WORKLOAD_WATCH};
use tokio::time::Sleep;

use super::account::{Account, Share};

/// Nodes that are asked for at once. The first list of a large cluster takes more requests, each with little memory.
pub const PAGE: u32 = 50;
/// Nodes of one cluster: twice what Kubernetes is tested with.
pub const MOST_NODES: usize = 10_000;
/// Bytes of memory for all Nodes of one cluster as they are kept: 13 KiB for each of the most Nodes; an ordinary one, whose
/// labels, annotations and addresses are 2 KiB of JSON, takes 9.
pub const MOST_KEPT: usize = 128 << 20;
/// Workload clusters that are followed for one namespace. Each has a connection, a task and its Nodes.
pub const MOST_CLUSTERS: usize = 1000;
/// One answer. A page of Nodes has 160 KiB for each; the Pods of a Node and all VolumeAttachments are listed unpaged.
const MOST_ANSWER: usize = 16 << 20;
/// An answer that refuses a request: a Status.
const MOST_REFUSAL: usize = 64 << 10;
/// One line of a watch: etcd takes objects of 1.5 MiB, which are longer as JSON.
const MOST_LINE: usize = 4 << 20;
/// Memory that one answer or line takes when it is turned into objects, roughly. A page of large Pods takes a fourth of it.
const MOST_MEMORY: usize = 128 << 20;
/// An object of two bytes becomes a structure as large as a Node, or a map.
const OBJECT: usize = 2 << 10;
/// An element of a list may be one byte.
const ELEMENT: usize = 48;
/// A text has two quotation marks.
const QUOTE: usize = 24;
/// So much of each answer and of each line is read without being counted together with others': an ordinary Node, or a page of
/// a small cluster, so that a namespace that has used up its part goes on with what it follows. Besides the connection it
/// is little.
const FREE: usize = 32 << 10;
/// A piece of an answer costs so much besides its bytes until the answer is complete: a server may send them one by one.
const PIECE: usize = 64;

/// Which bound was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Too many bytes.
    #[error("it sends more than {0} bytes in one answer or watch event; objects there must be smaller")]
    Bytes(usize),
    /// Too many parts.
    #[error(
        "it sends more objects and texts in one answer or watch event than fit into {MOST_MEMORY} bytes; there must be fewer"
    )]
    Parts,
    /// Too slow.
    #[error("it has not sent the rest of an answer within {} s", .0.as_secs())]
    Time(Duration),
    /// Too many Nodes.
    #[error("it has more than {MOST_NODES} Nodes, which are not followed; split the cluster")]
    Nodes,
    /// Too much in them.
    #[error("its Nodes take more than {MOST_KEPT} bytes; remove large annotations and labels from them")]
    Kept,
    /// Too much of all clusters of one namespace.
    #[error(
        "the clusters of its namespace take {0} bytes of memory, as much as they may together; remove large annotations and \
         labels from their Nodes, delete clusters, or use another namespace"
    )]
    Namespace(usize),
    /// Too much of all clusters.
    #[error(
        "the clusters of all namespaces take {0} bytes of memory, as much as they may together; clusters must become fewer or \
         smaller, or be given to another provider with --namespace"
    )]
    All(usize),
}

impl Exceeded {
    /// Whether the cluster would do if others took less.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Namespace(_) | Self::All(_))
    }

    /// Whether this only ends a watch, which is begun anew where it was.
    pub fn ends_watch_only(self) -> bool {
        self == Self::Time(WORKLOAD_WATCH)
    }
}

/// The same client, with every body bounded, and counted to the account of this namespace.
pub fn bounded(client: Client, account: &Account, tenant: &str) -> Client {
    let (account, tenant) = (account.clone(), tenant.to_owned());
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<KubeBody>| {
        let (client, share) = (client.clone(), account.share(&tenant));
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let answer = client.send(request).await?;
            let is_watch = is_watch && answer.status().is_success();
            let most = match answer.status() {
                status if !status.is_success() => MOST_REFUSAL,
                _ if is_watch => MOST_LINE,
                _ => MOST_ANSWER,
            };
            Ok::<_, kube::Error>(answer.map(|body| Bounded::new(body, most, is_watch, share)))
        }
    });
    ClientBuilder::new(service, namespace).build()
}

struct Bounded {
    inner: KubeBody,
    is_watch: bool,
    most: usize,
    bytes: usize,
    /// Of the longest line so far: the room that it took is kept for the next ones.
    longest: usize,
    memory: usize,
    share: Share,
    time: Duration,
    end: Pin<Box<Sleep>>,
}

impl Bounded {
    fn new(inner: KubeBody, most: usize, is_watch: bool, share: Share) -> Self {
        let time = if is_watch { WORKLOAD_WATCH } else { WORKLOAD_BODY };
        Self {
            inner,
            is_watch,
            most,
            bytes: 0,
            longest: 0,
            memory: 0,
            share,
            time,
            end: Box::pin(tokio::time::sleep(time)),
        }
    }

    fn count(&mut self, data: &[u8]) -> Result<(), Exceeded> {
        if !self.is_watch {
            self.bytes += PIECE;
        }
        for byte in data {
            self.bytes += 1;
            self.memory += match byte {
                b'{' => OBJECT,
                b',' => ELEMENT,
                b'"' => QUOTE,
                _ => 1,
            };
            if *byte == b'\n' && self.is_watch {
                (self.bytes, self.memory) = (0, 0);
            }
            if self.bytes > self.most {
                return Err(Exceeded::Bytes(self.most));
            }
            if self.memory > MOST_MEMORY {
                return Err(Exceeded::Parts);
            }
            self.longest = self.longest.max(self.bytes);
        }
        self.share.set(self.longest.saturating_sub(FREE))
    }
}

impl Body for Bounded {
    type Data = Bytes;
    type Error = tower::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(Exceeded::Time(self.time).into())));
        }
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            if let Some(data) = frame.data_ref() {
                self.count(data)?;
            }
            Ok(frame)
        }))
    }
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
