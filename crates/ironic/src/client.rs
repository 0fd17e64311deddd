//! How a call is made: one place for addresses, headers, limits, retries and errors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use reqwest::{Method, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::RwLock;
use tokio::time::Instant;
use tracing::debug;
use url::Url;

use crate::body::{self, Room, Unread, Whole};
use crate::cause::Cause;
use crate::config::{ClientConfig, ConfigError};
use crate::error::{Error, Reason};
use crate::fault::{self, Refusal};
use crate::fields::secrets_in;
use crate::flight::Flight;
use crate::observe::{Exchange, Operation, Outcome};
use crate::transport::{Access, Transport};
use crate::turns::{self, Turns};
use crate::version::Versions;

/// The longest wait between two attempts of one call. Longer waits are left to the caller.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A client of one Ironic. Clones share connections, limits and the negotiated version.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

/// What all clones of a client have in common.
pub(crate) struct Shared {
    pub config: ClientConfig,
    /// The endpoint as given, for version discovery.
    discovery: Url,
    /// The endpoint up to and including `/v1`, without a slash at the end.
    base: Url,
    transport: Transport,
    slots: Turns,
    /// An additional limit for calls that wait for a BMC, so that slow BMCs leave room for everything else.
    bmc_slots: Turns,
    room: Room,
    /// The negotiated version, until the server rejects it.
    pub versions: RwLock<Option<Versions>>,
    pub negotiation: Flight<Versions>,
    pub readiness: Flight<Versions>,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Answered out of Ironic's database.
    Usual,
    /// Answered after a round trip to the BMC.
    Bmc,
}

/// One call, before it is made.
pub(crate) struct Call<'a> {
    pub operation: Operation,
    /// For error messages.
    pub node: Option<&'a str>,
    pub method: Method,
    /// Path below `/v1`, one item per segment; escaped on the way.
    pub path: &'a [&'a str],
    pub body: Option<Value>,
    pub pace: Pace,
}

impl<'a> Call<'a> {
    pub fn get(operation: Operation, path: &'a [&'a str]) -> Self {
        Self {
            operation,
            node: None,
            method: Method::GET,
            path,
            body: None,
            pace: Pace::Usual,
        }
    }

    pub fn node(self, node: &'a str) -> Self {
        Self {
            node: Some(node),
            ..self
        }
    }

    pub fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    pub fn body(self, body: Value) -> Self {
        Self {
            body: Some(body),
            ..self
        }
    }
}

/// The complete request except for the version header.
struct Request<'a> {
    operation: Operation,
    node: Option<&'a str>,
    method: Method,
    url: Url,
    body: Option<Vec<u8>>,
    secrets: Vec<String>,
    pace: Pace,
    /// The version to use; `None` for discovery, which also sends no credentials.
    version: Option<Versions>,
}

impl<'a> Request<'a> {
    fn new(url: Url, call: Call<'a>, version: Versions) -> Self {
        Self {
            operation: call.operation,
            node: call.node,
            method: call.method,
            url,
            secrets: call.body.as_ref().map(secrets_in).unwrap_or_default(),
            body: call.body.map(|body| body.to_string().into_bytes()),
            pace: call.pace,
            version: Some(version),
        }
    }

    /// For whom this is. All callers wait for discovery, regardless of the tenant.
    fn tenant(&self) -> Arc<str> {
        self.version.map(|_| turns::tenant()).unwrap_or_default()
    }
}

/// A successful answer.
pub(crate) struct Answer {
    pub status: u16,
    pub body: Whole,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Builds a client. Reads the named files, and makes no connection.
    pub fn new(config: ClientConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let transport = Transport::new(&config)?;
        let mut discovery = config.endpoint.clone();
        let path = discovery.path().trim_end_matches('/').to_owned();
        discovery.set_path(&path);
        let mut base = discovery.clone();
        if !path.ends_with("/v1") {
            base.set_path(&format!("{path}/v1"));
        }
        Ok(Self {
            shared: Arc::new(Shared {
                discovery,
                base,
                transport,
                slots: Turns::new(config.max_concurrent),
                bmc_slots: Turns::new((config.max_concurrent / 2).max(1)),
                room: Room::new(),
                versions: RwLock::new(None),
                negotiation: Flight::new(),
                readiness: Flight::new(),
                config,
            }),
        })
    }

