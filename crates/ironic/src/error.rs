//! Why a call did not succeed.

use std::fmt;
use std::time::Duration;

use crate::cause::Cause;
use crate::fault::Refusal;
use crate::observe::{Operation, Outcome};

/// What a failure means for the caller. It contains no secrets and is cheap to keep and to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// There is no Ironic to call at the moment, see [`crate::Link`]. Nothing was sent.
    Absent,
    /// No response: no connection, a broken one, a TLS problem. Retry later.
    Unreachable,
    /// No complete response in time. A change may have happened all the same.
    Timeout,
    /// Credentials missing or wrong.
    Unauthorized,
    /// Credentials right, but not for this.
    Forbidden,
    /// The object does not exist.
    NotFound,
    /// Another operation holds the node. Retry in seconds.
    Locked,
    /// The name, MAC address or instance is taken. A retry would not help.
    Duplicate,
    /// Not possible in the node's current state. Read the node again.
    InvalidState,
    /// Another 409.
    Conflict,
    /// Rejected for its content. A retry would not help.
    BadRequest,
    /// The server is too old, or too new, for this.
    VersionUnsupported,
    /// No free workers, or a request to back off. Retry later.
    Busy,
    /// The server failed.
    Server,
    /// A response that makes no sense for Ironic: unreadable, redirected, unexpected.
    Protocol,
}

impl ErrorClass {
    /// Label for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Locked => "locked",
            Self::Duplicate => "duplicate",
            Self::InvalidState => "invalid_state",
            Self::Conflict => "conflict",
            Self::BadRequest => "bad_request",
            Self::VersionUnsupported => "version_unsupported",
            Self::Busy => "busy",
            Self::Server => "server",
            Self::Protocol => "protocol",
        }
    }
}

/// A failed call: what was requested, of which node, and why it failed. `Display` is one line that can be shown to
/// users: it names the real cause, and never contains credentials.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Failure>);

/// The parts of an [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    operation: Operation,
    node: Option<String>,
    reason: Reason,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    /// No response, or no complete one.
    NoAnswer(Cause),
    /// A status other than the expected one.
    Refused {
        status: u16,
        refusal: Refusal,
        message: String,
        retry_after: Option<Duration>,
    },
    /// A success status, and then the connection broke: the request has been processed.
    HalfAnswer { status: u16, cause: Cause },
    /// Success, but the body is not what it should be.
    Unreadable { status: u16, why: String },
    /// The server supports no version that we support.
    Version(String),
    /// No conductor offers a driver, so that nothing works yet.
    NoDrivers,
    /// There is no client to make the call with.
    Absent(String),
    /// The files with our own credentials cannot be used, so that nothing was sent.
    NoCredentials(String),
    /// The call makes no sense, and was not made.
    Senseless(&'static str),
}

impl Reason {
    /// Adds the status to the reason why the response is incomplete.
    pub fn from_half_answer(status: u16, reason: Self) -> Self {
        match reason {
            Self::NoAnswer(cause) => Self::HalfAnswer { status, cause },
            other => other,
        }
    }

    /// The code label of an exchange that ended so.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NoAnswer(cause) | Self::HalfAnswer { cause, .. } => Outcome::NoAnswer(cause.label),
            Self::Refused { status, .. } | Self::Unreadable { status, .. } => Outcome::Status(*status),
            Self::Version(_) => Outcome::NoAnswer("version"),
            Self::NoDrivers => Outcome::NoAnswer("no_drivers"),
            Self::Senseless(_) | Self::Absent(_) | Self::NoCredentials(_) => Outcome::NoAnswer("not_sent"),
        }
    }
}

impl Error {
    pub(crate) fn new(operation: Operation, node: Option<&str>, reason: Reason) -> Self {
        Self(Box::new(Failure {
            operation,
            node: node.map(str::to_owned),
            reason,
        }))
    }

