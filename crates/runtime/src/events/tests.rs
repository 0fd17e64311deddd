use super::*;
use crate::mock;
use jiff::Timestamp;
use serde_json::Value;

fn host(uid: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("BareMetalHost".into()),
        namespace: Some("ns".into()),
        name: Some("host-0".into()),
        uid: Some(uid.into()),
        ..ObjectReference::default()
    }
}

fn event(message: &str) -> Event {
    Event {
        reason: "ProvisioningError",
        message: message.into(),
        severity: Severity::Warning,
    }
}

const REPORTER: Reporter = Reporter {
    component: "component",
    controller: "metal3.io/controller",
};

#[tokio::test]
async fn repetitions_are_counted_and_different_messages_are_not_merged() {
    // DEFECT 19 of upstream's: one Event object for each occurrence, all of type Normal, some without a reason.
    let (client, requests) = mock::echo();
    let clock = Clock::manual(Timestamp::UNIX_EPOCH);
    let recorder = Recorder::new(client, REPORTER, clock.clone());
    recorder.publish(&host("u"), None, &event("disk too small")).await;
    clock.advance(Duration::from_secs(60));
    recorder.publish(&host("u"), None, &event("disk too small")).await;
    recorder
        .publish(&host("u"), Some(&host("consumer")), &event("no disk at all"))
        .await;
    recorder
        .publish(&host("recreated"), None, &event("disk too small"))
        .await;
    clock.advance(SAME);
    recorder.publish(&host("u"), None, &event("disk too small")).await;

    let requests = requests.lock();
    let methods: Vec<_> = requests.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST", "POST", "POST"]);
    let first = &requests[0].body;
    assert_eq!(first["type"], "Warning");
    assert_eq!(first["source"]["component"], "component");
    assert_eq!(first["reportingComponent"], "metal3.io/controller");
    assert_eq!(first["firstTimestamp"], "1970-01-01T00:00:00Z");
    assert_eq!(
        requests[1].body,
        json!({ "count": 2, "lastTimestamp": "1970-01-01T00:01:00Z" })
    );
    let name = first["metadata"]["name"].as_str().unwrap();
    assert!(
        requests[1]
            .path
            .ends_with(&format!("/api/v1/namespaces/ns/events/{name}")),
        "{}",
        requests[1].path
    );
    assert_eq!(requests[2].body["related"]["uid"], "consumer");
    let mut names: Vec<_> = requests
        .iter()
        .map(|request| request.body["metadata"]["name"].clone())
        .collect();
    names.retain(Value::is_string);
    names.sort_by_key(ToString::to_string);
    names.dedup();
    assert_eq!(names.len(), 4);
}

#[tokio::test]
async fn an_event_that_is_gone_is_written_anew_and_errors_do_not_matter() {
    let (client, requests) = mock::answering(|request| {
        if request.method == "PATCH" {
            mock::failure(404, "NotFound")
        } else {
            (200, request.body.clone())
        }
    });
    let recorder = Recorder::new(client, REPORTER, Clock::system());
    recorder.publish(&host("u"), None, &event("x")).await;
    recorder.publish(&host("u"), None, &event("x")).await;
    let methods: Vec<_> = requests.lock().iter().map(|request| request.method.clone()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST"]);

    let (client, requests) = mock::answering(|_| mock::failure(403, "Forbidden"));
    Recorder::new(client, REPORTER, Clock::system())
        .publish(&host("u"), None, &event("x"))
        .await;
    assert_eq!(requests.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_waits_for_a_server_that_has_no_time() {
    let refusals = parking_lot::Mutex::new(vec![mock::failure(429, "TooManyRequests"), mock::failure(503, "x")]);
    let (client, requests) =
        mock::answering(move |request| refusals.lock().pop().unwrap_or((200, request.body.clone())));
    let recorder = Recorder::new(client, REPORTER, Clock::system());
    recorder.publish(&host("u"), None, &event("x")).await;
    assert_eq!(requests.lock().len(), 3);

    let (client, requests) = mock::answering(|_| mock::failure(429, "TooManyRequests"));
    let start = tokio::time::Instant::now();
    Recorder::new(client, REPORTER, Clock::system())
        .publish(&host("u"), None, &event("x"))
        .await;
    assert_eq!(start.elapsed(), PATIENCE, "not for ever");
    assert!(requests.lock().len() > 5);
}

#[test]
fn long_messages_are_cut_between_characters() {
    assert_eq!(shortened("short"), "short");
    for fill in ["x", "ä", "🔥"] {
        let cut = shortened(&fill.repeat(2000)).into_owned();
        assert!(cut.len() <= MAX_MESSAGE && cut.len() > MAX_MESSAGE - 8 && cut.ends_with('…'));
    }
}
