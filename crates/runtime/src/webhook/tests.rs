//! Reviews as bytes in and bytes out, without a server, and the server with what a caller may do to it.

#![expect(clippy::needless_pass_by_value, reason = "literals of JSON are written in place")]

use axum::body::Bytes;
use axum::http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Status;
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("will not be {0}")]
struct Unwilling(String);

/// Turns the apiVersion; an object named `bad` refuses, and `worse` panics.
fn turned(mut object: Value, wanted: &str) -> Result<Value, Unwilling> {
    match object["metadata"]["name"].as_str() {
        Some("bad") => Err(Unwilling(wanted.to_owned())),
        Some("worse") => panic!("worse"),
        _ => {
            object["apiVersion"] = json!(wanted);
            Ok(object)
        }
    }
}

fn ask(webhooks: &Webhooks, path: &str, body: impl Into<Bytes>) -> (StatusCode, Value) {
    let answer = (webhooks.0[path].answer)(body.into());
    let body = serde_json::from_slice(&answer.body)
        .unwrap_or_else(|_| Value::String(String::from_utf8(answer.body.clone()).unwrap()));
    (answer.status, body)
}

fn conversion(names: &[&str]) -> String {
    let objects: Vec<Value> = names
        .iter()
        .map(|name| json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": name}}))
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "g/v2", "objects": objects},
    })
    .to_string()
}

fn names_of(review: &Value) -> Vec<&str> {
    let objects = review["response"]["convertedObjects"].as_array().unwrap().iter();
    objects
        .map(|object| object["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[test]
fn objects_are_converted_in_their_order() {
    let webhooks = Webhooks::new().convert(turned);
    let (status, review) = ask(&webhooks, "/convert", conversion(&["b", "a", "c"]));
    assert_eq!(status, 200);
    let response = &review["response"];
    assert_eq!(
        (&response["uid"], &response["result"]["status"]),
        (&json!("u"), &json!("Success"))
    );
    assert_eq!(names_of(&review), ["b", "a", "c"]);
    assert_eq!(response["convertedObjects"][1]["apiVersion"], "g/v2");
    assert_eq!(
        (&review["apiVersion"], &review["kind"]),
        (&json!("apiextensions.k8s.io/v1"), &json!("ConversionReview"))
    );
}

/// As [`turned`], but only with a time that our type for times holds.
fn timed(object: Value, wanted: &str) -> Result<Value, Unwilling> {
    let time = object["status"]["at"].as_str().unwrap_or("2026-01-01T00:00:00Z");
    let time: Result<jiff::Timestamp, _> = time.parse();
    time.map_err(|_| Unwilling(wanted.to_owned()))?;
    turned(object, wanted)
}

// OWN 31sq: one object that a user wrote so made all of its kind unreadable in the other version, for everybody.
#[test]
fn an_object_with_what_our_types_do_not_hold_is_converted() {
    let webhooks = Webhooks::new().convert(timed);
    let review: Value = serde_json::from_str(&conversion(&["a"])).unwrap();
    for status in [json!({}), json!({"at": "9999-12-31T23:59:59Z"})] {
        let mut review = review.clone();
        review["request"]["objects"][0]["status"] = status;
        let (_, answer) = ask(&webhooks, "/convert", with_unreadable_fields(review));
        assert_eq!(answer["response"]["result"]["status"], "Success", "{answer}");
        assert_eq!(names_of(&answer), ["a"]);
    }
}

#[test]
fn one_object_that_cannot_be_converted_fails_the_review_and_is_named() {
    let webhooks = Webhooks::new().convert(turned);
    let (status, review) = ask(&webhooks, "/convert", conversion(&["a", "bad"]));
    assert_eq!(status, 200);
    let result = &review["response"]["result"];
    assert_eq!(result["status"], "Failure");
    assert_eq!(result["message"], "objects[1]: will not be g/v2");
    assert_eq!(review["response"]["uid"], "u");
    assert_eq!(review["response"]["convertedObjects"], json!([]));
}

fn deep(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[rstest]
#[case::empty("", "EOF")]
#[case::no_json("{", "EOF")]
#[case::no_object("[]", "")]
#[case::nothing("{}", "")]
#[case::other_kind(r#"{"apiVersion":"v1","kind":"Pod"}"#, "v1 Pod")]
#[case::other_version(r#"{"apiVersion":"apiextensions.k8s.io/v9","kind":"ConversionReview"}"#, "v9")]
#[case::no_request(
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}"#,
    "no request"
)]
#[case::deep(&deep(100_000), "")]
fn what_is_no_conversion_review_is_refused(#[case] body: &str, #[case] words: &str) {
    let webhooks = Webhooks::new().convert(turned);
    let (status, text) = ask(&webhooks, "/convert", body.to_owned());
    assert_eq!(status, 400, "{text}");
    assert!(text.as_str().unwrap().contains(words), "{text}");
}

#[test]
fn invalid_utf8_is_refused() {
    let webhooks = rules(RULES).convert(turned);
    for path in ["/convert", MAPS] {
        let (status, text) = ask(&webhooks, path, &b"{\"apiVersion\": \"\xff\"}"[..]);
        assert_eq!(status, 400, "{text}");
    }
}

#[test]
fn an_object_that_is_nested_too_deeply_is_named() {
    let webhooks = Webhooks::new().convert(turned);
    let body = conversion(&["a", "b"]).replace("\"b\"", &deep(1000));
    let (status, review) = ask(&webhooks, "/convert", body);
    assert_eq!(status, 200);
    let message = review["response"]["result"]["message"].as_str().unwrap();
    assert!(message.starts_with("objects[1]: recursion limit exceeded"), "{message}");
}

#[test]
fn an_object_longer_than_etcd_accepts_is_named() {
    let webhooks = Webhooks::new().convert(turned);
    let (status, review) = ask(&webhooks, "/convert", conversion(&["a", &"b".repeat(3 << 20)]));
    assert_eq!(status, 200);
    let message = review["response"]["result"]["message"].as_str().unwrap();
    assert!(message.starts_with("objects[1]: its 31"), "{message}");
    assert!(message.ends_with("more than the limit of 3145728"), "{message}");
}

#[test]
fn ten_thousand_objects_keep_their_order() {
    let names: Vec<String> = (0..10_000).map(|n| format!("{n}-{}", "x".repeat(2000))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let webhooks = Webhooks::new().convert(turned);
    let (status, review) = ask(&webhooks, "/convert", conversion(&names));
    assert_eq!(status, 200);
    assert_eq!(names_of(&review), names);
}

const MAPS: &str = "/validate--v1-configmap";
const DEFAULTS: &str = "/mutate--v1-configmap";

fn data<'a>(map: &'a ConfigMap, key: &str) -> Option<&'a str> {
    map.data.as_ref()?.get(key).map(String::as_str)
}