    /// Whether the server rejects this caller for any request.
    pub(crate) fn is_refusal_of_caller(&self) -> bool {
        match self.reason() {
            Reason::Refused { status, .. } => matches!(status, 401 | 403),
            Reason::NoAnswer(cause) => cause.label == "tls",
            Reason::NoCredentials(_) => true,
            Reason::HalfAnswer { .. }
            | Reason::Unreadable { .. }
            | Reason::Version(_)
            | Reason::NoDrivers
            | Reason::Absent(_)
            | Reason::Senseless(_) => false,
        }
    }

    pub(crate) fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// What the failure means.
    pub fn class(&self) -> ErrorClass {
        match &self.0.reason {
            Reason::NoAnswer(cause) | Reason::HalfAnswer { cause, .. } if cause.label == "timeout" => {
                ErrorClass::Timeout
            }
            Reason::NoAnswer(_) | Reason::HalfAnswer { .. } => ErrorClass::Unreachable,
            Reason::Refused { refusal, .. } => match refusal {
                Refusal::Unauthorized => ErrorClass::Unauthorized,
                Refusal::Forbidden => ErrorClass::Forbidden,
                Refusal::NotFound => ErrorClass::NotFound,
                Refusal::Locked => ErrorClass::Locked,
                Refusal::Duplicate => ErrorClass::Duplicate,
                Refusal::InvalidState => ErrorClass::InvalidState,
                Refusal::Conflict => ErrorClass::Conflict,
                Refusal::BadRequest => ErrorClass::BadRequest,
                Refusal::VersionUnsupported => ErrorClass::VersionUnsupported,
                Refusal::Busy => ErrorClass::Busy,
                Refusal::Server => ErrorClass::Server,
                Refusal::Unexpected => ErrorClass::Protocol,
            },
            Reason::Unreadable { .. } => ErrorClass::Protocol,
            Reason::Version(_) => ErrorClass::VersionUnsupported,
            Reason::NoDrivers => ErrorClass::Busy,
            Reason::Absent(_) => ErrorClass::Absent,
            Reason::NoCredentials(_) => ErrorClass::Unauthorized,
            Reason::Senseless(_) => ErrorClass::BadRequest,
        }
    }

    /// Bounded label for metrics.
    pub fn label(&self) -> &'static str {
        match &self.0.reason {
            Reason::NoAnswer(cause) | Reason::HalfAnswer { cause, .. } => cause.label,
            Reason::NoDrivers => "no_drivers",
            _ => self.class().label(),
        }
    }

    /// The HTTP status, if there was one.
    pub fn status(&self) -> Option<u16> {
        match &self.0.reason {
            Reason::Refused { status, .. } | Reason::Unreadable { status, .. } | Reason::HalfAnswer { status, .. } => {
                Some(*status)
            }
            _ => None,
        }
    }

    /// What failed, without the call: Ironic's own message if there is one.
    pub fn message(&self) -> String {
        self.0.reason.to_string()
    }

    /// What was asked.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The node it was about, by the identifier used in the call.
    pub fn node(&self) -> Option<&str> {
        self.0.node.as_deref()
    }

    /// How long the server asked us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.0.reason {
            Reason::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ironic: {}", self.operation.phrase())?;
        if let Some(node) = &self.node {
            write!(f, " {node}")?;
        }
        write!(f, " failed: {}", self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer(cause) => f.write_str(&cause.text),
            Self::HalfAnswer { status, cause } => write!(f, "{} (after HTTP status {status})", cause.text),
            Self::Refused { status, message, .. } if message.is_empty() => write!(f, "HTTP status {status}"),
            Self::Refused { status, message, .. } => write!(f, "{message} (HTTP status {status})"),
            Self::Unreadable { status, why } => write!(f, "unreadable answer with HTTP status {status}: {why}"),
            Self::Version(why) | Self::Absent(why) | Self::NoCredentials(why) => f.write_str(why),
            Self::NoDrivers => f.write_str("no driver is offered; is a conductor running?"),
            Self::Senseless(why) => f.write_str(why),
        }
    }
}
