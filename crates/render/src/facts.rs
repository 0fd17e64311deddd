//! The machine that data is rendered for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use metal3_api::infra::v1beta2::{AnnotationRef, SourceObject};
use metal3_api::metal3::Nic;

use crate::error::{ObjectName, Problem, RenderError};

/// The machine that data is rendered for.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Namespace of the Metal3Data, and with it of everything else.
    pub namespace: &'a str,
    /// Number of the Metal3Data among those of its template, from 0.
    pub index: i32,
    /// Metadata of the Cluster API Machine.
    pub machine: &'a ObjectMeta,
    /// Metadata of the Metal3Machine.
    pub metal3_machine: &'a ObjectMeta,
    /// Metadata of the BareMetalHost.
    pub host: &'a ObjectMeta,
    /// The host's `spec.bootMACAddress`, empty for none.
    pub boot_mac: &'a str,
    /// The network interfaces that inspection has found in the host.
    pub nics: &'a [Nic],
}

/// One of the three objects behind a machine.
pub(crate) struct Source<'a> {
    pub name: ObjectName,
    pub meta: &'a ObjectMeta,
}

impl<'a> Facts<'a> {
    /// The object that a field of the template refers to. Case-insensitive, as in Metal3.
    pub(crate) fn source(&self, field: &str, object: &SourceObject) -> Result<Source<'a>, RenderError> {
        let (kind, meta) = match SourceObject::from(object.as_str().to_ascii_lowercase().as_str()) {
            SourceObject::Machine => ("Machine", self.machine),
            SourceObject::Metal3Machine => ("Metal3Machine", self.metal3_machine),
            SourceObject::BareMetalHost => ("BareMetalHost", self.host),
            SourceObject::Other(object) => {
                return Err(RenderError::new(field, Problem::UnknownObject { object }));
            }
        };
        Ok(Source {
            name: self.name_of(kind, meta),
            meta,
        })
    }

    /// The value of an annotation that must be there.
    pub(crate) fn annotation(&self, field: &str, reference: &AnnotationRef) -> Result<&'a str, RenderError> {
        let source = self.source(field, &reference.object)?;
        let value = source.meta.annotations.as_ref();
        let value = value.and_then(|all| all.get(&reference.annotation));
        match value {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(RenderError::new(
                field,
                Problem::NoAnnotation {
                    object: source.name,
                    annotation: reference.annotation.clone(),
                },
            )),
        }
    }

    /// The MAC address of the interface with this very name.
    pub(crate) fn mac_of(&self, field: &str, interface: &str) -> Result<&'a str, RenderError> {
        let nic = self
            .nics
            .iter()
            .find(|nic| nic.name == interface && !nic.mac.is_empty());
        let missing = || Problem::NoInterface {
            host: self.host_name(),
            interface: interface.to_owned(),
            known: self.interfaces(),
        };
        nic.map(|nic| nic.mac.as_str())
            .ok_or_else(|| RenderError::new(field, missing()))
    }

    pub(crate) fn host_name(&self) -> ObjectName {
        self.name_of("BareMetalHost", self.host)
    }

    fn name_of(&self, kind: &'static str, meta: &ObjectMeta) -> ObjectName {
        ObjectName {
            kind,
            namespace: self.namespace.to_owned(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// Names of the interfaces that have a MAC address, each once: an interface with two addresses is listed twice.
    fn interfaces(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for nic in self.nics.iter().filter(|nic| !nic.mac.is_empty()) {
            if !names.contains(&nic.name) {
                names.push(nic.name.clone());
            }
        }
        names
    }
}