/// `size` must be a number and `name` must stay; `old` is discouraged.
const RULES: Rules<ConfigMap> = Rules {
    shape: numbers,
    change: |old, new| {
        let is_changed = data(old, "name") != data(new, "name");
        let error = is_changed.then(|| FieldError::new("data.name", "cannot be modified"));
        error.into_iter().collect()
    },
    warnings: |map| {
        let old = data(map, "old").map(|_| FieldError::new("data.old", "is ignored"));
        old.into_iter().collect()
    },
    defaults: Some(|map| {
        let data = map.data.get_or_insert_default();
        data.entry("size".to_owned()).or_insert_with(|| "1".to_owned());
    }),
    refusal: Refusal::Invalid,
};

fn numbers(map: &ConfigMap) -> Vec<FieldError> {
    let wrong = ["size", "width"].into_iter().filter_map(|key| {
        let text = data(map, key)?;
        text.parse::<u32>().err()?;
        Some(FieldError::new(format!("data.{key}"), format!("{text:?} is no number")))
    });
    wrong.collect()
}

fn rules(rules: Rules<ConfigMap>) -> Webhooks {
    Webhooks::new().admit(rules)
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})
}

fn admission(operation: &str, old: Value, new: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": operation, "name": "m", "namespace": "n", "userInfo": {},
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "object": new, "oldObject": old,
        },
    })
}

fn response(webhooks: &Webhooks, path: &str, review: &Value) -> Value {
    let (status, answer) = ask(webhooks, path, review.to_string());
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["response"]["uid"], "u");
    answer["response"].clone()
}

