//! What an object tells the API server to call: whether that exists, and whose certificate it trusts. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::ObjectMeta;
use rustls::pki_types::CertificateDer;
use serde_json::{Map, Value, json};

use super::trust;

/// A Service: its namespace and its name.
pub type ServiceKey = (String, String);

/// This program as the API server knows it.
#[derive(Clone, Debug)]
pub struct Ours {
    /// The names in its certificate.
    pub names: Vec<String>,
    /// The paths that it answers on.
    pub paths: BTreeSet<String>,
}

/// One webhook of an object.
struct Called<'a> {
    /// Its name; empty for a conversion.
    name: &'a str,
    config: &'a Value,
}

/// The webhooks of a configuration or of a definition.
fn called(object: &Value) -> Vec<Called<'_>> {
    let of = |webhook| Called {
        name: "",
        config: webhook,
    };
    let conversion = object.pointer("/spec/conversion/webhook/clientConfig").map(of);
    let webhooks = object["webhooks"].as_array().into_iter().flatten();
    let webhooks = webhooks.map(|webhook| Called {
        name: webhook["name"].as_str().unwrap_or_default(),
        config: &webhook["clientConfig"],
    });
    webhooks.chain(conversion).collect()
}

impl Called<'_> {
    fn service(&self) -> Option<ServiceKey> {
        let part = |field: &str| self.config["service"][field].as_str().map(str::to_owned);
        part("namespace").zip(part("name"))
    }

    /// The host in the URL, if there is no Service, and its path.
    fn url(&self) -> Option<(&str, &str)> {
        let rest = self.config["url"].as_str()?.strip_prefix("https://")?;
        let path = rest.find('/').map_or("/", |at| &rest[at..]);
        Some((rest.split([':', '/']).next()?, path))
    }

    /// The name that the API server expects in the certificate.
    fn host(&self) -> Option<String> {
        match self.service() {
            Some((namespace, name)) => Some(format!("{name}.{namespace}.svc")),
            None => Some(self.url()?.0.to_owned()),
        }
    }

    fn path(&self) -> &str {
        let of_url = || self.url().map(|(_, path)| path);
        let path = self.config["service"]["path"].as_str().or_else(of_url);
        path.unwrap_or("/")
    }

    /// The authorities that it trusts, in PEM.
    fn bundle(&self) -> String {
        let bundle: Option<ByteString> = serde_json::from_value(self.config["caBundle"].clone()).ok();
        let bundle = bundle.and_then(|bundle| String::from_utf8(bundle.0).ok());
        bundle.unwrap_or_default()
    }

    fn is_conversion(&self) -> bool {
        self.name.is_empty()
    }

    fn is_for(&self, ours: &Ours) -> bool {
        self.host().is_some_and(|host| ours.names.contains(&host))
    }

    /// Why nobody answers; `None` if somebody may.
    fn unanswered(&self, ours: &Ours, missing: &BTreeSet<ServiceKey>) -> Option<String> {
        let why = match self.service() {
            Some(service) if missing.contains(&service) => {
                format!("calls Service {}/{}, which does not exist", service.0, service.1)
            }
            _ if self.is_for(ours) && !ours.paths.contains(self.path()) => {
                format!("calls {}, which this version does not serve", self.path())
            }
            _ => return None,
        };
        Some(if self.is_conversion() {
            format!("its conversion {why}")
        } else {
            format!("{} {why}", self.name)
        })
    }
}

/// Of a configuration, the webhooks without which these kinds, each `PLURAL.GROUP`, cannot be written. One for the kinds of every
/// group is none of them: it is no former version's.
pub fn blocking(object: &Value, kinds: &[&str]) -> Value {
    let has = |rule: &Value, list: &str, is_it: &dyn Fn(&str) -> bool| {
        let words = rule[list].as_array().into_iter().flatten();
        words.filter_map(Value::as_str).any(is_it)
    };
    let is_for = |rule: &Value, kind: &str| {
        kind.split_once('.').is_some_and(|(plural, group)| {
            let is_plural =
                |resource: &str| matches!(resource.split('/').next(), Some(of) if of == plural || of == "*");
            has(rule, "apiGroups", &|of| of == group) && has(rule, "resources", &is_plural)
        })
    };
    let is_blocking = |webhook: &&Value| {
        let rules = webhook["rules"].as_array().into_iter().flatten();
        webhook["failurePolicy"] != "Ignore"
            && rules
                .into_iter()
                .any(|rule| kinds.iter().any(|kind| is_for(rule, kind)))
    };
    let webhooks = object["webhooks"].as_array().into_iter().flatten();
    json!({"webhooks": webhooks.filter(is_blocking).collect::<Vec<_>>()})
}

