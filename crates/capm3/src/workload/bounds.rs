//! Limits on what a workload cluster may send. Its API server belongs to a tenant: without limits, one server that streams for
//! ever would fill the memory shared by all clusters. How fast it is read is bounded as well, by its [`Pace`].
//!
//! Compressed responses need no limit of their own: kube's gzip feature is off, so nothing is decompressed. Redirects are not
//! followed: hyper's client does not, and kube adds nothing that would.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body::{Body, Frame};
use kube::Client;
use kube::client::{Body as KubeBody, ClientBuilder};
use metal3_runtime::timing::provider::{WORKLOAD_BODY, WORKLOAD_WATCH};
use tokio::time::Sleep;

use super::account::{Account, Share};
use super::pace::Pace;

/// Page size for Nodes. The first list of a large cluster takes several requests, each with little memory.
pub const PAGE: u32 = 50;
/// Maximum Nodes of one cluster: twice what Kubernetes is tested with.
pub const MOST_NODES: usize = 10_000;
/// Maximum pages of one list of Nodes. All but the last are full, as the list has no selector.
const MOST_PAGES: usize = MOST_NODES / PAGE as usize + 20;
/// Maximum memory for all stored Nodes of one cluster: 13 KiB each at the maximum number. An ordinary Node, whose labels,
/// annotations and addresses are 2 KiB of JSON, takes 9.
pub const MOST_KEPT: usize = 128 << 20;
/// Maximum length of a Node's UID. Kubernetes' UIDs have 36 bytes.
pub const MOST_UID: usize = 128;
/// Maximum connected workload clusters per namespace. Each has a connection, a task and its Nodes.
pub const MOST_CLUSTERS: usize = 1000;
/// Maximum response. A page of Nodes has 300 KiB for each, a page of Pods or VolumeAttachments 160.
const MOST_ANSWER: usize = 16 << 20;
/// Maximum error response: a Status.
const MOST_REFUSAL: usize = 64 << 10;
/// Maximum watch line, and maximum response with a single Node: etcd stores objects of up to 1.5 MiB, which are longer as JSON.
const MOST_LINE: usize = 4 << 20;
/// Approximate maximum memory to parse one response or line. A page of large Pods takes a quarter of it.
const MOST_MEMORY: usize = 128 << 20;
/// An object of two bytes becomes a structure as large as a Node, or a map.
const OBJECT: usize = 2 << 10;
/// An element of a list may be one byte.
const ELEMENT: usize = 48;
/// A text has two quotation marks.
const QUOTE: usize = 24;
/// This much of each response and each line is exempt from the shared account: an ordinary Node, or a page of a small cluster. So
/// a namespace that has used up its share keeps its connected clusters. It is small next to the connection itself.
const FREE: usize = 32 << 10;
/// Overhead of each chunk of a response until it is complete: a server may send single bytes.
const PIECE: usize = 128;

/// The exceeded limit.
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
    /// Too many pages.
    #[error(
        "its list of Nodes has more than {MOST_PAGES} pages, though it is asked for {PAGE} Nodes in each; a list must end"
    )]
    Pages,
    /// Too many Nodes.
    #[error("it has more than {MOST_NODES} Nodes, which are not followed; split the cluster")]
    Nodes,
    /// Too long a name or UID.
    #[error(
        "a Node there has a name that is no DNS subdomain, or a UID of more than {MOST_UID} bytes, which Kubernetes does not \
         allow; check its API server"
    )]
    Name,
    /// Too much in them.
    #[error("its Nodes take more than {MOST_KEPT} bytes; remove large annotations and labels from them")]
    Kept,
    /// Too much in all clusters of one namespace.
    #[error(
        "the clusters of its namespace take {0} bytes of memory, as much as they may together; remove large annotations and \
         labels from their Nodes, delete clusters, or use another namespace"
    )]
    Namespace(usize),
    /// Too much in all clusters.
    #[error(
        "the clusters of all namespaces take {0} bytes of memory, as much as they may together; clusters must become fewer or \
         smaller, or be given to another provider with --namespace"
    )]
    All(usize),
}

impl Exceeded {
    /// Whether the cluster would fit if others used less.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Namespace(_) | Self::All(_))
    }

    /// Whether this ends only a watch, which is then resumed.
    pub fn ends_watch_only(self) -> bool {
        self == Self::Time(WORKLOAD_WATCH)
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Watch,
    /// A page of the list of Nodes that are followed.
    Page {
        is_first: bool,
    },
    Node,
    Other,
}