#[test]
fn all_errors_come_at_once_with_their_fields() {
    let wrong = map(json!({"size": "x", "width": "y", "old": "z"}));
    let response = response(&rules(RULES), MAPS, &admission("CREATE", Value::Null, wrong));
    assert_eq!(response["allowed"], false);
    assert_eq!(response["warnings"], json!(["data.old: is ignored"]));
    let status: Status = serde_json::from_value(response["status"].clone()).unwrap();
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        status.message,
        r#"ConfigMap. "m" is invalid: [data.size: "x" is no number, data.width: "y" is no number]"#
    );
    let causes = status.details.unwrap().causes;
    let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["data.size", "data.width"]);
}

// OWN 30k: an answer named every error twice, and took minutes to find those of a large object.
#[test]
fn an_answer_names_the_first_of_many_errors() {
    const MANY: usize = 60_000;
    let wrong = Rules::<ConfigMap>::of(|map| {
        let data = map.data.iter().flatten();
        let wrong = data.filter(|(_, text)| text.as_str() == "x");
        wrong
            .map(|(key, _)| FieldError::new(format!("data.{key}"), "is wrong"))
            .collect()
    });
    let data = |range: std::ops::Range<usize>| -> Value {
        map(range.map(|n| (format!("k.{n:06}"), json!("x"))).collect::<Value>())
    };
    let review = admission("UPDATE", data(0..MANY), data(0..MANY + 101));
    let answer = response(&rules(wrong), MAPS, &review);
    let status: Status = serde_json::from_value(answer["status"].clone()).unwrap();
    let start = format!("ConfigMap. \"m\" is invalid: [data.k.{MANY:06}: is wrong, ");
    assert!(status.message.starts_with(&start), "{}", status.message);
    assert!(status.message.ends_with(", and 1 more]"), "{}", status.message);
    assert_eq!(status.details.unwrap().causes.len(), 100);
}

// OWN 30l: an old error excused another value if its message was the same.
#[rstest]
#[case::same(json!({"a": "x", "b": "1"}), true)]
#[case::another_value(json!({"a": "y"}), false)]
fn an_old_error_excuses_the_same_value_only(#[case] data: Value, #[case] allowed: bool) {
    let silent = Rules::<ConfigMap>::of(|map| {
        let is_wrong = self::data(map, "a").is_some_and(|text| text != "1");
        let error = is_wrong.then(|| FieldError::new("data.a", "must be 1"));
        error.into_iter().collect()
    });
    let review = admission("UPDATE", map(json!({"a": "x"})), map(data));
    assert_eq!(response(&rules(silent), MAPS, &review)["allowed"], allowed);
}

#[test]
fn operators_of_hosts_read_forbidden() {
    let forbidding = Rules {
        refusal: Refusal::Forbidden,
        ..RULES
    };
    let review = admission("CREATE", Value::Null, map(json!({"size": "x"})));
    let status = &response(&rules(forbidding), MAPS, &review)["status"];
    assert_eq!(
        (&status["code"], &status["message"]),
        (&json!(403), &json!("data.size: \"x\" is no number"))
    );
}

fn used(by: Result<&str, &str>) -> Webhooks {
    let users = by
        .map(|users| users.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .map_err(str::to_owned);
    let in_use = InUse {
        field: "data",
        affects: |old: &ConfigMap, new: &ConfigMap| old.data != new.data,
        users: Box::new(move |_| users.clone()),
    };
    Webhooks::new().admit_unless_used(RULES, in_use)
}

const USED: &str = "it is used by a, b; remove these references first";

// Anybody may set the annotation: it lets nobody change what is in use.
#[rstest]
#[case::deleted("DELETE", json!({"size": "1"}), Value::Null, true)]
#[case::changed("UPDATE", json!({"size": "1"}), json!({"size": "2"}), false)]
fn an_object_that_is_moved_away_can_be_deleted_before_its_users(
    #[case] operation: &str,
    #[case] old: Value,
    #[case] new: Value,
    #[case] is_allowed: bool,
) {
    let moved = |data: Value| {
        let mut object = map(data);
        object["metadata"]["annotations"][DELETE_FOR_MOVE] = json!("");
        object
    };
    let new = if new.is_null() { new } else { moved(new) };
    let response = response(&used(Ok("a")), MAPS, &admission(operation, moved(old), new));
    assert_eq!(response["allowed"], is_allowed, "{response}");
}

#[rstest]
#[case::created("CREATE", json!(null), json!({}), Ok("a"), None)]
#[case::unchanged("UPDATE", json!({"size": "x"}), json!({"size": "x"}), Ok("a"), None)]
#[case::changed("UPDATE", json!({"size": "1"}), json!({"size": "2"}), Ok("a b"), Some(format!("data: cannot be changed: {USED}")))]
#[case::wrong("UPDATE", json!({"size": "1"}), json!({"size": "x"}), Ok("a"), Some("data.size: \"x\" is no number".to_owned()))]
#[case::free("UPDATE", json!({"size": "1"}), json!({"size": "2"}), Ok(""), None)]
#[case::unknown("UPDATE", json!({"size": "1"}), json!({"size": "2"}), Err("no answer"),
    Some("data: cannot be changed: its users are not known: no answer".to_owned()))]