/// The Services that an object names.
pub fn services(object: &Value) -> BTreeSet<ServiceKey> {
    called(object).iter().filter_map(Called::service).collect()
}

/// The webhooks of an object that nobody answers, in words. `missing` are the Services that do not exist.
pub fn unanswered(object: &Value, ours: &Ours, missing: &BTreeSet<ServiceKey>) -> Vec<String> {
    let versions = object["spec"]["versions"].as_array().map_or(0, Vec::len);
    // Upstream's definitions for IPAM ask for a conversion and have one version: the API server never calls it.
    let is_made = |called: &&Called<'_>| !called.is_conversion() || versions != 1;
    let mut found: Vec<String> = called(object)
        .iter()
        .filter(is_made)
        .filter_map(|called| called.unanswered(ours, missing))
        .collect();
    if versions > 1 && object.pointer("/spec/conversion/webhook").is_none() {
        found.push("it has no conversion webhook, so fields that differ between its versions are lost".to_owned());
    }
    found
}

/// The annotations with which cert-manager's cainjector writes an authority of its own.
const INJECTIONS: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// Whether no other program keeps the authority of an object up to date that this program has written before, when it made its
/// certificate itself. With certificates from files, the authority is another one.
pub fn is_left_to_us(metadata: &ObjectMeta, manager: &str) -> bool {
    let annotations = metadata.annotations.iter().flatten();
    let mut managers = metadata.managed_fields.iter().flatten();
    let is_injected = annotations
        .into_iter()
        .any(|(name, _)| INJECTIONS.contains(&name.as_str()));
    // A program that overwrites the authority takes this field over; our entry keeps the names of the webhooks.
    let is_ours = |entry: &ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref();
        entry.manager.as_deref() == Some(manager) && fields.is_some_and(|fields| has_field(&fields.0, "f:caBundle"))
    };
    !is_injected && managers.any(is_ours)
}

/// Whether a field is among those of an entry of managedFields, at any depth.
fn has_field(fields: &Value, field: &str) -> bool {
    let mut fields = fields.as_object().into_iter().flatten();
    fields.any(|(name, below)| name == field || has_field(below, field))
}

/// The webhooks of an object that we serve. Others may be served by upstream's program or by others, with certificates of their
/// own. An entry for a path of another version is left alone as well: who applies the configuration without it could not remove
/// a field of ours.
fn served<'a>(object: &'a Value, ours: &Ours) -> Vec<Called<'a>> {
    let mut called = called(object);
    called.retain(|called| called.is_for(ours) && ours.paths.contains(called.path()));
    called
}

/// The patch that stops cert-manager from writing another authority into an object that calls what we serve: the two programs
/// would overwrite each other without end. `None` if it does not.
pub fn not_injected(annotations: &BTreeMap<String, String>, object: &Value, ours: &Ours) -> Option<Value> {
    let found = INJECTIONS.iter().filter(|name| annotations.contains_key(**name));
    let removed: Map<String, Value> = found.map(|name| ((*name).to_owned(), Value::Null)).collect();
    let is_needed = !removed.is_empty() && !served(object, ours).is_empty();
    is_needed.then(|| json!({"metadata": {"annotations": removed}}))
}

/// The patch that gives an object the bundle that `change` makes of the present one wherever it calls what we serve; `None` if
/// nothing changes.
pub fn trusting(object: &Value, ours: &Ours, change: impl Fn(&str) -> Option<String>) -> Option<Value> {
    let of_ours = served(object, ours);
    let bundles: Vec<_> = of_ours
        .iter()
        .map(|called| (called.bundle(), change(&called.bundle())))
        .collect();
    if bundles.iter().all(|(_, new)| new.is_none()) {
        return None;
    }
    let config = |(old, new): (String, Option<String>)| {
        let bundle = ByteString(new.unwrap_or(old).into_bytes());
        json!({ "caBundle": bundle })
    };
    let mut configs = bundles.into_iter().map(config);
    if object["webhooks"].is_array() {
        // All of them, because an applied configuration gives up what it leaves out.
        let webhooks = of_ours
            .iter()
            .zip(configs)
            .map(|(called, config)| json!({"name": called.name, "clientConfig": config}));
        return Some(json!({"webhooks": webhooks.collect::<Vec<_>>()}));
    }
    Some(json!({"spec": {"conversion": {"webhook": {"clientConfig": configs.next()}}}}))
}

