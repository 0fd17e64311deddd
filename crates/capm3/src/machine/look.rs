//! What a decision asks for is looked at, until it is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use metal3_api::capi::Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::secrets::{Known, SecretKey};
use metal3_runtime::store::ObjectKey;

use super::decide::{Decision, Need, Plan, decide};
use super::{KIND, Metal3Machines, Observed, reuse, waiting};
use crate::error::PassError;
use crate::world::host_of;

/// More looks than there are questions would be a loop.
const MOST_LOOKS: usize = 8;

impl Metal3Machines {
    /// Looks until a plan is made.
    pub(super) async fn planned(&self, seen: &mut Observed) -> Result<Option<Box<Plan>>, PassError> {
        let (mut wants_host, mut wants_secrets) = (false, false);
        let key = seen.key();
        for _ in 0..MOST_LOOKS {
            match decide(seen, self.ctx.clock.now()) {
                Decision::Nothing => {
                    self.settle(&key, wants_host, wants_secrets);
                    return Ok(None);
                }
                Decision::Do(plan) => {
                    self.settle(&key, wants_host, wants_secrets);
                    return Ok(Some(plan));
                }
                Decision::Look(Need::Host(wish)) => {
                    wants_host = true;
                    let since = waiting::since(&*seen.machine);
                    let order = self.host_choice.seed(&wish.uid);
                    let named = seen.host.unclaimed();
                    let (selection, other) = self.waiting.choose(&self.ctx.world, &wish, named, since, order);
                    self.wake(other);
                    seen.looks.selection = Some(selection);
                }
                Decision::Look(Need::Secrets(names)) => {
                    wants_secrets = true;
                    seen.looks.secrets = Some(self.look_for(seen, names).await?);
                }
                Decision::Look(Need::Preview(payload)) => self.look_at_payload(seen, payload).await?,
                Decision::Look(Need::FreshHost) => self.look_at_host(seen).await?,
                Decision::Look(Need::Kept) => {
                    let is_kept = self
                        .look_whether_kept(&key, seen.owner.found().map(|owner| &**owner))
                        .await?;
                    seen.looks.is_kept = Some(is_kept);
                }
            }
        }
        tracing::error!(machine = %key, "a decision asks again for what it was given");
        Ok(None)
    }

    /// Who asks for nothing any more waits for nothing any more.
    pub(super) fn settle(&self, key: &ObjectKey, wants_host: bool, wants_secrets: bool) {
        if !wants_host {
            self.waiting.forget(key);
        }
        if !wants_secrets {
            self.secrets.remove_owner(key);
            self.plain.forget(key);
        }
    }

    /// Reads the host that the machine names.
    async fn look_at_host(&self, seen: &mut Observed) -> Result<(), PassError> {
        let Some(named) = host_of(&seen.machine) else {
            seen.looks.is_host_fresh = true;
            return Ok(());
        };
        let hosts: Api<BareMetalHost> = Api::namespaced(self.ctx.client.clone(), &named.namespace);
        let host = hosts
            .get_opt(&named.name)
            .await
            .map_err(PassError::of("read the host", KIND, &seen.key()))?;
        if let Some(host) = &host {
            self.ctx.world.hosts.written(host.clone());
        }
        seen.read_host(&named.name, host.map(Arc::new));
        Ok(())
    }

    async fn look_whether_kept(&self, key: &ObjectKey, owner: Option<&Machine>) -> Result<bool, PassError> {
        let Some(owner) = owner else { return Ok(false) };
        let ours = self.ctx.world.metal3_machines.get(key);
        let kept = reuse::is_kept(&self.ctx.client, &self.ctx.world, owner, ours.as_deref()).await;
        kept.map_err(PassError::of("read the control plane", KIND, key))
    }

    /// Whether the Secrets exist: by the watch, or by asking where that has not shown them yet. The one with bootstrap data
    /// is read then, because what the host would boot with is looked at next.
    async fn look_for(&self, seen: &Observed, names: Vec<String>) -> Result<BTreeMap<String, bool>, PassError> {
        let key = &seen.key();
        let owner = seen.owner.found();
        let bootstrap = owner.and_then(|owner| owner.spec.bootstrap.data_secret_name.as_deref());
        let secret = |name: &String| SecretKey {
            namespace: key.namespace.clone(),
            name: name.clone(),
        };
        self.secrets.set_references(key.clone(), names.iter().map(secret));
        let api: Api<Secret> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let mut found = BTreeMap::new();
        for name in names {
            let is_there = match self.secrets.get(&secret(&name)) {
                Known::Present(_) => true,
                Known::Absent => false,
                Known::Unknown if bootstrap == Some(name.as_str()) => self.read_user_data(key, &name).await?.is_some(),
                Known::Unknown => {
                    let answer =
                        api.get_metadata_opt(&name)
                            .await
                            .map_err(PassError::of("look for a Secret", KIND, key))?;
                    let metadata = answer.as_ref().map(|secret| &secret.metadata);
                    self.secrets.learn(&secret(&name), metadata);
                    metadata.is_some()
                }
            };
            found.insert(name, is_there);
        }
        Ok(found)
    }
}