#[case::deleted("DELETE", json!({}), json!(null), Ok("a b"), Some(format!("metadata.name: cannot be deleted: {USED}")))]
#[case::deleted_freely("DELETE", json!({}), json!(null), Ok(""), None)]
#[case::deleted_in_doubt("DELETE", json!({}), json!(null), Err("no answer"),
    Some("metadata.name: cannot be deleted: its users are not known: no answer".to_owned()))]
fn an_object_in_use_can_neither_change_nor_be_deleted(
    #[case] operation: &str,
    #[case] old: Value,
    #[case] new: Value,
    #[case] users: Result<&str, &str>,
    #[case] refusal: Option<String>,
) {
    let object = |data: Value| if data.is_null() { data } else { map(data) };
    let response = response(&used(users), MAPS, &admission(operation, object(old), object(new)));
    assert_eq!(response["allowed"], refusal.is_none(), "{response}");
    let message = response["status"]["message"].as_str().unwrap_or_default();
    let refusal = refusal.unwrap_or_default();
    assert!(message.contains(&refusal), "{message}");
    let is_deletion = operation == "DELETE" && !refusal.is_empty();
    assert_eq!(
        response["warnings"],
        if is_deletion { json!([refusal]) } else { Value::Null }
    );
}

/// Metadata that a user may have written, and that no type of ours holds: a time beyond its years, fields nested too deeply.
fn with_unreadable_fields(review: Value) -> String {
    let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(200), "}".repeat(200));
    let fields =
        format!(r#""metadata":{{"managedFields":[{{"manager":"m","time":"9999-12-31T23:59:59Z","fieldsV1":{deep}}}],"#);
    review.to_string().replace(r#""metadata":{"#, &fields)
}

// OWN 31sf: such an object could neither change nor go, and where only the old one had it, rules for changes did not count.
#[rstest]
#[case::other_change("UPDATE", json!({"name": "a"}), json!({"name": "a", "new": "b"}), None)]
#[case::refused_change("UPDATE", json!({"name": "a"}), json!({"name": "b"}), Some("data.name: cannot be modified"))]
#[case::old_error("UPDATE", json!({"size": "x"}), json!({"size": "x", "new": "b"}), None)]
#[case::deletion("DELETE", json!({}), json!(null), Some("metadata.name: cannot be deleted"))]
fn managed_fields_that_cannot_be_read_keep_no_object_from_being_judged(
    #[case] operation: &str,
    #[case] old: Value,
    #[case] new: Value,
    #[case] refusal: Option<&str>,
) {
    let object = |data: Value| if data.is_null() { data } else { map(data) };
    let webhooks = match operation {
        "DELETE" => used(Ok("a b")),
        _ => rules(RULES),
    };
    let review = with_unreadable_fields(admission(operation, object(old), object(new)));
    let (status, answer) = ask(&webhooks, MAPS, review);
    assert_eq!(status, 200, "{answer}");
    let message = answer["response"]["status"]["message"].as_str().unwrap_or_default();
    assert_eq!(answer["response"]["allowed"], refusal.is_none(), "{answer}");
    assert!(message.contains(refusal.unwrap_or_default()), "{message}");
}

#[test]
fn an_object_with_managed_fields_that_cannot_be_read_gets_its_defaults() {
    let review = with_unreadable_fields(admission("CREATE", Value::Null, map(json!({"name": "a"}))));
    let (_, answer) = ask(&rules(RULES), DEFAULTS, review);
    assert_eq!(answer["response"]["patchType"], "JSONPatch", "{answer}");
}

#[rstest]
#[case::new_is_right("CREATE", json!(null), json!({"size": "1"}), true)]
#[case::change("UPDATE", json!({"name": "a"}), json!({"name": "b"}), false)]
#[case::becomes_wrong("UPDATE", json!({"size": "1"}), json!({"size": "x"}), false)]
#[case::wrong_in_another_way("UPDATE", json!({"size": "x"}), json!({"size": "y"}), false)]
#[case::was_wrong_before("UPDATE", json!({"size": "x"}), json!({"size": "x", "other": "y"}), true)]
#[case::deletion("DELETE", json!({"size": "x"}), json!(null), true)]
fn an_unchanged_field_is_never_refused(
    #[case] operation: &str,
    #[case] old: Value,
    #[case] new: Value,
    #[case] allowed: bool,
) {
    let object = |data: Value| if data.is_null() { data } else { map(data) };
    let review = admission(operation, object(old), object(new));
    assert_eq!(response(&rules(RULES), MAPS, &review)["allowed"], allowed);
}

// OWN 30wd: an object that cannot be read was locked, as each of its updates failed.
#[rstest]
#[case::mended(json!({"size": "1"}), Ok("a"), true)]
#[case::wrong(json!({"size": "x"}), Ok("a"), false)]
#[case::in_use(json!({"size": "1"}), Err("b"), false)]
fn what_replaces_an_object_that_cannot_be_read_is_judged_as_a_new_one(
    #[case] new: Value,
    #[case] users: Result<&str, &str>,
    #[case] allowed: bool,
) {
    let webhooks = match users {
        Ok(_) => rules(RULES),
        Err(users) => used(Ok(users)),
    };
    let review = admission("UPDATE", map(json!(["not a map"])), map(new));
    assert_eq!(response(&webhooks, MAPS, &review)["allowed"], allowed);
}

#[rstest]
#[case(false, false, false)]
#[case(true, false, false)]
#[case(false, true, false)]
#[case(true, true, true)]
fn a_dry_run_of_the_topology_controller_may_change_what_is_fixed(
    #[case] is_dry: bool,
    #[case] has_annotation: bool,
    #[case] allowed: bool,
) {
    let mut new = map(json!({"name": "b"}));
    if has_annotation {
        new["metadata"]["annotations"] = json!({"topology.cluster.x-k8s.io/dry-run": ""});
    }
    let mut review = admission("UPDATE", map(json!({"name": "a"})), new.clone());
    review["request"]["dryRun"] = json!(is_dry);
    assert_eq!(response(&rules(RULES), MAPS, &review)["allowed"], allowed);
    new["data"]["size"] = json!("x");
    review["request"]["object"] = new;
    assert_eq!(
        response(&rules(RULES), MAPS, &review)["allowed"],
        false,
        "all else is judged"
    );
}

#[test]
fn defaults_are_a_patch_of_what_is_missing() {
    let patch = |object: Value| {
        let response = response(&rules(RULES), DEFAULTS, &admission("CREATE", Value::Null, object));
        assert_eq!(response["allowed"], true);
        let bytes: Option<Vec<u8>> = serde_json::from_value(response["patch"].clone()).unwrap();
        bytes.map(|bytes| serde_json::from_slice::<json_patch::Patch>(&bytes).unwrap())
    };
    let object = map(json!({"name": "a"}));
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &patch(object).unwrap()).unwrap();
    assert_eq!(patched, map(json!({"name": "a", "size": "1"})));
    assert!(patch(map(json!({"size": "2"}))).is_none());
    assert!(
        patch(map(json!(["not a map"]))).is_none(),
        "the schema will say it better"
    );
}