/// The authorities that an object trusts where it calls what we serve, besides those offered.
pub fn others(object: &Value, ours: &Ours, offered: &str) -> Vec<CertificateDer<'static>> {
    let mut found: Vec<CertificateDer<'static>> = Vec::new();
    for called in served(object, ours) {
        for other in trust::others(&called.bundle(), offered) {
            if !found.contains(&other.der) {
                found.push(other.der);
            }
        }
    }
    found
}

/// The webhooks of an object that we serve and that do not trust this certificate, in words.
pub fn untrusting(object: &Value, ours: &Ours, chain: &[CertificateDer<'static>], now: Timestamp) -> Vec<String> {
    let untrusting = |called: &Called<'_>| {
        let (bundle, host) = (called.bundle(), called.host()?);
        let error = trust::verify(&bundle, chain, &host, now).err()?;
        let whose = if called.is_conversion() {
            "its conversion"
        } else {
            called.name
        };
        trust::is_refused(&bundle, chain, &error).then(|| match bundle.as_str() {
            "" => format!("{whose} has no caBundle"),
            _ => format!("the caBundle of {whose} does not go with the certificate that is served: {error}"),
        })
    };
    served(object, ours).iter().filter_map(untrusting).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::webhook::trust::made;

    fn ours() -> Ours {
        Ours {
            names: vec!["s.n.svc".to_owned(), "localhost".to_owned()],
            paths: BTreeSet::from(["/convert".to_owned(), "/validate-a".to_owned()]),
        }
    }

    fn conversion(config: &Value) -> Value {
        json!({"spec": {"versions": [], "conversion": {"webhook": {"clientConfig": config}}}})
    }

    fn new(present: &str) -> Option<String> {
        (present != "new").then(|| "new".to_owned())
    }

    #[rstest]
    #[case::ours(json!({"service": {"name": "s", "namespace": "n", "path": "/convert"}}), true)]
    #[case::here(json!({"url": "https://localhost:9443/convert"}), true)]
    #[case::old(json!({"service": {"name": "s", "namespace": "n", "path": "/convert"}, "caBundle": "b2xk"}), true)]
    #[case::done(json!({"service": {"name": "s", "namespace": "n", "path": "/convert"}, "caBundle": "bmV3"}), false)]
    #[case::another_namespace(json!({"service": {"name": "s", "namespace": "m", "path": "/convert"}}), false)]
    #[case::another_version(json!({"service": {"name": "s", "namespace": "n", "path": "/old"}}), false)]
    #[case::another_server(json!({"url": "https://127.0.0.1:1/convert", "caBundle": "b2xk"}), false)]
    #[case::no_webhook(json!({}), false)]
    fn only_what_names_this_program_gets_its_authority(#[case] config: Value, #[case] is_written: bool) {
        let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": "bmV3"}}}}});
        let wanted = is_written.then_some(patch);
        assert_eq!(trusting(&conversion(&config), &ours(), new), wanted);
    }

    #[test]
    fn webhooks_of_others_in_a_configuration_are_left_alone() {
        let service =
            |namespace: &str| json!({"service": {"name": "s", "namespace": namespace, "path": "/validate-a"}});
        let object = json!({"webhooks": [
            {"name": "a", "clientConfig": service("n")},
            {"name": "b", "clientConfig": service("m")},
        ]});
        let wanted = json!({"webhooks": [{"name": "a", "clientConfig": {"caBundle": "bmV3"}}]});
        assert_eq!(trusting(&object, &ours(), new), Some(wanted));
    }

    #[rstest]
    #[case::served(json!({"service": {"name": "s", "namespace": "n", "path": "/convert"}}), "")]
    #[case::served_here(json!({"url": "https://localhost:9443/convert"}), "")]
    #[case::old_path(
        json!({"service": {"name": "s", "namespace": "n", "path": "/old"}}),
        "its conversion calls /old, which this version does not serve"
    )]
    #[case::no_path(json!({"service": {"name": "s", "namespace": "n"}}), "its conversion calls /, ")]
    #[case::old_path_here(json!({"url": "https://localhost:9443/old"}), "its conversion calls /old, ")]
    #[case::gone(
        json!({"service": {"name": "gone", "namespace": "n", "path": "/convert"}}),
        "its conversion calls Service n/gone, which does not exist"
    )]
    #[case::another_program(json!({"service": {"name": "s", "namespace": "m", "path": "/old"}}), "")]
    #[case::another_server(json!({"url": "https://example.org/old"}), "")]
    fn a_conversion_that_nobody_answers_is_found(#[case] config: Value, #[case] words: &str) {
        let missing = BTreeSet::from([("n".to_owned(), "gone".to_owned())]);
        let found = unanswered(&conversion(&config), &ours(), &missing);
        assert_eq!(found.is_empty(), words.is_empty(), "{found:?}");
        assert!(found.iter().all(|found| found.starts_with(words)), "{found:?}");
    }

    #[rstest]
    #[case::ours(json!({"rules": [{"apiGroups": ["g.example"], "resources": ["ks"]}]}), true)]
    #[case::every_kind(json!({"rules": [{"apiGroups": ["other", "g.example"], "resources": ["*"]}]}), true)]
    #[case::every_part(json!({"rules": [{"apiGroups": ["g.example"], "resources": ["*/*"]}]}), true)]
    #[case::status(json!({"rules": [{"apiGroups": ["g.example"], "resources": ["ks/status"]}]}), true)]
    #[case::second_rule(json!({"rules": [{}, {"apiGroups": ["g.example"], "resources": ["ks"]}]}), true)]
    #[case::ignored(json!({"failurePolicy": "Ignore", "rules": [{"apiGroups": ["g.example"], "resources": ["ks"]}]}), false)]
    #[case::another_kind(json!({"rules": [{"apiGroups": ["g.example"], "resources": ["kss"]}]}), false)]
    #[case::another_group(json!({"rules": [{"apiGroups": ["example"], "resources": ["ks"]}]}), false)]
    #[case::every_group(json!({"rules": [{"apiGroups": ["*"], "resources": ["*"]}]}), false)]
    #[case::no_rules(json!({}), false)]
    fn what_blocks_writes_of_a_kind(#[case] webhook: Value, #[case] blocks: bool) {
        let object = json!({"webhooks": [webhook]});
        let wanted = if blocks {
            object.clone()
        } else {
            json!({"webhooks": []})
        };
        assert_eq!(blocking(&object, &["js.g.example", "ks.g.example"]), wanted);
    }

    #[test]
    fn each_webhook_that_nobody_answers_is_named() {
        let webhook = |name: &str, path: &str| json!({"name": name, "clientConfig": {"service": {"name": "s", "namespace": "n", "path": path}}});
        let object =
            json!({"webhooks": [webhook("a", "/validate-a"), webhook("b", "/validate-b"), webhook("c", "/x")]});
        let found = unanswered(&object, &ours(), &BTreeSet::new());
        let start = |text: &str| found.iter().any(|found| found.starts_with(text));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(start("b calls /validate-b, ") && start("c calls /x, "), "{found:?}");
        assert_eq!(services(&object), BTreeSet::from([("n".to_owned(), "s".to_owned())]));
    }

    #[test]
    fn each_webhook_that_does_not_trust_the_certificate_is_named() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let (served, other) = (made::offer("served"), made::offer("other"));
        let webhook = |name: &str, namespace: &str, bundle: Value| {
            let service = json!({"name": "s", "namespace": namespace, "path": "/validate-a"});
            json!({"name": name, "clientConfig": {"service": service, "caBundle": bundle}})
        };
        let bundle = |offer| json!(ByteString(made::authority(offer).as_bytes().to_vec()));
        let object = json!({"webhooks": [
            webhook("right", "n", bundle(&served)),
            webhook("wrong", "n", bundle(&other)),
            webhook("none", "n", Value::Null),
            webhook("of-another", "m", Value::Null),
        ]});
        let found = untrusting(&object, &ours(), &served.chain, now);
        let [wrong, none] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(
            wrong.starts_with("the caBundle of wrong does not go with the certificate"),
            "{wrong}"
        );
        assert_eq!(none, "none has no caBundle");
        let others = others(&object, &ours(), made::authority(&served));
        assert_eq!(others.len(), 1);
    }

    #[test]
    fn a_conversion_of_a_definition_with_one_version_is_never_made() {
        let mut object = conversion(&json!({"service": {"name": "gone", "namespace": "n", "path": "/convert"}}));
        let missing = BTreeSet::from([("n".to_owned(), "gone".to_owned())]);
        for (versions, expected) in [(json!(["v1"]), 0), (json!(["v1", "v2"]), 1)] {
            object["spec"]["versions"] = versions;
            assert_eq!(unanswered(&object, &ours(), &missing).len(), expected, "{object}");
        }
    }

    #[test]
    fn a_definition_of_two_versions_without_conversion_is_found() {
        let found = |versions: &[&str]| {
            let object = json!({"spec": {"versions": versions, "conversion": {"strategy": "None"}}});
            unanswered(&object, &ours(), &BTreeSet::new())
        };
        assert_eq!(found(&["v1"]), <[&str; 0]>::default());
        let found = found(&["v1", "v2"]);
        assert!(found[0].starts_with("it has no conversion webhook"), "{found:?}");
    }
}
