//! AdmissionReview: validation and defaulting of objects.

use std::iter::successors;

use axum::http::StatusCode;
use json_patch::jsonptr::{Pointer, PointerBuf};
use json_patch::{AddOperation, Patch, PatchOperation, ReplaceOperation};
use kube::core::admission::{AdmissionResponse, Operation};
use kube::core::response::{StatusCause, StatusDetails, StatusSummary};
use kube::core::{GroupVersionKind, Status, TypeMeta};
use kube::{Resource, ResourceExt};
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::{Answer, Verdict};
use super::lookups::{Busy, Lookups};
use super::ratchet::{distinct, new_errors};
use super::review::{self, Kind};
use crate::readable::parse_leniently;

const KIND: Kind = Kind {
    name: "AdmissionReview",
    versions: ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"],
};

/// The annotation that Cluster API's topology controller sets on an object that it applies as a dry run to see what
/// would change.
const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";

/// What the rules need of a request. Objects stay text until they are read as their type: as values of any shape they take
/// several times as much memory. Everything else is skipped.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    /// Those of the review, for the response.
    #[serde(skip)]
    types: TypeMeta,
    uid: String,
    kind: GroupVersionKind,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    name: String,
    operation: Operation,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
    #[serde(default)]
    dry_run: bool,
}

impl Request<'_> {
    fn allowed(&self) -> AdmissionResponse {
        let mut response = AdmissionResponse::invalid("");
        response.types = self.types.clone();
        response.uid.clone_from(&self.uid);
        response.allowed = true;
        response.result = Status::default();
        response
    }
}

const NO_OBJECT: &str = "the request lacks an object";

/// Errors that an answer names. An object can have hundreds of thousands.
const NAMED: usize = 100;

/// A validation error of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldError {
    /// Its path, such as `spec.pools[0]`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl FieldError {
    /// An error of a field.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// The validation rules of a kind. All functions are pure.
#[derive(Clone, Copy, Debug)]
pub struct Rules<K> {
    /// Errors of an object. On update, errors that the old object already had are not rejected.
    pub shape: fn(&K) -> Vec<FieldError>,
    /// Errors of a change from the old object to the new one.
    pub change: fn(&K, &K) -> Vec<FieldError>,
    /// Warnings about valid but probably unintended values.
    pub warnings: fn(&K) -> Vec<FieldError>,
    /// Sets defaults. `None` if upstream serves no defaults.
    pub defaults: Option<fn(&mut K)>,
    /// The status code of a rejection.
    pub refusal: Refusal,
}

/// What keeps an object from being changed and deleted: the objects that use it.
pub struct InUse<K> {
    /// The part of the object that its users depend on.
    pub field: &'static str,
    /// Whether that part differs between the old object and the new one.
    pub affects: fn(&K, &K) -> bool,
    /// The lookup of the users.
    pub users: Lookup<K>,
}

/// Finds the users of an object. It may block. The error says why they are not known, and the request is rejected with it.
pub type Lookup<K> = Box<dyn Fn(&K) -> Result<Vec<String>, String> + Send + Sync>;

impl<K> std::fmt::Debug for InUse<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InUse").finish_non_exhaustive()
    }
}

impl<K> InUse<K> {
    /// The error of a request that the users do not allow. `field` and `what` are what is requested.
    fn forbids(&self, lookups: &Lookups, old: &K, field: &str, what: &str) -> Result<Option<FieldError>, Busy>
    where
        K: Resource,
    {
        let lookup = lookups.begin(old.meta().namespace.as_deref().unwrap_or_default())?;
        let users = (self.users)(old);
        drop(lookup);
        let because = match users {
            Ok(users) if users.is_empty() => return Ok(None),
            Ok(users) => format!("it is used by {}; remove these references first", users.join(", ")),
            Err(error) => format!("its users are not known: {error}"),
        };
        Ok(Some(FieldError::new(field, format!("cannot be {what}: {because}"))))
    }
}

/// Why a request cannot be judged.
#[derive(Debug)]
enum Unjudged {
    /// It makes no sense.
    Invalid(String),
    /// Too many lookups.
    Busy(Busy),
}

impl From<String> for Unjudged {
    fn from(message: String) -> Self {
        Self::Invalid(message)
    }
}

impl From<Busy> for Unjudged {
    fn from(busy: Busy) -> Self {
        Self::Busy(busy)
    }
}

/// The status code of rejections, as in upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 422, `Invalid`.
    Invalid,
    /// 403, `Forbidden`.
    Forbidden,
}

