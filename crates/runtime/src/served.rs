//! Waiting until the kinds are served that a program works on, so that the order of installation does not matter.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::error::chain;

/// Between looks for kinds that are not served yet.
const RECHECK: Duration = Duration::from_secs(2);

/// Asks, as often as it takes, whether all kinds are served. What is missing is told when that changes.
pub async fn all<F>(ask: impl Fn() -> F)
where
    F: Future<Output = Vec<Result<(), String>>>,
{
    let mut told = String::new();
    loop {
        let missing: Vec<String> = ask().await.into_iter().filter_map(Result::err).collect();
        if missing.is_empty() {
            return;
        }
        let missing = missing.join("; ");
        if missing != told {
            tracing::warn!(
                missing,
                "waiting until these kinds can be listed: are their definitions installed?"
            );
            told = missing;
        }
        tokio::time::sleep(RECHECK).await;
    }
}

/// Whether a kind is served in all these places. Asked by a list of one object, for which the rights are there anyway.
///
/// # Errors
/// Which kind cannot be listed, and why.
pub async fn one<K>(apis: Vec<Api<K>>) -> Result<(), String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    for api in apis {
        let answer = api.list_metadata(&ListParams::default().limit(1)).await;
        answer.map_err(|error| format!("{} of {}: {}", K::plural(&()), K::api_version(&()), chain(&error)))?;
    }
    Ok(())
}