    /// Whether the other one is a clone of this.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Makes a call below `/v1` and reads the answer as `T`.
    pub(crate) async fn read<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, Error> {
        let (operation, node) = (call.operation, call.node);
        let answer = self.call(call).await?;
        parse(operation, node, &answer)
    }

    /// Makes a call below `/v1`.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Answer, Error> {
        let url = self.address(call.operation, call.node, call.path, &[])?;
        self.call_at(url, call).await
    }

    /// Makes a call at an address, which must be one of this server's.
    pub(crate) async fn call_at(&self, url: Url, call: Call<'_>) -> Result<Answer, Error> {
        let version = self.versions().await?;
        let answer = self.send_repeatedly(Request::new(url, call, version)).await;
        if let Err(error) = &answer
            && error.status() == Some(406)
        {
            self.forget_versions().await;
        }
        answer
    }

    /// Makes a call below `/v1` in a version just negotiated.
    pub(crate) async fn exchange_as(&self, version: Versions, call: Call<'_>) -> Result<Answer, Error> {
        let url = self.address(call.operation, call.node, call.path, &[])?;
        self.send_repeatedly(Request::new(url, call, version)).await
    }

    /// Reads the discovery document.
    pub(crate) async fn discover(&self) -> Result<Value, Error> {
        let operation = Operation::Discover;
        let url = self.shared.discovery.clone();
        let answer = self
            .send_repeatedly(Request {
                operation,
                node: None,
                method: Method::GET,
                url,
                body: None,
                secrets: Vec::new(),
                pace: Pace::Usual,
                version: None,
            })
            .await?;
        parse(operation, None, &answer)
    }

    /// The address of something below `/v1`.
    pub(crate) fn address(
        &self,
        operation: Operation,
        node: Option<&str>,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Url, Error> {
        // An empty identifier would turn "delete this node" into a request about all nodes; the other two would be
        // resolved away and have the same effect. So would a dot, a tab and a dot: line ends and tabs are removed from
        // URLs.
        let is_senseless = |segment: &&str| matches!(*segment, "" | "." | "..") || segment.contains(char::is_control);
        if path.iter().any(is_senseless) {
            return Err(Error::new(
                operation,
                node,
                Reason::Senseless("the identifier is empty or not a name"),
            ));
        }
        let mut url = self.shared.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    async fn send_repeatedly(&self, request: Request<'_>) -> Result<Answer, Error> {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(200))
            .with_max_delay(LONGEST_PAUSE)
            .with_max_times(self.shared.config.retries)
            .with_jitter();
        (|| self.send_once(&request))
            .retry(pauses)
            .when(|error| is_repeatable(error, &request.method))
            .adjust(|error, pause| match error.retry_after() {
                Some(asked) if asked > LONGEST_PAUSE => None,
                Some(asked) => pause.map(|pause| pause.max(asked)),
                None => pause,
            })
            .notify(|error, pause| debug!(%error, ?pause, "repeating a call"))
            .await
    }

    async fn send_once(&self, request: &Request<'_>) -> Result<Answer, Error> {
        let tenant = request.tenant();
        let bmc_permit = match request.pace {
            Pace::Usual => None,
            Pace::Bmc => self.shared.bmc_slots.take(tenant.clone()).await,
        };
        let permit = self.shared.slots.take(tenant).await;
        let access = self.shared.transport.access().await;
        let mut result = self.exchange(request, access.as_ref()).await;
        // Rejected without processing. If the credentials were replaced in the meantime, retry without reporting it to
        // the caller.
        if let Err(Reason::Refused {
            refusal: Refusal::Unauthorized,
            ..
        }) = &result
            && let Ok(access) = &access
            && let Some(access) = self.shared.transport.instead_of(access).await
        {
            result = self.exchange(request, Ok(&access)).await;
        }
        drop((permit, bmc_permit));
        result.map_err(|reason| Error::new(request.operation, request.node, reason))
    }

    /// One exchange, reported to the log and the observer.
    async fn exchange(&self, request: &Request<'_>, access: Result<&Access, &Reason>) -> Result<Answer, Reason> {
        let started = Instant::now();
        let result = match access {
            Ok(access) => self.converse(request, access).await,
            Err(reason) => Err(reason.clone()),
        };
        let duration = started.elapsed();
        let outcome = match &result {
            Ok(answer) => Outcome::Status(answer.status),
            Err(reason) => reason.outcome(),
        };
        let operation = request.operation;
        debug!(operation = operation.label(), node = request.node, %outcome, ?duration, "Ironic");
        if let Some(observer) = &self.shared.config.observer {
            observer.observe(&Exchange {
                operation,
                outcome,
                duration,
            });
        }
        result
    }

    async fn converse(&self, request: &Request<'_>, access: &Access) -> Result<Answer, Reason> {
        let config = &self.shared.config;
        let timeout = match request.pace {
            Pace::Usual => config.timeout,
            Pace::Bmc => config.bmc_timeout,
        };
        let lost = |error: reqwest::Error| Reason::NoAnswer(Cause::of(&error, timeout, config.connect_timeout));
        let mut builder = access
            .pool
            .request(request.method.clone(), request.url.clone())
            .timeout(timeout)
            .header(header::ACCEPT, "application/json");
        if let Some(version) = request.version {
            builder = builder
                .header("X-OpenStack-Ironic-API-Version", version.sent.to_string())
                .header("OpenStack-API-Version", format!("baremetal {}", version.sent));
            if let Some(user) = &access.user {
                builder = builder.basic_auth(&user.name, Some(&user.password));
            }
        }
        if let Some(body) = &request.body {
            builder = builder
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.clone());
        }
        let mut response = builder.send().await.map_err(lost)?;
        let status = response.status();
        // Discovery may answer "300 Multiple Choices" on success.
        if status.is_success() || (status == StatusCode::MULTIPLE_CHOICES && request.operation == Operation::Discover) {
            let status = status.as_u16();
            return match self.shared.room.read(request.tenant(), &mut response).await {
                Ok(body) => Ok(Answer { status, body }),
                Err(Unread::Lost(error)) => Err(Reason::from_half_answer(status, lost(error))),
                Err(crowded @ Unread::Crowded) => {
                    let cause = Cause::crowded(crowded.to_string());
                    Err(Reason::HalfAnswer { status, cause })
                }
                Err(Unread::TooLarge(why)) => {
                    let why = why.to_string();
                    Err(Reason::Unreadable { status, why })
                }
            };
        }
        let text_header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let retry_after = fault::retry_after(text_header(header::RETRY_AFTER));
        let location = text_header(header::LOCATION).map(str::to_owned);
        // A rejection counts even if its body is lost on the way.
        let body = body::begin(&mut response).await.unwrap_or_default();
        let message = match location.filter(|_| status.is_redirection()) {
            Some(to) => format!("redirected to {to}; should the configured endpoint be there?"),
            None => fault::message(&body, &request.secrets),
        };
        // A gateway may echo the headers that it was sent.
        let message = access.user.iter().fold(message, |text, user| user.masked_in(&text));
        let status = status.as_u16();
        Err(Reason::Refused {
            status,
            refusal: Refusal::sort(status, &message, fault::is_ironics(&body)),
            message,
            retry_after,
        })
    }
}

