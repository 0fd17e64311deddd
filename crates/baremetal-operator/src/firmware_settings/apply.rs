//! Reads and writes of the controller of HostFirmwareSettings. They make no choices.

use kube::api::PostParams;
use kube::core::PartialObjectMetaExt;
use kube::{Api, Resource};
use metal3_api::metal3::{
    BareMetalHost, FirmwareSchema, FirmwareSchemaSpec, HostFirmwareSettings, HostFirmwareSettingsSpec,
};
use metal3_ironic::on_behalf_of;
use metal3_runtime::controller::Report;
use metal3_runtime::status;
use metal3_runtime::store::ObjectKey;

use super::FirmwareSettings;
use super::decide::{Bios, Effect, Observed, Read, Status};
use crate::companion::{adopt, adopt_policy, delete_seen, proven_node};
use crate::host::ReconcileError;
use crate::host::error::{ApplyError, ObserveError};
use crate::host::firmware::settings::schema_name;

impl FirmwareSettings {
    pub(super) async fn read(&self, seen: &mut Observed, read: Read) -> Result<(), ObserveError> {
        let ObjectKey { name, namespace } = ObjectKey::of(&*seen.around.host);
        match read {
            Read::Bios => {
                let Some(node) = proven_node(&self.ctx, &mut seen.around).await? else {
                    return Ok(());
                };
                let client = self.ctx.ironic.client()?;
                let settings = on_behalf_of(&namespace, client.bios_settings(&node)).await?;
                let schema = ObjectKey::new(&namespace, schema_name(&settings));
                if !settings.is_empty() {
                    // From now on the schema is not collected.
                    self.looks
                        .expect_schema(&ObjectKey::new(&namespace, name), schema.clone());
                }
                seen.bios = Some(Bios {
                    has_schema: self.ctx.companions.schemas.get(&schema).is_some(),
                    settings,
                });
            }
            Read::Whole => {
                let api: Api<HostFirmwareSettings> = Api::namespaced(self.ctx.kube.clone(), &namespace);
                seen.whole = Some(api.get(&name).await?);
            }
        }
        Ok(())
    }

    pub(super) async fn act(&self, seen: &mut Observed, effect: &Effect) -> Result<(), ReconcileError> {
        let label = match effect {
            Effect::Create => "create HostFirmwareSettings",
            Effect::Adopt => "take up HostFirmwareSettings",
            Effect::DeleteFormer => "delete the HostFirmwareSettings of an earlier host",
            Effect::AdoptPolicy => "take up HostUpdatePolicy",
            Effect::CreateSchema(..) => "create FirmwareSchema",
            Effect::Remember(_) => "remember a look",
        };
        let done = self.change(seen, effect).await;
        done.map_err(|source| {
            let effect = label.into();
            ApplyError::Kube { effect, source }.into()
        })
    }

    async fn change(&self, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
        let companions = &self.ctx.companions;
        let host = seen.around.host.clone();
        let key = ObjectKey::of(&*host);
        match effect {
            Effect::Create => {
                let api: Api<HostFirmwareSettings> = self.api(&key);
                let mut object = HostFirmwareSettings::new(&key.name, HostFirmwareSettingsSpec::default());
                object.metadata.owner_references = host.owner_ref(&()).map(|owner| vec![owner]);
                companions
                    .settings
                    .created(api.create(&PostParams::default(), &object).await?);
                seen.settings = companions.settings.get(&key);
            }
            Effect::Adopt => {
                if let Some(object) = &seen.settings {
                    let written = adopt::<HostFirmwareSettings>(&self.api(&key), &object.metadata, &host).await?;
                    companions.settings.written(written);
                    seen.settings = companions.settings.get(&key);
                }
            }
            Effect::AdoptPolicy => adopt_policy(self.ctx.kube.clone(), &host).await?,
            Effect::DeleteFormer => {
                if let Some(object) = &seen.settings {
                    delete_seen::<HostFirmwareSettings, _>(&self.api(&key), &companions.settings, &object.metadata)
                        .await?;
                    seen.settings = None;
                }
            }
            Effect::CreateSchema(spec, name) => {
                self.create_schema(&key, name, spec).await?;
                if let Some(bios) = &mut seen.bios {
                    bios.has_schema = true;
                }
            }
            Effect::Remember(look) => self.looks.done(&host, look.clone()),
        }
        Ok(())
    }

    async fn create_schema(&self, host: &ObjectKey, name: &str, spec: &FirmwareSchemaSpec) -> Result<(), kube::Error> {
        let _one_at_a_time = self.creating.lock().await;
        let schemas = &self.ctx.companions.schemas;
        if schemas.get(&ObjectKey::new(&host.namespace, name)).is_some() {
            return Ok(());
        }
        let hosts: Api<BareMetalHost> = self.api(host);
        let hardware = hosts.get(&host.name).await?.status.and_then(|status| status.hardware);
        let maker = hardware.map(|hardware| hardware.system_vendor).unwrap_or_default();
        let api: Api<FirmwareSchema> = self.api(host);
        let spec = FirmwareSchemaSpec {
            hardware_vendor: maker.manufacturer,
            hardware_model: maker.product_name,
            ..spec.clone()
        };
        let schema = FirmwareSchema::new(name, spec);
        match api.create(&PostParams::default(), &schema).await {
            Ok(created) => schemas.created(created.metadata.into_response_partial()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) async fn store(&self, seen: &mut Observed, report: Report<Status>) -> Result<(), ReconcileError> {
        let whole = seen.whole.as_ref();
        let Some(object) = whole.or(seen.settings.as_deref()) else {
            return Ok(());
        };
        if let Some(status) = report.status {
            let written = status::replace(&self.ctx.kube, object, *status).await;
            self.ctx
                .companions
                .settings
                .written(written.map_err(ReconcileError::Report)?);
        }
        let regarding = object.object_ref(&());
        for event in &report.events {
            self.recorder.publish(&regarding, None, event).await;
        }
        Ok(())
    }

    fn api<K>(&self, key: &ObjectKey) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.ctx.kube.clone(), &key.namespace)
    }
}
