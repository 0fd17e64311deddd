//! The controller of FirmwareSchemas: it deletes those that no HostFirmwareSettings refers to any more.
//!
//! A schema is shared by all hosts of a kind. Upstream makes each HostFirmwareSettings an owner of it, with a write of the
//! schema in every pass over each of them. Here the references are counted instead.
//!
//! ```text
//!  HostFirmwareSettings gone, or with another schema ─▶ decide (pure) ─▶ the schema is deleted
//! ```

use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Api, ResourceExt};
use metal3_api::metal3::FirmwareSchema;
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Decision, Plan, Report};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;

use crate::companion::{Looks, delete_seen};
use crate::host::ReconcileError;
use crate::host::companions::schema_of;
use crate::host::context::Context;
use crate::host::error::ApplyError;

/// A schema and whether it is used.
#[derive(Debug)]
pub struct Observed {
    schema: Arc<PartialObjectMeta<FirmwareSchema>>,
    is_used: bool,
}

/// An effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Deletes the schema as it was seen.
    Delete,
}

/// The controller. Its keys are those of schemas.
#[derive(Clone)]
pub struct FirmwareSchemas {
    /// Shared by all controllers.
    pub ctx: Arc<Context>,
    /// The schemas that settings are about to refer to.
    pub looks: Looks,
}

impl FirmwareSchemas {
    fn is_used(&self, key: &ObjectKey) -> bool {
        self.ctx.companions.settings.has(key) || !self.looks.expecting(key).is_empty()
    }
}

impl Controller for FirmwareSchemas {
    const NAME: &'static str = "firmwareschema";
    type Observed = Observed;
    type Read = Infallible;
    type Effect = Effect;
    type Status = ();
    type Error = ReconcileError;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let of_settings = queue.clone();
        self.ctx.companions.settings.listen(move |change| {
            if let Some(schema) = change.before.as_deref().and_then(schema_of)
                && change.affects(schema_of)
            {
                of_settings.push(schema);
            }
        });
        let (schemas, all) = (self.ctx.companions.schemas.clone(), queue.clone());
        self.ctx.companions.on_list(move || {
            for schema in schemas.all() {
                all.push(schema);
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.ctx.companions.schemas.all()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, ReconcileError> {
        if !self.ctx.companions.are_listed(&key.namespace) {
            return Ok(None);
        }
        let schema = self.ctx.companions.schemas.get(key);
        Ok(schema.map(|schema| Observed {
            schema,
            is_used: self.is_used(key),
        }))
    }

    fn decide(seen: &Observed, _: Timestamp) -> Decision<Infallible, Effect, ()> {
        if seen.is_used || !is_generated(&seen.schema.metadata) {
            return Decision::idle();
        }
        Plan::of(Effect::Delete).into()
    }

    async fn fetch(&self, _: &mut Observed, read: Infallible) -> Result<(), ReconcileError> {
        match read {}
    }

    async fn apply(&self, seen: &mut Observed, Effect::Delete: &Effect) -> Result<(), ReconcileError> {
        let namespace = seen.schema.namespace().unwrap_or_default();
        let api = Api::namespaced(self.ctx.kube.clone(), &namespace);
        let deleted = delete_seen(&api, &self.ctx.companions.schemas, &seen.schema.metadata).await;
        deleted.map_err(|source| {
            let effect = "delete an unused FirmwareSchema".into();
            ApplyError::Kube { effect, source }.into()
        })
    }

    async fn report(&self, _: &mut Observed, _: Report<()>) -> Result<(), ReconcileError> {
        Ok(())
    }
}

/// Whether an operator made this schema, and nobody is deleting it.
fn is_generated(schema: &ObjectMeta) -> bool {
    let name = schema.name.as_deref().unwrap_or_default();
    let digest = name.strip_prefix("schema-").unwrap_or_default();
    let is_name = digest.len() == 8 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name && schema.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    // DEFECT 11 of upstream's: every pass over a HostFirmwareSettings writes the schema that all of them share.
    #[rstest]
    #[case::unused("schema-0123abcd", false, true)]
    #[case::used("schema-0123abcd", true, false)]
    #[case::of_a_user("mine", false, false)]
    #[case::nearly("schema-0123abcg", false, false)]
    fn unused_schemas_go(#[case] name: &str, #[case] is_used: bool, #[case] goes: bool) {
        let mut schema = PartialObjectMeta::<FirmwareSchema>::default();
        schema.metadata.name = Some(name.to_owned());
        let seen = Observed {
            schema: Arc::new(schema),
            is_used,
        };
        let expected = if goes {
            Plan::of(Effect::Delete).into()
        } else {
            Decision::idle()
        };
        assert_eq!(FirmwareSchemas::decide(&seen, Timestamp::UNIX_EPOCH), expected);
    }
}
