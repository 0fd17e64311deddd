//! What is asked of the API server, and in which order.

use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;
use crate::Clock;
use crate::events::Reporter;
use crate::mock;

fn migration(client: Client) -> Migration {
    let registry = Registry::new(Build {
        component: "tests",
        version: "",
    });
    let reporter = Reporter {
        component: "tests",
        controller: "tests",
    };
    Migration {
        recorder: Recorder::new(client.clone(), reporter, Clock::system()),
        client,
        definitions: Vec::new(),
        phases: phases(&[]),
        metrics: Metrics::listed(&mut Catalogue::new(&registry)),
    }
}

/// A kind whose objects are stored as v1, as v2, or as either.
fn work_of(stored: &[&str]) -> Work {
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v2"});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ks.g", "uid": "u"},
        "spec": {"group": "g", "scope": "Namespaced", "names": {"kind": "K", "plural": "ks"},
            "versions": [version("v1"), version("v2")]},
        "status": {"storedVersions": stored}});
    work(&serde_json::from_value(definition).unwrap(), &phases(&[])).unwrap()
}

fn page(names: &[&str], token: &str) -> (u16, serde_json::Value) {
    let object = |name: &&str| json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": "1"}});
    let objects: Vec<_> = names.iter().map(object).collect();
    let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
        "metadata": {"continue": token}, "items": objects});
    (200, list)
}

fn expired(token: &str) -> (u16, serde_json::Value) {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
        "message": "the token has expired", "metadata": {"continue": token}});
    (410, status)
}

/// Answers lists with these pages, one after the other. Entries can be removed from all objects but those of version 1.
async fn run(
    stored: &[&str],
    mut pages: Vec<(u16, serde_json::Value)>,
) -> (Result<usize, MigrationError>, Vec<String>) {
    pages.reverse();
    let pages = Mutex::new(pages);
    let (client, requests) = mock::answering(move |request| match request.method.as_str() {
        "GET" => pages.lock().pop().unwrap_or_else(|| mock::failure(500, "NoMorePages")),
        _ if request.body[1]["value"] == "1" => mock::failure(409, "Conflict"),
        _ => (200, json!({"metadata": {"name": "o"}})),
    });
    let done = migration(client).objects("ks.g", &work_of(stored)).await;
    let requests = requests.lock();
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let asked = requests
        .iter()
        .map(|request| format!("{} {}", request.method, name(&request.path)));
    (done.map(|progress| progress.written), asked.collect())
}

