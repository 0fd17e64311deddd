//! Applies decisions.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use metal3_api::infra::names::{annotation, finalizer};
use metal3_api::infra::v1beta2::{
    Metal3Data, Metal3DataClaim, Metal3DataClaimStatus, Metal3DataSpec, Metal3DataTemplate, ObjectRef,
};
use metal3_runtime::error::is_not_found;
use metal3_runtime::events::Event;
use metal3_runtime::find::find;
use metal3_runtime::readable::Readable;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::{patch, status};

use super::decide::is_unused;
use super::effect::Effect;
use crate::context::Context;
use crate::data::decide::origin::digest;
use crate::data::decide::secrets_of;
use crate::stores::machine_of;
use crate::stores::space::{name_of, space_of};

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The stores show the result.
    Seen,
    /// The watch has yet to show the result, or there was nothing left to do.
    Unseen,
}

/// Page size of a list request.
const PAGE: u32 = 500;

/// Applies one effect. The stores show the result afterwards.
pub async fn apply(ctx: &Context, space: &ObjectKey, effect: &Effect) -> Result<Applied, kube::Error> {
    let stores = &ctx.stores;
    let api = Apis::new(ctx, &space.namespace);
    match effect {
        Effect::HoldTemplate(template) => {
            let written = patch::add_finalizer(&api.templates, template, finalizer::DATA_TEMPLATE).await?;
            Ok(taken(written, |written| stores.data_templates.written(written)))
        }
        Effect::ReleaseTemplate(template) => {
            let written = patch::remove_finalizer(&api.templates, template, finalizer::DATA_TEMPLATE).await?;
            Ok(taken(written, |written| stores.data_templates.written(written)))
        }
        Effect::Report(template, status) => {
            let mut status = status.clone();
            let now = metal3_runtime::conditions::whole_seconds(ctx.clock.now());
            status.last_updated = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
            let written = status::replace(&ctx.client, &**template, status).await?;
            stores.data_templates.written(written);
            Ok(Applied::Seen)
        }
        Effect::List => {
            for data in list(&api.datas).await? {
                stores.datas.created(data);
            }
            Ok(Applied::Seen)
        }
        Effect::HoldClaim(claim) => {
            let written = patch::add_finalizer(&api.claims, claim, finalizer::DATA_CLAIM).await?;
            Ok(taken(written, |written| stores.data_claims.written(written)))
        }
        Effect::ReleaseClaim(claim) => {
            let written = patch::remove_finalizer(&api.claims, claim, finalizer::DATA_CLAIM).await?;
            Ok(taken(written, |written| stores.data_claims.written(written)))
        }
        Effect::Create { claim, template, index } => {
            let mut data = data(claim, template, *index);
            // Otherwise nothing would remove the finalizer.
            if stores.is_ours(&data) {
                adopt(&mut data, claim, template);
            }
            match api.datas.create(&PostParams::default(), &data).await {
                Ok(made) => stores.datas.created(made),
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    // The index is taken. From now on the store shows by which object.
                    let Some(there) = api.datas.get_opt(&data.name_any()).await? else {
                        return Ok(Applied::Unseen);
                    };
                    stores.datas.created(there);
                }
                Err(error) => return Err(error),
            }
            Ok(Applied::Seen)
        }
        Effect::Announce(claim, name) => {
            let rendered_data = ObjectRef {
                name: name.clone(),
                namespace: space.namespace.clone().into(),
            };
            let status = Metal3DataClaimStatus {
                rendered_data,
                error_message: String::new(),
            };
            stores
                .data_claims
                .written(status::replace(&ctx.client, &**claim, status).await?);
            Ok(Applied::Seen)
        }
        Effect::Explain(claim, why) => {
            let status = Metal3DataClaimStatus {
                error_message: why.clone(),
                ..claim.status.clone().unwrap_or_default()
            };
            stores
                .data_claims
                .written(status::replace(&ctx.client, &**claim, status).await?);
            let event = Event::warning("NotAnswered", why.clone());
            ctx.recorder.publish(&claim.object_ref(&()), None, &event).await;
            Ok(Applied::Seen)
        }
        Effect::Delete(data) => api.delete(ctx, data).await,
        Effect::Unlock(data) => api.unlock(ctx, data).await,
        Effect::Discard(data) => api.discard(ctx, data).await,
    }
}

fn taken<K>(written: Option<K>, take: impl FnOnce(K)) -> Applied {
    written.map_or(Applied::Unseen, |written| {
        take(written);
        Applied::Seen
    })
}

struct Apis {
    templates: Api<Metal3DataTemplate>,
    claims: Api<Metal3DataClaim>,
    datas: Api<Metal3Data>,
}

impl Apis {
    fn new(ctx: &Context, namespace: &str) -> Self {
        Self {
            templates: Api::namespaced(ctx.client.clone(), namespace),
            claims: Api::namespaced(ctx.client.clone(), namespace),
            datas: Api::namespaced(ctx.client.clone(), namespace),
        }
    }

