//! Reads and writes Secrets, and stores statuses.

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use metal3_api::metal3::{BareMetalSwitch, BareMetalSwitchStatus};
use metal3_runtime::error::{chain, is_forbidden};
use metal3_runtime::find::find;
use metal3_runtime::secrets::{SecretKey, SecretVersions};
use metal3_runtime::status;
use metal3_runtime::store::{ObjectKey, Store};

use super::InNamespace;
use super::decide::Data;
use super::observed::{Observed, reduced};
use crate::host::text::{cut, for_people};
use crate::rbac::SECRETS;

/// Concurrent reads.
const AT_ONCE: usize = 8;

pub async fn read(
    client: &Client,
    versions: &SecretVersions<ObjectKey>,
    seen: &mut Observed,
    names: Vec<String>,
) -> Result<(), kube::Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &seen.namespace);
    let reads = stream::iter(names).map(|name| {
        let api = api.clone();
        async move { find(&api, &name).await.map(|secret| (name, secret)) }
    });
    let read: Result<Vec<_>, _> = reads.buffer_unordered(AT_ONCE).try_collect().await;
    let read = match read {
        Err(error) if is_forbidden(&error) => return refused(seen),
        read => read?,
    };
    for (name, secret) in read {
        let key = SecretKey {
            namespace: seen.namespace.clone(),
            name: name.clone(),
        };
        versions.learn(&key, secret.as_ref().map(|secret| &secret.metadata));
        let is_output = seen.is_output(&name);
        let kept = match secret {
            Some(secret) if !is_output => {
                let reduced = reduced(secret.clone());
                if reduced.is_none() {
                    seen.too_large.insert(name.clone());
                }
                Some(reduced.unwrap_or(Secret { data: None, ..secret }))
            }
            other => other,
        };
        seen.secrets.insert(name, kept);
    }
    Ok(())
}

/// Replaces the content of a Secret on the version that was read.
pub async fn write(client: &Client, seen: &mut Observed, name: &str, data: &Data) -> Result<(), kube::Error> {
    let Some(Some(secret)) = seen.secrets.get(name) else {
        return Ok(());
    };
    let secret = Secret {
        data: Some(data.clone()),
        ..secret.clone()
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), &seen.namespace);
    match api.replace(name, &PostParams::default(), &secret).await {
        Err(error) if is_forbidden(&error) => refused(seen),
        Err(error) if is_rejected(&error) => {
            seen.refusal = Some(format!(
                "the API server refuses to store the configuration in Secret {name} of namespace {}. It is tried again every minute; the \
                 refusal says what has to change: {}",
                seen.namespace,
                cut(&for_people(&chain(&error).to_string()), LONGEST)
            ));
            Ok(())
        }
        written => {
            seen.secrets.insert(name.to_owned(), Some(written?));
            Ok(())
        }
    }
}

/// The longest answer that is quoted, in bytes.
const LONGEST: usize = 400;

/// Whether the API server refuses what is written, and would refuse it again: an admission policy, a quota of bytes.
fn is_rejected(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 413 | 422))
}

#[expect(clippy::unnecessary_wraps, reason = "ends its callers")]
fn refused(seen: &mut Observed) -> Result<(), kube::Error> {
    seen.refusal = Some(format!(
        "the operator may not read and update Secrets in namespace {}: bind the ClusterRole {} there",
        seen.namespace, SECRETS.role
    ));
    Ok(())
}

/// Stores the status of a switch on the version that was seen.
pub async fn store_status(
    client: &Client,
    store: &Store<BareMetalSwitch, InNamespace>,
    seen: &mut Observed,
    number: usize,
    status: &BareMetalSwitchStatus,
) -> Result<(), kube::Error> {
    let Some(switch) = seen.switches.get_mut(number) else {
        return Ok(());
    };
    let written = status::replace(client, &**switch, status.clone()).await?;
    tracing::debug!(switch = %written.name_any(), "its status is stored");
    store.written(written.clone());
    *switch = std::sync::Arc::new(written);
    Ok(())
}