// OWN 30n: a list was read between writes. Its token expired before the end, and everything began again, without an end.
#[tokio::test(start_paused = true)]
async fn all_is_listed_before_the_first_write_and_a_list_survives_its_token() {
    let pages = vec![page(&["a", "b"], "1"), expired("2"), page(&["c"], "")];
    let (written, requests) = run(&["v1", "v2"], pages).await;
    assert_eq!(written.unwrap(), 3);
    assert_eq!(
        requests,
        ["GET ks", "GET ks", "GET ks", "PATCH a", "PATCH b", "PATCH c"]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_after_a_list_that_cannot_go_on() {
    let (written, requests) = run(&["v1", "v2"], vec![page(&["a"], "1"), expired("")]).await;
    assert!(written.unwrap_err().to_string().contains("refuses"));
    assert_eq!(requests, ["GET ks", "GET ks"], "the next attempt lists again");
}

// OWN 30z: one answer of an API server that was away began the migration of thousands of objects anew.
#[tokio::test(start_paused = true)]
async fn a_write_is_tried_again_where_it_stands() {
    let failures = Mutex::new(3);
    let (client, requests) = mock::answering(move |request| {
        let mut left = failures.lock();
        match request.method.as_str() {
            "GET" => page(&["a", "b"], ""),
            _ if request.path.ends_with("/b") && *left > 0 => {
                *left -= 1;
                mock::failure(503, "ServiceUnavailable")
            }
            _ => (200, json!({"metadata": {"name": "o"}})),
        }
    });
    let progress = migration(client).objects("ks.g", &work_of(&["v1", "v2"])).await;
    assert_eq!(progress.unwrap().written, 2);
    let requests = requests.lock();
    let listed = requests.iter().filter(|request| request.method == "GET").count();
    assert_eq!((listed, requests.len()), (1, 6));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_never_taken_ends_the_attempt() {
    let (client, _) = mock::answering(|request| match request.method.as_str() {
        "GET" => page(&["a"], ""),
        _ => mock::failure(503, "ServiceUnavailable"),
    });
    let progress = migration(client).objects("ks.g", &work_of(&["v1", "v2"])).await;
    assert!(progress.unwrap_err().to_string().contains("refuses"));
}

#[tokio::test(start_paused = true)]
async fn objects_that_need_no_write_cost_no_time() {
    let start = Instant::now();
    let (written, requests) = run(&["v2"], vec![page(&["a", "b"], "1"), page(&["c"], "")]).await;
    assert_eq!((written.unwrap(), requests.len()), (0, 2));
    assert_eq!(start.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn entries_of_an_object_that_has_changed_since_are_looked_at_again() {
    let with_entry = |version: &str| {
        let mut page = page(&["a"], "");
        page.1["items"][0]["metadata"]["resourceVersion"] = json!(version);
        page.1["items"][0]["metadata"]["managedFields"] = json!([{"apiVersion": "g/v0", "manager": "m"}]);
        page
    };
    let (written, requests) = run(&["v2"], vec![with_entry("1"), with_entry("2")]).await;
    assert_eq!(written.unwrap(), 1);
    assert_eq!(requests, ["GET ks", "PATCH a", "GET ks", "PATCH a"]);
    let (written, requests) = run(&["v2"], vec![with_entry("1"), page(&["a"], "")]).await;
    assert_eq!(written.unwrap(), 1);
    assert_eq!(
        requests,
        ["GET ks", "PATCH a", "GET ks"],
        "somebody else has removed them"
    );
}

// OWN 31rf: entries with a time that our type cannot hold were not looked at, and their object counted as clean. Later one entry
// with fields of more than 128 levels ended the migration of its kind in the whole cluster.
#[tokio::test(start_paused = true)]
async fn entries_are_removed_whatever_is_in_them() {
    let (client, requests) = mock::answering_with_text(move |request| {
        let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(200), "}".repeat(200));
        let entry = |version: &str| {
            format!(r#"{{"apiVersion":"{version}","manager":"m","time":"9999-12-31T23:59:59Z","fieldsV1":{deep}}}"#)
        };
        let entries = [entry("g/v0"), entry("g/v2")].join(",");
        let object = format!(
            r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{{"name":"a","namespace":"n","resourceVersion":"1","managedFields":[{entries}]}}}}"#
        );
        let text = match request.method.as_str() {
            "GET" => format!(
                r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"1"}},"items":[{object}]}}"#
            ),
            _ => object,
        };
        (200, text)
    });
    let progress = migration(client).objects("ks.g", &work_of(&["v2"])).await;
    assert_eq!(progress.unwrap().written, 1);
    let removed = json!({"op": "remove", "path": "/metadata/managedFields/0"});
    assert_eq!(requests.lock()[1].body[0], removed);
}

// OWN 31d: a watch that failed more often than the next attempt was due deferred it for ever.
#[tokio::test(start_paused = true)]
async fn a_watch_that_keeps_failing_does_not_defer_the_next_attempt() {
    let (client, requests) = mock::answering(|request| {
        // The list can be read. The watch after it gets the same, and fails.
        if request.path.ends_with("/customresourcedefinitions") {
            let definition = json!({"metadata": {"name": "ks.g", "uid": "u", "generation": 1}});
            let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": {"resourceVersion": "1"}, "items": [definition]});
            return (200, list);
        }
        mock::failure(403, "Forbidden")
    });
    let mut migration = migration(client);
    migration.definitions = vec!["ks.g".to_owned()];
    let stop = CancellationToken::new();
    let ends = async {
        tokio::time::sleep(4 * RETRY.max).await;
        stop.cancel();
    };
    let (_leading, leads) = watch::channel(true);
    let (ended, ()) = tokio::join!(migration.run(leads, stop.clone()), ends);
    ended.unwrap();
    let requests = requests.lock();
    let attempts = requests
        .iter()
        .filter(|request| request.path.ends_with("/ks.g"))
        .count();
    assert!(attempts >= 8, "{attempts} attempts in two hours");
}
