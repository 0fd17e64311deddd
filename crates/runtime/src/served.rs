//! Waits until the API server serves the kinds that a program works on, so that the order of installation does not
//! matter.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::error::chain;
use crate::probes::Check;
use crate::readable::Readable;
use crate::timing::process::RECHECK_KINDS;

/// Checks until all kinds are served. Missing kinds are logged when the set changes, and are the note of `check` meanwhile.
pub async fn all<F>(check: &Check, ask: impl Fn() -> F)
where
    F: Future<Output = Vec<Result<(), String>>>,
{
    let mut told = String::new();
    loop {
        let missing: Vec<String> = ask().await.into_iter().filter_map(Result::err).collect();
        if missing.is_empty() {
            check.note("");
            return;
        }
        let missing = missing.join("; ");
        if missing != told {
            tracing::warn!(
                missing,
                "waiting until these kinds can be listed: are their definitions installed?"
            );
            check.note(format!("waiting for {missing}"));
            told = missing;
        }
        tokio::time::sleep(RECHECK_KINDS).await;
    }
}

/// Whether a kind is served in all these places. Checked by a list of one object, for which the permissions exist
/// anyway.
///
/// # Errors
/// The kind that cannot be listed, and why.
pub async fn one<K>(apis: Vec<Api<K>>) -> Result<(), String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    for api in apis {
        let api = Readable::<PartialObjectMeta<K>>::api(api, &());
        let answer = api.list(&ListParams::default().limit(1)).await;
        answer.map_err(|error| format!("{} of {}: {}", K::plural(&()), K::api_version(&()), chain(&error)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::cell::RefCell;
    use std::io;
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;
    use crate::mock::{answering, failure};

    /// What is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_is_asked_for_until_it_comes_and_told_once() {
        let log = Log::default();
        let writer = log.clone();
        let logged = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let _logged = tracing::subscriber::set_default(logged);
        let missing = |words: &str| Err(words.to_owned());
        let answers = [
            vec![missing("hosts"), missing("claims")],
            vec![missing("hosts"), missing("claims")],
            vec![Ok(()), missing("claims")],
            vec![Ok(()), missing("claims")],
            vec![Ok(()), Ok(())],
        ];
        let (start, asked) = (tokio::time::Instant::now(), std::cell::Cell::new(0));
        let (check, notes) = (Check::default(), RefCell::new(Vec::new()));
        all(&check, async || {
            notes.borrow_mut().push(check.shown());
            asked.set(asked.get() + 1);
            answers[asked.get() - 1].clone()
        })
        .await;
        assert_eq!((asked.get(), start.elapsed()), (5, 4 * RECHECK_KINDS));
        let both = "failed: waiting for hosts; claims";
        let wanted = [
            "failed",
            both,
            both,
            "failed: waiting for claims",
            "failed: waiting for claims",
        ];
        assert_eq!(
            (notes.into_inner(), check.shown()),
            (wanted.map(str::to_owned).to_vec(), "failed".to_owned())
        );
        let log = String::from_utf8(log.0.lock().clone()).unwrap();
        let told: Vec<&str> = log
            .lines()
            .filter_map(|line| Some(line.split_once("missing=")?.1))
            .collect();
        assert_eq!(told, ["\"hosts; claims\"", "\"claims\""], "{log}");
    }

    #[tokio::test]
    async fn a_kind_that_cannot_be_listed_is_named() {
        let (client, log) = answering(|request| match request.path.as_str() {
            "/api/v1/nodes" => failure(403, "Forbidden"),
            _ => (200, json!({})),
        });
        let error = one::<Node>(vec![Api::all(client)]).await.unwrap_err();
        assert!(error.starts_with("nodes of v1: ") && error.contains("403"), "{error}");
        assert_eq!(log.lock().len(), 1);
        let list =
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": []});
        let (client, _) = answering(move |_| (200, list.clone()));
        assert_eq!(one::<Node>(vec![Api::all(client)]).await, Ok(()));
    }
}
