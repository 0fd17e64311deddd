//! The objects to install so that the API server calls the webhooks: a Service, and the mutating and validating
//! configurations.

use serde_json::{Value, json};

use super::{Admits, Webhooks};

/// The port of the Service. The port behind it is the default of `--webhook-port`.
const SERVICE_PORT: u16 = 443;
const PORT: u16 = 9443;

/// Where a program is installed, and the names of its objects. Names are upstream's, so that one replaces the other.
#[derive(Clone, Copy, Debug)]
pub struct Installed<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// The prefix of its objects' names, such as `capm3-`.
    pub prefix: &'a str,
    /// A label that its objects and its pods carry.
    pub label: (&'a str, &'a str),
    /// The prefix of the names of validating webhooks, such as `validation.`.
    pub validating: &'a str,
    /// Whether there are mutating webhooks.
    pub has_defaults: bool,
}

impl Installed<'_> {
    /// The Secret with the certificate that the program creates itself. cert-manager's has another name.
    pub fn secret(&self) -> String {
        format!("{}webhook-own-certificate", self.prefix)
    }

    /// The names of the mutating and the validating configuration.
    pub fn configurations(&self) -> [String; 2] {
        ["mutating", "validating"].map(|name| format!("{}{name}-webhook-configuration", self.prefix))
    }

    /// The objects, in an order in which they can be applied.
    pub fn objects(&self, webhooks: &Webhooks) -> Vec<Value> {
        let mut objects = vec![self.service()];
        let [mutating, validating] = self.configurations();
        let kinds = [
            ("MutatingWebhookConfiguration", mutating, true),
            ("ValidatingWebhookConfiguration", validating, false),
        ];
        for (kind, name, is_mutating) in kinds {
            let admitting = webhooks
                .0
                .iter()
                .filter_map(|(path, webhook)| Some((path, webhook.admits.as_ref()?)));
            let of_kind = admitting.filter(|(_, admits)| admits.is_mutating == is_mutating);
            let entries: Vec<Value> = of_kind.map(|(path, admits)| self.entry(path, admits)).collect();
            if entries.is_empty() {
                continue;
            }
            objects.push(json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": self.metadata(&name),
                "webhooks": entries,
            }));
        }
        objects
    }

    fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "labels": {self.label.0: self.label.1}})
    }

    /// The Service that the API server calls.
    pub fn service_name(&self) -> String {
        format!("{}webhook-service", self.prefix)
    }

    fn service(&self) -> Value {
        let mut metadata = self.metadata(&self.service_name());
        metadata["namespace"] = json!(self.namespace);
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "selector": {self.label.0: self.label.1},
                "ports": [{"port": SERVICE_PORT, "targetPort": PORT}],
            },
        })
    }

    fn entry(&self, path: &str, admits: &Admits) -> Value {
        let Admits {
            is_mutating,
            of_deletions,
            group,
            version,
            plural,
            kind,
        } = admits;
        let what = if *is_mutating { "default." } else { self.validating };
        let operations: &[&str] = if *of_deletions {
            &["CREATE", "UPDATE", "DELETE"]
        } else {
            &["CREATE", "UPDATE"]
        };
        json!({
            "name": format!("{what}{kind}.{group}"),
            "admissionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {"service": {
                "namespace": self.namespace,
                "name": self.service_name(),
                "path": path,
            }},
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "rules": [{
                "apiGroups": [group],
                "apiVersions": [version],
                "operations": operations,
                "resources": [plural],
            }],
            "sideEffects": "None",
        })
    }
}
