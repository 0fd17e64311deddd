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
use kube::core::response::StatusDetails;
use tokio::time::Sleep;

use crate::conditions::cut;

/// Nodes that are asked for at once. The first list of a large cluster takes more requests, each with little memory.
pub const PAGE: u32 = 50;
/// Nodes of one cluster: twice what Kubernetes is tested with.
pub const MOST_NODES: usize = 10_000;
/// Bytes of all Nodes of one cluster as they are kept: 6 KiB for each of the most Nodes; labels, annotations and addresses
/// of an ordinary Node take 2 KiB.
pub const MOST_KEPT: usize = 60 << 20;
/// Workload clusters that are followed for one namespace. Each has a connection, a task and its Nodes.
pub const MOST_CLUSTERS: usize = 1000;
/// A text of a workload cluster in a condition or a log.
const MOST_TEXT: usize = 1024;
/// One answer. A page of Nodes has 160 KiB for each; the Pods of a Node and all VolumeAttachments are listed unpaged.
const MOST_ANSWER: usize = 16 << 20;
/// An answer that refuses a request: a Status.
const MOST_REFUSAL: usize = 64 << 10;
/// One line of a watch: etcd takes objects of 1.5 MiB, which are longer as JSON.
const MOST_LINE: usize = 4 << 20;
/// Objects within one answer or line. An empty one of two bytes takes a kilobyte when it is read.
const MOST_OBJECTS: usize = 100_000;
/// The body of an answer is complete after this time.
const ANSWER: Duration = Duration::from_secs(30);
/// A watch is asked to end after 290 s; one that does not is cut off.
const WATCH: Duration = Duration::from_secs(330);

/// Which bound was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Too many bytes.
    #[error("it sends more than {0} bytes in one answer or watch event; objects there must be smaller")]
    Bytes(usize),
    /// Too many parts.
    #[error("it sends more than {MOST_OBJECTS} JSON objects in one answer or watch event; there must be fewer")]
    Objects,
    /// Too slow.
    #[error("it has not sent the rest of an answer within {} s", .0.as_secs())]
    Time(Duration),
    /// Too many Nodes.
    #[error("it has more than {MOST_NODES} Nodes, which are not followed; split the cluster")]
    Nodes,
    /// Too much in them.
    #[error("its Nodes take more than {MOST_KEPT} bytes; remove large annotations and labels from them")]
    Kept,
}

/// The same client, with every body bounded.
pub fn bounded(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<KubeBody>| {
        let client = client.clone();
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let answer = client.send(request).await?;
            let is_watch = is_watch && answer.status().is_success();
            let most = match answer.status() {
                status if !status.is_success() => MOST_REFUSAL,
                _ if is_watch => MOST_LINE,
                _ => MOST_ANSWER,
            };
            Ok::<_, kube::Error>(answer.map(|body| Bounded::new(body, most, is_watch)))
        }
    });
    ClientBuilder::new(service, namespace).build()
}

struct Bounded {
    inner: KubeBody,
    is_watch: bool,
    most: usize,
    bytes: usize,
    objects: usize,
    time: Duration,
    end: Pin<Box<Sleep>>,
}

impl Bounded {
    fn new(inner: KubeBody, most: usize, is_watch: bool) -> Self {
        let time = if is_watch { WATCH } else { ANSWER };
        Self {
            inner,
            is_watch,
            most,
            bytes: 0,
            objects: 0,
            time,
            end: Box::pin(tokio::time::sleep(time)),
        }
    }

    fn count(&mut self, data: &[u8]) -> Result<(), Exceeded> {
        for byte in data {
            self.bytes += 1;
            match byte {
                b'\n' if self.is_watch => (self.bytes, self.objects) = (0, 0),
                b'{' => self.objects += 1,
                _ => {}
            }
            if self.bytes > self.most {
                return Err(Exceeded::Bytes(self.most));
            }
            if self.objects > MOST_OBJECTS {
                return Err(Exceeded::Objects);
            }
        }
        Ok(())
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

/// A text of a workload cluster, fit for a condition and a log: short, in one line.
pub fn told(text: &str) -> String {
    let mut text: String = text
        .chars()
        .take(MOST_TEXT)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    cut(&mut text, MOST_TEXT);
    text
}

/// An error whose words of the server are cut.
pub fn told_error(mut error: kube::Error) -> kube::Error {
    if let kube::Error::Api(status) = &mut error {
        status.message = told(&status.message);
        status.reason = told(&status.reason);
        // How long to wait is heeded; of the rest nothing is read.
        status.details = status.details.take().map(|details| StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            ..details
        });
    }
    error
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