impl<K> Rules<K> {
    /// The rules of a kind that only has shape checks.
    pub const fn of(shape: fn(&K) -> Vec<FieldError>) -> Self {
        Self {
            shape,
            change: |_, _| Vec::new(),
            warnings: |_| Vec::new(),
            defaults: None,
            refusal: Refusal::Invalid,
        }
    }

    /// The errors of a changed object that it did not have before. `objects` are the old one and the new one.
    fn broken_by(&self, old: &K, new: &K, may_change: bool, objects: impl FnOnce() -> [Value; 2]) -> Vec<FieldError> {
        let errors_of = |object: &K| {
            let change = if may_change {
                Vec::new()
            } else {
                (self.change)(old, object)
            };
            distinct(change.into_iter().chain((self.shape)(object)))
        };
        new_errors(&errors_of(old), errors_of(new), objects)
    }
}

/// Answers on `/validate-…`.
pub(super) fn validate<K>(rules: &Rules<K>, in_use: Option<(&InUse<K>, &Lookups)>, body: &[u8]) -> Answer
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let request = match read(body) {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let mut response = request.allowed();
    if !is_judged(&request, in_use.is_some()) {
        return Answer::review(&response.into_review(), Verdict::Done);
    }
    let (status, verdict) = match judge(rules, in_use, &request) {
        Err(Unjudged::Busy(busy)) => return Answer::failed(StatusCode::TOO_MANY_REQUESTS, busy.to_string()),
        Err(Unjudged::Invalid(message)) => (Status::failure(&message, "BadRequest").with_code(400), Verdict::Failed),
        Ok(findings) => {
            if !findings.warnings.is_empty() {
                response.warnings = Some(named(&findings.warnings));
            }
            if findings.errors.is_empty() {
                return Answer::review(&response.into_review(), Verdict::Done);
            }
            (refusal(rules.refusal, &request, &findings.errors), Verdict::Refused)
        }
    };
    response.allowed = false;
    response.result = status;
    Answer::review(&response.into_review(), verdict)
}

/// Answers on `/mutate-…`. An object that cannot be parsed is left to the schema validation that follows, which knows
/// the invalid field.
pub(super) fn default<K>(defaults: fn(&mut K), body: &[u8]) -> Answer
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Clone,
{
    let request = match read(body) {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let response = request.allowed();
    let object = request.object.filter(|_| is_judged(&request, false));
    let patch = object.and_then(|object| {
        let mut typed = decode::<K>(&request, Some(object)).ok()?;
        let before = serde_json::to_value(&typed).ok()?;
        defaults(&mut typed);
        let after = serde_json::to_value(&typed).ok()?;
        if before == after {
            return None;
        }
        let patch = additions(&parse_leniently(object.get()).ok()?, &before, &after);
        (!patch.is_empty()).then_some(patch)
    });
    let response = match patch {
        None => Ok(response),
        Some(patch) => response.with_patch(patch),
    };
    match response {
        Ok(response) => Answer::review(&response.into_review(), Verdict::Done),
        Err(error) => Answer::failed(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// The differences between two serializations of the type, as additions to the object: it may lack what the type serializes, even
/// a whole structure, and only an addition to what is there can be applied.
fn additions(object: &Value, before: &Value, after: &Value) -> Patch {
    let mut additions = Vec::new();
    for operation in json_patch::diff(before, after).0 {
        let operation = match operation {
            PatchOperation::Add(AddOperation { path, value })
            | PatchOperation::Replace(ReplaceOperation { path, value }) => match missing(object, &path) {
                Some(path) => added(path.to_owned(), after.pointer(path.as_str()).cloned().unwrap_or(value)),
                None => added(path, value),
            },
            other => other,
        };
        if !additions.contains(&operation) {
            additions.push(operation);
        }
    }
    Patch(additions)
}

fn added(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path, value })
}

/// The first structure on the way to a field that the object lacks.
fn missing<'a>(object: &Value, path: &'a Pointer) -> Option<&'a Pointer> {
    let parents = successors(path.parent(), |path| path.parent()).filter(|path| !path.is_root());
    parents
        .filter(|path| object.pointer(path.as_str()).is_none_or(Value::is_null))
        .last()
}

fn read(body: &[u8]) -> Result<Request<'_>, Answer> {
    let (types, request) = review::read(body, &KIND)?;
    Ok(Request { types, ..request })
}

/// Whether there are rules for this request. Subresources have none, and deletions only where users can forbid them.
fn is_judged(request: &Request<'_>, judges_deletions: bool) -> bool {
    let is_main = request.sub_resource.as_deref().unwrap_or_default().is_empty();
    let is_judged = match request.operation {
        Operation::Create | Operation::Update => true,
        Operation::Delete => judges_deletions,
        Operation::Connect => false,
    };
    is_main && is_judged
}