impl Asked {
    fn of(uri: &Uri) -> Self {
        let has = |begin: &str| {
            uri.query()
                .is_some_and(|query| query.split('&').any(|pair| pair.starts_with(begin)))
        };
        let node = uri.path().strip_prefix("/api/v1/nodes");
        match node {
            // A name with a query in it makes no watch of one Node.
            None | Some("") if has("watch=true") => Self::Watch,
            // Other lists, such as a probe, do not begin this one anew.
            Some("") if has(&format!("limit={PAGE}")) => Self::Page {
                is_first: !has("continue="),
            },
            None | Some("") => Self::Other,
            Some(_) => Self::Node,
        }
    }

    /// The maximum size of a successful answer, or of a line of it.
    fn most(self) -> usize {
        match self {
            Self::Watch | Self::Node => MOST_LINE,
            Self::Page { .. } | Self::Other => MOST_ANSWER,
        }
    }
}

/// Counts the pages of the current list. Clones share the count.
#[derive(Clone, Debug, Default)]
struct Pages(Arc<AtomicUsize>);

impl Pages {
    /// Whether this may be asked: a list may not go on for ever.
    fn check(&self, asked: Asked) -> Result<(), Exceeded> {
        let Asked::Page { is_first } = asked else {
            return Ok(());
        };
        if is_first {
            self.0.store(0, Ordering::Relaxed);
        }
        let earlier = self.0.fetch_add(1, Ordering::Relaxed);
        if earlier < MOST_PAGES {
            Ok(())
        } else {
            Err(Exceeded::Pages)
        }
    }
}

/// The same client with every body limited, charged to this namespace's account, and read at this pace.
pub fn bounded(client: Client, account: &Account, tenant: &str, pace: &Pace) -> Client {
    let (account, tenant, pace) = (account.clone(), tenant.to_owned(), pace.clone());
    let (namespace, pages) = (client.default_namespace().to_owned(), Pages::default());
    let service = tower::service_fn(move |request: Request<KubeBody>| {
        let (client, share, pace, pages) = (client.clone(), account.share(&tenant), pace.clone(), pages.clone());
        async move {
            let asked = Asked::of(request.uri());
            pages.check(asked).map_err(|why| kube::Error::Service(Box::new(why)))?;
            let answer = client.send(request).await?;
            let is_good = answer.status().is_success();
            let most = if is_good { asked.most() } else { MOST_REFUSAL };
            let is_watch = is_good && asked == Asked::Watch;
            Ok::<_, kube::Error>(answer.map(|body| Bounded::new(body, most, is_watch, pace, share)))
        }
    });
    ClientBuilder::new(service, namespace).build()
}

struct Bounded {
    inner: KubeBody,
    is_watch: bool,
    pace: Pace,
    pause: Option<Pause>,
    /// The cluster's pauses that do not count in `end`.
    paused: Duration,
    most: usize,
    bytes: usize,
    /// The longest line so far: its buffer is reused for later lines.
    longest: usize,
    memory: usize,
    share: Share,
    time: Duration,
    end: Pin<Box<Sleep>>,
}

impl Bounded {
    fn new(inner: KubeBody, most: usize, is_watch: bool, pace: Pace, share: Share) -> Self {
        let time = if is_watch { WORKLOAD_WATCH } else { WORKLOAD_BODY };
        Self {
            inner,
            is_watch,
            pause: is_watch.then(|| pace.begin()).and_then(pause),
            paused: pace.paused(),
            pace,
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
        let mut lines = 0;
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
                lines += 1;
            }
            if self.bytes > self.most {
                return Err(Exceeded::Bytes(self.most));
            }
            if self.memory > MOST_MEMORY {
                return Err(Exceeded::Parts);
            }
            self.longest = self.longest.max(self.bytes);
        }
        self.pause = pause(self.pace.read(lines, data.len()));
        self.share.set(self.longest.saturating_sub(FREE))
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Exceeded> {
        while self.end.as_mut().poll(context).is_ready() {
            let paused = self.pace.paused();
            if self.is_watch || paused == self.paused {
                return Poll::Ready(Exceeded::Time(self.time));
            }
            // The server is not to blame for the pauses.
            let end = self.end.deadline() + paused.saturating_sub(self.paused);
            self.end.as_mut().reset(end);
            self.paused = paused;
        }
        Poll::Pending
    }
}

/// A pause in reading.
pub type Pause = Pin<Box<Sleep>>;

/// A pause of this length, if it has one.
pub fn pause(time: Duration) -> Option<Pause> {
    (!time.is_zero()).then(|| Box::pin(tokio::time::sleep(time)))
}

impl Body for Bounded {
    type Data = Bytes;
    type Error = tower::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(why) = self.poll_end(context) {
            return Poll::Ready(Some(Err(why.into())));
        }
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            let Some(data) = frame.data_ref() else {
                return Ok(frame);
            };
            self.count(data)?;
            // Until an answer is complete, a part of it would keep all of the buffer that it was read into.
            Ok(Frame::data(Bytes::copy_from_slice(data)))
        }))
    }
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