#[rstest]
#[case::other_kind("/request/kind/kind", json!("Secret"), "not for /v1 Secret")]
#[case::other_version("/request/kind/version", json!("v2"), "not for /v2 ConfigMap")]
#[case::no_object("/request/object", json!(null), "lacks an object")]
#[case::other_type("/request/object/data", json!("x"), "invalid type")]
fn a_review_that_cannot_be_judged_is_refused_with_the_reason(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] words: &str,
) {
    let mut review = admission("CREATE", Value::Null, map(json!({})));
    *review.pointer_mut(pointer).unwrap() = value;
    let response = response(&rules(RULES), MAPS, &review);
    assert_eq!(
        (&response["allowed"], &response["status"]["code"]),
        (&json!(false), &json!(400))
    );
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains(words), "{message}");
}

#[rstest]
#[case("{}")]
#[case("null")]
#[case(r#"{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview"}"#)]
#[case(r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#)]
#[case(&deep(100_000))]
fn what_is_no_admission_review_is_refused(#[case] body: &str) {
    for path in [MAPS, DEFAULTS] {
        let (status, text) = ask(&rules(RULES), path, body.to_owned());
        assert_eq!(status, 400, "{text}");
    }
}

mod over_https {
    use std::net::TcpListener;

    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::args::{TlsArgs, TlsVersion};
    use crate::metrics::{Build, Registry};
    use crate::tls::{Certificate, Policy};

