//! Reads what a decision requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::find::find_metadata;
use metal3_runtime::secrets::{Known, SecretKey};

use super::decide::Read;
use super::observed::{Leftovers, Observed};
use super::{KIND, Metal3Machines, reuse, waiting};
use crate::error::PassError;
use crate::stores::host_of;

impl Metal3Machines {
    /// Reads what a decision about a machine requests.
    pub(super) async fn read(&self, seen: &mut Observed, read: Read) -> Result<(), PassError> {
        match read {
            Read::Host(request) => {
                let since = waiting::since(&*seen.machine);
                let order = self.host_choice.seed(&request.uid);
                let named = seen.host.unclaimed();
                let (choice, other) = self.waiting.choose(&self.ctx.stores, &request, named, since, order);
                self.wake(other);
                seen.reads.choice = Some(choice);
            }
            Read::Secrets(names) => seen.reads.secrets = Some(self.find_secrets(seen, names).await?),
            Read::Preview(payload) => self.read_payload(seen, payload).await?,
            Read::NamedHost => self.read_named_host(seen).await?,
            Read::Kept => seen.reads.is_kept = Some(self.read_whether_kept(seen).await?),
            // It is this machine.
            Read::Owner => {}
        }
        Ok(())
    }

    /// Reads whether the machine with leftovers is gone. Takes one request, because the watch may lag.
    pub(super) async fn read_owner(&self, leftovers: &mut Leftovers) -> Result<(), PassError> {
        let key = &leftovers.key;
        let machines: Api<Metal3Machine> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let machine = machines.get_opt(&key.name).await;
        let machine = machine.map_err(PassError::of("look for the owner", KIND, key))?;
        let is_gone = machine.is_none_or(|machine| !leftovers.are_of(machine.metadata.uid.as_deref()));
        leftovers.is_gone = Some(is_gone);
        Ok(())
    }

    /// Reads the host that the machine references.
    async fn read_named_host(&self, seen: &mut Observed) -> Result<(), PassError> {
        let Some(named) = host_of(&seen.machine) else {
            seen.reads.is_host_fresh = true;
            return Ok(());
        };
        let hosts: Api<BareMetalHost> = Api::namespaced(self.ctx.client.clone(), &named.namespace);
        let host = hosts
            .get_opt(&named.name)
            .await
            .map_err(PassError::of("read the host", KIND, &seen.key()))?;
        if let Some(host) = &host {
            self.ctx.stores.hosts.written(host.clone());
        }
        seen.read_host(&named.name, host.map(Arc::new));
        Ok(())
    }

    async fn read_whether_kept(&self, seen: &Observed) -> Result<bool, PassError> {
        let Some(owner) = seen.owner.found() else {
            return Ok(false);
        };
        let kept = reuse::is_kept(&self.ctx.client, &self.ctx.stores, owner, Some(&seen.machine)).await;
        kept.map_err(PassError::of("read the control plane", KIND, &seen.key()))
    }

    /// Whether the Secrets exist: from the watch, or by a request if the watch has not shown them yet. The bootstrap data Secret
    /// is then read in full, because the boot data is checked next.
    async fn find_secrets(&self, seen: &Observed, names: Vec<String>) -> Result<BTreeMap<String, bool>, PassError> {
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
                        find_metadata(&api, &name)
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
