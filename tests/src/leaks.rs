//! Checks that nothing our programs log or count contains a secret. Events and objects are searched when the namespace is dropped.

use std::path::PathBuf;
use std::time::Duration;

use metal3_testkit::leaks::expect_none_in;

async fn metrics(url: String) -> Option<(String, String)> {
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(5))
        .build()
        .ok()?;
    // A stopped program serves no metrics.
    let answer = client.get(&url).send().await.ok()?;
    Some((url, answer.text().await.ok()?))
}

/// Fails if these logs or these metrics contain a secret.
pub fn expect_none(logs: Vec<PathBuf>, metrics_urls: Vec<String>) {
    for log in logs {
        let text = std::fs::read_to_string(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        expect_none_in(&log.display().to_string(), &text);
    }
    // An environment is dropped within a runtime, which must not be blocked.
    let texts = std::thread::scope(|scope| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let asked = futures::future::join_all(metrics_urls.into_iter().map(metrics));
        let asked = scope.spawn(move || runtime.block_on(asked)).join();
        asked.expect("the metrics are asked for")
    });
    for (url, text) in texts.into_iter().flatten() {
        expect_none_in(&url, &text);
    }
}