    fn policy() -> Policy {
        let args = TlsArgs {
            tls_min_version: TlsVersion::Tls12,
            tls_max_version: TlsVersion::Tls13,
            tls_cipher_suites: String::new(),
            tls_curve_preferences: String::new(),
        };
        Policy::from_args(&args).unwrap()
    }

    struct Served {
        url: String,
        client: reqwest::Client,
        registry: Registry,
        _tasks: JoinSet<std::io::Result<()>>,
    }

    fn serve() -> Served {
        rustls::crypto::ring::default_provider().install_default().ok();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let registry = Registry::new(Build {
            component: "test",
            version: "0",
        });
        let certificate = Certificate::load(policy(), "/does/not/exist".as_ref()).unwrap();
        let webhooks = rules(RULES).convert(turned);
        let endpoint = Endpoint::on(listener, certificate, webhooks, &registry);
        let mut tasks = JoinSet::new();
        tasks.spawn(endpoint.serve(CancellationToken::new()));
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .build()
            .unwrap();
        Served {
            url,
            client,
            registry,
            _tasks: tasks,
        }
    }

    /// The server asks no caller for a certificate: the API server has one only if its administrator configures that, and
    /// whether it is valid is no reason to hold up writes. Upstream's webhooks ask for none either.
    #[tokio::test]
    async fn a_caller_with_an_expired_certificate_is_answered() {
        let server = serve();
        let mut params = rcgen::CertificateParams::new(vec!["api-server".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = format!("{}{}", params.self_signed(&key).unwrap().pem(), key.serialize_pem());
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap())
            .build()
            .unwrap();
        let request = client.post(format!("{}/convert", server.url)).body(conversion(&["a"]));
        assert_eq!(request.send().await.unwrap().status(), 200);
    }

    #[tokio::test]
    async fn nothing_that_a_caller_sends_ends_the_server() {
        let server = serve();
        let post = async |path: &str, body: Vec<u8>| {
            let request = server.client.post(format!("{}{path}", server.url)).body(body);
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        };
        assert_eq!(
            post("/convert", conversion(&["worse"]).into()).await,
            (500, "internal error".to_owned())
        );
        assert_eq!(post("/convert", b"{".to_vec()).await.0, 400);
        assert_eq!(post("/validate-nothing", Vec::new()).await.0, 404);
        assert_eq!(post(MAPS, vec![b' '; ADMISSION_LIMIT + 1]).await.0, 413);
        let get = server
            .client
            .get(format!("{}/convert", server.url))
            .send()
            .await
            .unwrap();
        assert_eq!(get.status(), 405);

        let (status, review) = post("/convert", conversion(&["a"]).into()).await;
        assert_eq!(status, 200);
        assert_eq!(names_of(&serde_json::from_str(&review).unwrap()), ["a"]);
        let wrong = admission("CREATE", Value::Null, map(json!({"size": "x"})));
        assert_eq!(post(MAPS, wrong.to_string().into()).await.0, 200);
        let text = server.registry.text().unwrap();
        for line in [
            r#"metal3_webhook_reviews_total{webhook="/convert",verdict="done"} 1"#,
            r#"metal3_webhook_reviews_total{webhook="/convert",verdict="failed"} 2"#,
            r#"metal3_webhook_reviews_total{webhook="/validate--v1-configmap",verdict="refused"} 1"#,
            r#"metal3_webhook_converted_objects_total{kind="K"} 1"#,
            r#"controller_runtime_webhook_requests_total{webhook="/convert",code="500"} 1"#,
            r#"controller_runtime_webhook_requests_total{webhook="/validate--v1-configmap",code="413"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