    async fn delete(&self, ctx: &Context, data: &Metal3Data) -> Result<Applied, kube::Error> {
        let preconditions = Preconditions {
            uid: data.uid(),
            resource_version: None,
        };
        let params = DeleteParams::default().preconditions(preconditions);
        let left = match self.datas.delete(&data.name_any(), &params).await {
            Ok(answer) => answer.left(),
            Err(error) if is_not_found(&error) => None,
            Err(error) => return Err(error),
        };
        // If a finalizer holds the object, the store shows it as it is then.
        let left = left.filter(|left| left.metadata.deletion_timestamp.is_some());
        Ok(taken(left, |left| ctx.stores.datas.written(left)))
    }

    async fn unlock(&self, ctx: &Context, data: &Metal3Data) -> Result<Applied, kube::Error> {
        let written = patch::remove_finalizer(&self.datas, data, finalizer::DATA_CLAIM).await?;
        Ok(taken(written, |written| ctx.stores.datas.written(written)))
    }

    async fn discard(&self, ctx: &Context, data: &Arc<Metal3Data>) -> Result<Applied, kube::Error> {
        let claim = find(&self.claims, &data.spec.claim.name).await?;
        let is_unused = is_unused(data, claim.as_ref());
        if let Some(claim) = claim {
            ctx.stores.data_claims.created(claim);
        }
        if !is_unused {
            return Ok(Applied::Seen);
        }
        if data.metadata.deletion_timestamp.is_none() {
            self.delete(ctx, data).await?;
        }
        let now = ctx.stores.datas.get(&ObjectKey::of(&**data));
        match now.filter(|now| now.uid() == data.uid()) {
            Some(now) => self.unlock(ctx, &now).await,
            None => Ok(Applied::Unseen),
        }
    }
}

/// All objects of a namespace as they are now, bypassing the server's watch cache. One that cannot be read fails the list: its
/// claim would get another index.
async fn list(api: &Api<Metal3Data>) -> Result<Vec<Metal3Data>, kube::Error> {
    let api = Readable::<Metal3Data>::api(api.clone(), &());
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        for data in page.items {
            all.push(data.read()?);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// The Metal3Data that answers a claim.
pub fn data(claim: &Metal3DataClaim, template: &Metal3DataTemplate, index: i32) -> Metal3Data {
    let namespace = claim.namespace().unwrap_or_default();
    let reference = |name: String| ObjectRef {
        name,
        namespace: namespace.clone().into(),
    };
    let of_claim = OwnerReference {
        controller: Some(true),
        ..claim.owner_ref(&()).unwrap_or_default()
    };
    let of_machine = machine_of(claim).map(|machine| OwnerReference {
        controller: None,
        ..machine.clone()
    });
    let mut data = Metal3Data::new(
        &name_of(&space_of(template), index),
        Metal3DataSpec {
            index: Some(index),
            claim: reference(claim.name_any()),
            template: reference(template.name_any()),
            ..Metal3DataSpec::default()
        },
    );
    data.metadata = ObjectMeta {
        namespace: Some(namespace.clone()),
        labels: claim.metadata.labels.clone(),
        finalizers: Some(vec![finalizer::DATA_CLAIM.to_owned()]),
        owner_references: Some(std::iter::once(of_claim).chain(of_machine).collect()),
        ..data.metadata
    };
    data
}

/// What the Metal3Data controller would write first, if anything is rendered: the finalizer, the names of the Secrets, and the
/// digest of what they are rendered from.
pub fn adopt(data: &mut Metal3Data, claim: &Metal3DataClaim, template: &Metal3DataTemplate) {
    let Some(machine) = machine_of(claim) else { return };
    let secrets = secrets_of(template, &machine.name, &claim.namespace().unwrap_or_default());
    if secrets.iter().any(Option::is_some) {
        [data.spec.meta_data, data.spec.network_data] = secrets;
        let finalizers = data.metadata.finalizers.get_or_insert_default();
        finalizers.push(finalizer::DATA.to_owned());
        let annotations = data.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation::RENDERED_FROM.to_owned(), digest(template));
    }
}

/// The claims whose objects are all known after this effect.
pub fn known_by<'a>(effect: &'a Effect, seen: &'a super::observed::Observed) -> Vec<&'a Metal3DataClaim> {
    match effect {
        Effect::HoldClaim(claim) => vec![&**claim],
        // While a claim is paused, more objects may appear, for example in a move from another management cluster.
        Effect::List => {
            let claims = seen.claims.iter().filter(|claim| claim.hold.is_none());
            claims.map(|claim| &*claim.object).collect()
        }
        Effect::HoldTemplate(_)
        | Effect::ReleaseTemplate(_)
        | Effect::Report(..)
        | Effect::ReleaseClaim(_)
        | Effect::Create { .. }
        | Effect::Announce(..)
        | Effect::Explain(..)
        | Effect::Delete(_)
        | Effect::Unlock(_)
        | Effect::Discard(_) => Vec::new(),
    }
}
