//! The parts of a deployment that come from Secrets: the config drive, and the image registry credentials.

use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::names::secret_key;
use metal3_api::reference::{Elsewhere, SecretReference};

use super::secrets::{digest, for_a_server, secret};
use crate::host::config_drive::{self as drive, Drive, Texts};
use crate::host::context::Context;
use crate::host::error::ObserveError;
use crate::host::instance;
use crate::host::observed::{ConfigDriveView, Observed, PullSecret, PullSecretView};
use crate::host::plan::EventReason;
use crate::host::pull_secret as registry;

/// Reads one Secret after another; a missing one is reported with its field.
pub(super) async fn config_drive(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    // Not while the drive of an earlier step counts.
    seen.config_drive = ConfigDriveView::NotLooked;
    let memory = ctx.drives.reserve(&seen.host.namespace().unwrap_or_default()).await;
    let spec = &seen.host.spec;
    let mut texts = Texts::default();
    let mut problem = None;
    // A host without network data of its own uses that of the ramdisk.
    let fallback = Some(SecretReference {
        name: spec.preprovisioning_network_data_name.clone(),
        ..SecretReference::default()
    });
    let (network_field, network_data) = match &spec.network_data {
        Some(own) if !own.name.is_empty() => ("spec.networkData", &spec.network_data),
        _ => ("spec.preprovisioningNetworkDataName", &fallback),
    };
    match named(
        ctx,
        &seen.host,
        "spec.userData",
        spec.user_data.as_ref(),
        secret_key::USER_DATA,
        true,
    )
    .await?
    {
        Ok(found) => texts.user = found,
        Err(why) => problem = Some(why),
    }
    for (field, reference, key, must_have, text) in [
        (
            network_field,
            network_data,
            secret_key::NETWORK_DATA,
            false,
            &mut texts.network,
        ),
        (
            "spec.metaData",
            &spec.meta_data,
            secret_key::META_DATA,
            true,
            &mut texts.meta,
        ),
    ] {
        let found = named(ctx, &seen.host, field, reference.as_ref(), key, must_have).await?;
        match found.and_then(|bytes| {
            bytes
                .map(|bytes| as_text(&seen.host, field, reference.as_ref(), bytes))
                .transpose()
        }) {
            Ok(found) => *text = found,
            Err(why) => problem = problem.or(Some(why)),
        }
    }
    seen.config_drive = match problem.map_or_else(|| drive::build(&seen.host, &texts, network_field), Err) {
        Ok(drive) => ConfigDriveView::Ready(Arc::new(Drive::new(drive, Some(memory)))),
        Err(why) => ConfigDriveView::Unusable(why),
    };
    Ok(())
}

/// The content of the Secret that a field names; `None` if it names none.
async fn named(
    ctx: &Context,
    host: &BareMetalHost,
    field: &str,
    reference: Option<&SecretReference>,
    key: &str,
    must_have: bool,
) -> Result<Result<Option<Vec<u8>>, String>, ObserveError> {
    let Some(reference) = reference.filter(|r| !r.name.is_empty()) else {
        return Ok(Ok(None));
    };
    let namespace = host.namespace().unwrap_or_default();
    let name = match reference.local(&namespace) {
        Ok(local) => local.name(),
        Err(Elsewhere(other)) => {
            return Ok(Err(format!(
                "{field}.namespace is {other:?}: only Secrets of the host's own namespace {namespace} are read"
            )));
        }
    };
    let Some(secret) = secret(ctx, host, name).await? else {
        return Ok(Err(format!(
            "Secret {namespace}/{name}, named by {field}, does not exist: create it to go on"
        )));
    };
    let about = |why: &str| format!("Secret {namespace}/{name}, named by {field}, {why}");
    Ok(match for_a_server(&secret, key, &ctx.settings) {
        Ok(None) if must_have => Err(about(&format!("has neither key {key} nor key value"))),
        Ok(bytes) => Ok(bytes.map(|bytes| bytes.0.clone())),
        Err(why) => Err(about(&why)),
    })
}

fn as_text(
    host: &BareMetalHost,
    field: &str,
    from: Option<&SecretReference>,
    bytes: Vec<u8>,
) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| {
        let (namespace, name) = (host.namespace().unwrap_or_default(), from.map_or("", |from| &from.name));
        format!("Secret {namespace}/{name}, named by {field}, holds something that is not text")
    })
}

/// Only what the wanted image names is read.
pub(super) async fn pull_secret(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let Some(deployment) = instance::Deployment::wanted(&seen.host.spec) else {
        return Ok(());
    };
    let (Some(name), Some(image)) = (deployment.pull_secret_name(), deployment.image()) else {
        return Ok(());
    };
    let namespace = seen.host.namespace().unwrap_or_default();
    let about = format!("Secret {namespace}/{name}, named by spec.image.ociAuthSecretName,");
    let found = match secret(ctx, &seen.host, name).await? {
        None => Err((
            EventReason::ImageAuthParseError,
            "does not exist: create it to go on".to_owned(),
        )),
        Some(secret) => registry::credentials(
            secret.type_.as_deref().unwrap_or_default(),
            &secret.data.unwrap_or_default(),
            &image.url,
        ),
    };
    seen.pull_secret = match found {
        Ok(credentials) => PullSecretView::Ready(PullSecret {
            digest: digest(&credentials, ""),
            credentials,
        }),
        Err((event, why)) => PullSecretView::Unusable(event, format!("{about} {why}")),
    };
    Ok(())
}