struct Findings {
    errors: Vec<FieldError>,
    warnings: Vec<FieldError>,
}

/// The result of the rules, or why they cannot be applied.
fn judge<K>(
    rules: &Rules<K>,
    in_use: Option<(&InUse<K>, &Lookups)>,
    request: &Request<'_>,
) -> Result<Findings, Unjudged>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    if request.operation == Operation::Delete {
        let old: K = decode(request, request.old_object)?;
        let forbidden = match in_use {
            // Its users find it again where `clusterctl move` has taken it.
            Some((in_use, lookups)) if !old.annotations().contains_key(DELETE_FOR_MOVE) => {
                in_use.forbids(lookups, &old, "metadata.name", "deleted")?
            }
            Some(_) | None => None,
        };
        let errors: Vec<FieldError> = forbidden.into_iter().collect();
        return Ok(Findings {
            warnings: errors.clone(),
            errors,
        });
    }
    let new: K = decode(request, request.object)?;
    let errors = if request.operation == Operation::Update {
        let stored = request.old_object.ok_or_else(|| NO_OBJECT.to_owned())?;
        // An object that cannot be read has no errors to compare with, and must not keep itself from being mended.
        let old: Option<K> = parse_leniently(stored.get()).ok();
        let value = |object: Option<&RawValue>| {
            let value = object.and_then(|object| parse_leniently(object.get()).ok());
            value.unwrap_or_default()
        };
        let objects = || [value(request.old_object), value(request.object)];
        let errors = match &old {
            Some(old) => rules.broken_by(old, &new, is_topology_dry_run(request, &new), objects),
            None => (rules.shape)(&new),
        };
        // The lookup is expensive, so an invalid object does not reach it.
        match in_use {
            Some((in_use, lookups))
                if errors.is_empty() && old.as_ref().is_none_or(|old| (in_use.affects)(old, &new)) =>
            {
                let forbidden = in_use.forbids(lookups, old.as_ref().unwrap_or(&new), in_use.field, "changed")?;
                forbidden.into_iter().collect()
            }
            _ => errors,
        }
    } else {
        (rules.shape)(&new)
    };
    Ok(Findings {
        errors,
        warnings: (rules.warnings)(&new),
    })
}

/// In such a dry run immutable fields may change, because nothing is written: the topology controller checks in this
/// way whether a template must be replaced. The annotation alone does not suffice.
fn is_topology_dry_run<K: Resource>(request: &Request<'_>, new: &K) -> bool {
    let annotations = new.meta().annotations.as_ref();
    request.dry_run && annotations.is_some_and(|annotations| annotations.contains_key(TOPOLOGY_DRY_RUN))
}

fn decode<K>(request: &Request<'_>, object: Option<&RawValue>) -> Result<K, String>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let (asked, served) = (&request.kind, (K::group(&()), K::version(&()), K::kind(&())));
    if (&*asked.group, &*asked.version, &*asked.kind) != (&*served.0, &*served.1, &*served.2) {
        return Err(format!(
            "this path is for {}/{} {}, not for {}/{} {}",
            served.0, served.1, served.2, asked.group, asked.version, asked.kind
        ));
    }
    let object = object.ok_or(NO_OBJECT)?;
    parse_leniently(object.get()).map_err(|error| error.to_string())
}

/// The first errors in words, and how many more there are.
fn named(errors: &[FieldError]) -> Vec<String> {
    let more = errors.len().checked_sub(NAMED).filter(|more| *more > 0);
    let more = more.map(|more| format!("and {more} more"));
    errors.iter().take(NAMED).map(ToString::to_string).chain(more).collect()
}

/// All errors at once, for people and for programs.
fn refusal(refusal: Refusal, request: &Request<'_>, errors: &[FieldError]) -> Status {
    let (kind, name) = (&request.kind, &request.name);
    let words = match named(errors).as_slice() {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    let (code, reason, message) = match refusal {
        Refusal::Invalid => {
            let message = format!("{}.{} {name:?} is invalid: {words}", kind.kind, kind.group);
            (422, "Invalid", message)
        }
        Refusal::Forbidden => (403, "Forbidden", words),
    };
    let causes = errors.iter().take(NAMED).map(|error| StatusCause {
        reason: "FieldValueInvalid".to_owned(),
        message: error.message.clone(),
        field: error.field.clone(),
    });
    let details = StatusDetails {
        name: name.clone(),
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        uid: String::new(),
        causes: causes.collect(),
        retry_after_seconds: 0,
    };
    let mut status = Status::failure(&message, reason).with_code(code).with_details(details);
    status.status = Some(StatusSummary::Failure);
    status
}