/// Whether retrying within the call is harmless and may help.
fn is_repeatable(error: &Error, method: &Method) -> bool {
    match error.reason() {
        Reason::NoAnswer(cause) => cause.passing && (cause.unsent || matches!(*method, Method::GET | Method::DELETE)),
        // Rejected without processing.
        Reason::Refused { refusal, .. } => matches!(refusal, Refusal::Locked | Refusal::Busy),
        Reason::HalfAnswer { .. }
        | Reason::Unreadable { .. }
        | Reason::Version(_)
        | Reason::NoDrivers
        | Reason::Absent(_)
        | Reason::NoCredentials(_)
        | Reason::Senseless(_) => false,
    }
}

/// Reads an answer as `T`.
pub(crate) fn parse<T: DeserializeOwned>(
    operation: Operation,
    node: Option<&str>,
    answer: &Answer,
) -> Result<T, Error> {
    serde_json::from_slice(&answer.body.bytes).map_err(|error| {
        // The text of a data error may quote the data, including a configuration drive: report the position, not the
        // content.
        let why = match error.classify() {
            serde_json::error::Category::Data => format!("not what was asked for, at line {}", error.line()),
            _ => format!("not JSON: {error}"),
        };
        Error::new(
            operation,
            node,
            Reason::Unreadable {
                status: answer.status,
                why,
            },
        )
    })
}
