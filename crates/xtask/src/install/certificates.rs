//! What cert-manager needs to make the certificate of a program's webhooks.

use serde_json::{Value, json};

use super::program::Program;

/// The issuer and the certificate.
pub fn objects(program: &Program) -> Vec<Value> {
    let service = program.object("webhook-service");
    let host = format!("{service}.{}.svc", program.namespace);
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "cert-manager.io/v1",
            "kind": kind,
            "metadata": {
                "name": program.object(name),
                "namespace": program.namespace,
                "labels": {program.label.0: program.label.1},
            },
            "spec": spec,
        })
    };
    let issuer = object("Issuer", "selfsigned-issuer", json!({"selfSigned": {}}));
    let certificate = object(
        "Certificate",
        "serving-cert",
        json!({
            "dnsNames": [host, format!("{host}.cluster.local")],
            "issuerRef": {"kind": "Issuer", "name": program.object("selfsigned-issuer")},
            "secretName": program.certificate,
        }),
    );
    vec![issuer, certificate]
}

/// Names the certificate whose authority cert-manager writes into an object, if it is a webhook configuration or a definition
/// with a conversion. Without cert-manager the program writes its own.
pub fn inject(object: &mut Value, program: &Program) {
    if !object["webhooks"].is_array() && !object["spec"]["conversion"].is_object() {
        return;
    }
    let certificate = format!("{}/{}", program.namespace, program.object("serving-cert"));
    object["metadata"]["annotations"][ANNOTATION] = json!(certificate);
}

/// The annotation for it.
const ANNOTATION: &str = "cert-manager.io/inject-ca-from";
