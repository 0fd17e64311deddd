//! Checks that nothing our programs emit contains a secret: logs, metrics, events, and every object that they write.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::{Discovery, Scope};
use kube::{Client, Config};
use metal3_testkit::TestNamespace;

/// Forbidden texts: the prefix of every password here, and of the contents of user data, metadata, network data and bootstrap
/// data, plain and as a header has it; and keys, including those of kubeconfigs. The same in base64, at each of the three
/// alignments.
const SECRETS: [&str; 9] = [
    "secret-of-",
    "c2VjcmV0LW9mL",
    "NlY3JldC1vZi",
    "zZWNyZXQtb2Yt",
    "YWRtaW46c2VjcmV0",
    "PRIVATE KEY",
    "UFJJVkFURSBLRV",
    "BSSVZBVEUgS0VZ",
    "QUklWQVRFIEtFW",
];

/// The groups of our kinds.
const GROUPS: [&str; 3] = ["metal3.io", "infrastructure.cluster.x-k8s.io", "ipam.metal3.io"];

/// A text and its source.
type Emitted = (String, String);

fn leak((place, text): &Emitted) -> Option<String> {
    let has_one = |line: &&str| SECRETS.iter().any(|secret| line.contains(secret));
    let line = text.lines().find(has_one)?;
    Some(format!("{place}: {line:.2000}"))
}

async fn objects(namespace: &TestNamespace) -> Result<Vec<Emitted>, Box<dyn std::error::Error>> {
    // The clients of a scenario belong to its runtime.
    let admin = Kubeconfig::read_from(namespace.server().admin_kubeconfig())?;
    let config = Config::from_custom_kubeconfig(admin, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let name = &namespace.name;
    let events = Api::<Event>::namespaced(client.clone(), name);
    let mut texts = Vec::new();
    for event in events.list(&ListParams::default()).await? {
        texts.push(("an event".to_owned(), serde_json::to_string(&event)?));
    }
    let discovered = Discovery::new(client.clone()).filter(&GROUPS).run().await?;
    for group in discovered.groups() {
        let kinds = group.recommended_resources().into_iter();
        for (kind, _) in kinds.filter(|(_, capabilities)| capabilities.scope == Scope::Namespaced) {
            let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), name, &kind);
            for object in objects.list(&ListParams::default()).await? {
                let place = format!("{} {:?}", kind.kind, object.metadata.name);
                texts.push((place, serde_json::to_string(&object)?));
            }
        }
    }
    Ok(texts)
}

async fn metrics(url: String) -> Option<Emitted> {
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(5))
        .build()
        .ok()?;
    // A stopped program serves no metrics.
    let answer = client.get(&url).send().await.ok()?;
    Some((url, answer.text().await.ok()?))
}

/// Fails if these logs, these metrics, an event or an object of ours in the namespace contain a secret.
pub fn expect_none(namespace: &TestNamespace, logs: Vec<PathBuf>, metrics_urls: Vec<String>) {
    let look = async {
        let mut texts = objects(namespace).await.map_err(|error| error.to_string())?;
        for log in logs {
            let text = std::fs::read_to_string(&log).map_err(|error| format!("{}: {error}", log.display()))?;
            texts.push((log.display().to_string(), text));
        }
        for url in metrics_urls {
            texts.extend(metrics(url).await);
        }
        Ok::<_, String>(texts)
    };
    // An environment is dropped within a runtime, which must not be blocked.
    let texts = std::thread::scope(|scope| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let looked = scope.spawn(move || runtime.block_on(look)).join();
        looked.expect("the search ends")
    });
    let texts = texts.expect("everything that was emitted can be read");
    assert_eq!(texts.iter().find_map(leak), None, "a secret was emitted");
}

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 29k: there was no search for user data, metadata, network data and keys in kubeconfigs.
    #[test]
    fn a_secret_is_found_however_it_is_written() {
        for text in [
            "password secret-of-node-0",
            "# secret-of-user-data in a config drive",
            // "a: secret-of-x", ": secret-of-x" and " secret-of-x" in base64.
            "YTogc2VjcmV0LW9mLXg=",
            "OiBzZWNyZXQtb2YteA==",
            "IHNlY3JldC1vZi14",
            "-----BEGIN PRIVATE KEY-----",
            "client-key-data: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t",
        ] {
            assert!(
                leak(&("a log".to_owned(), format!("one\n{text}\ntwo"))).is_some(),
                "{text}"
            );
        }
        assert_eq!(
            leak(&("a log".to_owned(), "Secret n/secret of a host".to_owned())),
            None
        );
    }
}
