//! The kubeconfig of a workload cluster. It comes from a Secret that others write, so anything that would make this process run
//! programs or read its own files is rejected.

use k8s_openapi::api::core::v1::Secret;
use kube::Config;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};
use metal3_api::carried::MOST_VALUES;
use metal3_runtime::denied::{DeniedRanges, FLAG};

/// The key of the Secret, by Cluster API's contract.
const KEY: &str = "value";

/// The name of the Secret, by Cluster API's contract.
pub fn secret_name(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Why a kubeconfig is invalid. Its content is never repeated, because it holds credentials.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The Secret lacks the key.
    #[error("it has no data under the key {KEY:?}")]
    NoData,
    /// The value is not text.
    #[error("its key {KEY:?} is not UTF-8 text")]
    NotText,
    /// The value is not a kubeconfig.
    #[error("its key {KEY:?} is not a kubeconfig of at most {MOST_VALUES} keys and values")]
    NotAKubeconfig,
    /// The current context is missing.
    #[error("it names no current context that it has, with its cluster and user")]
    NoContext,
    /// It uses a feature that is only safe on its author's machine.
    #[error("its {0} is not taken: certificates, keys and tokens must be in the kubeconfig itself")]
    Refused(&'static str),
    /// It names a server at an address that tenants may not have the provider connect to.
    #[error("its server has an address in a range that may not be connected to ({FLAG})")]
    Denied,
    /// It is complete, but some of it is invalid.
    #[error("it cannot be used: {0}")]
    Wrong(&'static str),
}

/// The client configuration for the workload cluster. Sends no request.
pub async fn read(secret: &Secret, denied: &DeniedRanges) -> Result<Config, Unusable> {
    let data = secret.data.as_ref().and_then(|data| data.get(KEY));
    let data = data.filter(|data| !data.0.is_empty()).ok_or(Unusable::NoData)?;
    let text = std::str::from_utf8(&data.0).map_err(|_| Unusable::NotText)?;
    // YAML aliases would expand a small text to any size, and each value takes many times the memory of its text.
    let options = serde_saphyr::options! { budget: serde_saphyr::budget! { max_aliases: 0, max_nodes: MOST_VALUES } };
    let file: Kubeconfig = serde_saphyr::from_str_with_options(text, options).map_err(|_| Unusable::NotAKubeconfig)?;
    check(&file, denied)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    config.map_err(|error| Unusable::Wrong(what_is_wrong(&error)))
}

fn check(file: &Kubeconfig, denied: &DeniedRanges) -> Result<(), Unusable> {
    let context = file
        .contexts
        .iter()
        .find(|context| Some(&context.name) == file.current_context.as_ref())
        .and_then(|named| named.context.as_ref())
        .ok_or(Unusable::NoContext)?;
    let cluster = file.clusters.iter().find(|named| named.name == context.cluster);
    let cluster = cluster.and_then(|named| named.cluster.as_ref());
    let user = file
        .auth_infos
        .iter()
        .find(|named| Some(&named.name) == context.user.as_ref());
    let user = user.and_then(|named| named.auth_info.as_ref());
    let (Some(cluster), Some(user)) = (cluster, user) else {
        return Err(Unusable::NoContext);
    };
    if let Some(field) = refused(cluster, user) {
        return Err(Unusable::Refused(field));
    }
    if cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty()) {
        return Err(Unusable::Wrong(
            "its proxy-url is not taken, as workload clusters are connected to directly",
        ));
    }
    let server = cluster
        .server
        .as_ref()
        .and_then(|server| server.parse::<http::Uri>().ok());
    let host = server.as_ref().and_then(http::Uri::host);
    match host.map(|host| denied.judge(host)) {
        Some(Ok(Some(_))) => Err(Unusable::Denied),
        Some(Err(_)) => Err(Unusable::Wrong("its server is not a URL")),
        Some(Ok(None)) | None => Ok(()),
    }
}

/// The first field that would run a program or read a file of this process.
fn refused(cluster: &Cluster, user: &AuthInfo) -> Option<&'static str> {
    [
        (user.exec.is_some(), "exec"),
        (user.auth_provider.is_some(), "auth-provider"),
        (user.token_file.is_some(), "tokenFile"),
        (user.client_certificate.is_some(), "client-certificate file"),
        (user.client_key.is_some(), "client-key file"),
        (cluster.certificate_authority.is_some(), "certificate-authority file"),
    ]
    .into_iter()
    .find_map(|(is_there, field)| is_there.then_some(field))
}

/// Our own message: the library's may quote what it could not parse.
fn what_is_wrong(error: &KubeconfigError) -> &'static str {
    match error {
        KubeconfigError::MissingClusterUrl | KubeconfigError::ParseClusterUrl(_) => "its server is not a URL",
        KubeconfigError::LoadCertificateAuthority(_) | KubeconfigError::ParseCertificates(_) => {
            "its certificate-authority-data is not a certificate"
        }
        KubeconfigError::LoadClientCertificate(_) => "its client-certificate-data is not Base64",
        KubeconfigError::LoadClientKey(_) => "its client-key-data is not Base64",
        _ => "its cluster or its user is incomplete",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;
    use rstest::rstest;
    use serde_json::{Value, json};

    async fn read(secret: &Secret) -> Result<Config, Unusable> {
        super::read(secret, &DeniedRanges::default()).await
    }

    fn secret(kubeconfig: &Value) -> Secret {
        Secret {
            data: Some([(KEY.to_owned(), ByteString(kubeconfig.to_string().into_bytes()))].into()),
            ..Secret::default()
        }
    }

    fn kubeconfig(cluster: &Value, user: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Config", "current-context": "admin",
            "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}]})
    }

    #[tokio::test]
    async fn what_is_in_it_is_taken() {
        let good = kubeconfig(&json!({"server": "https://192.0.2.1:6443"}), &json!({"token": "abc"}));
        let config = read(&secret(&good)).await.unwrap();
        assert_eq!(config.cluster_url.host(), Some("192.0.2.1"));
    }

    #[rstest]
    #[case(json!({}), json!({"exec": {"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"}}), "exec")]
    #[case(json!({}), json!({"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}), "tokenFile")]
    #[case(json!({}), json!({"client-key": "/etc/kubernetes/key"}), "client-key file")]
    #[case(json!({}), json!({"client-certificate": "/etc/kubernetes/crt"}), "client-certificate file")]
    #[case(json!({}), json!({"auth-provider": {"name": "gcp", "config": {}}}), "auth-provider")]
    #[case(json!({"certificate-authority": "/etc/ca"}), json!({}), "certificate-authority file")]
    #[case(json!({"server": "not a url"}), json!({}), "server is not a URL")]
    // OWN 23m: a kubeconfig led the provider to the metadata of its own cloud.
    #[case(json!({"server": "http://169.254.169.254/latest"}), json!({}), "its server has an address in a range")]
    #[case(json!({"server": "https://2852039166:6443"}), json!({}), "its server has an address in a range")]
    #[case(json!({"server": "https://u@[fe80::1]:6443"}), json!({}), "its server has an address in a range")]
    #[case(json!({"server": "https://metadata.google.internal"}), json!({}), "its server has an address in a range")]
    #[case(json!({"proxy-url": "http://169.254.169.254"}), json!({}), "its proxy-url is not taken")]
    #[case(json!({"certificate-authority-data": "%%%"}), json!({}), "not a certificate")]
    #[tokio::test]
    async fn what_it_must_not_say_is_named(#[case] mut cluster: Value, #[case] user: Value, #[case] named: &str) {
        if cluster.get("server").is_none() {
            cluster["server"] = json!("https://192.0.2.1:6443");
        }
        let error = read(&secret(&kubeconfig(&cluster, &user)))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(named), "{error}");
        assert!(!error.contains("/var/run"), "{error}");
    }

    // OWN 23k: about 100 KiB of aliases became 68 MiB.
    #[tokio::test]
    async fn a_kubeconfig_does_not_become_larger_than_it_is() {
        let mut config = kubeconfig(&json!({"server": "https://192.0.2.1"}), &json!({})).to_string();
        let plain = Secret {
            data: Some([(KEY.to_owned(), ByteString(config.clone().into_bytes()))].into()),
            ..Secret::default()
        };
        read(&plain).await.unwrap();
        config.remove(0);
        let aliased = format!("{{\"preferences\": &a {{}}, \"extensions\": *a, {config}");
        // OWN 31xb: maps take a hundred times as much memory as their text.
        let many = format!(
            "{{\"preferences\": {{\"extensions\": [{}]}}, {config}",
            "{},".repeat(MOST_VALUES)
        );
        for text in [aliased, many] {
            let secret = Secret {
                data: Some([(KEY.to_owned(), ByteString(text.into_bytes()))].into()),
                ..Secret::default()
            };
            assert!(matches!(read(&secret).await.unwrap_err(), Unusable::NotAKubeconfig));
        }
    }

    #[tokio::test]
    async fn what_is_no_kubeconfig_is_said_without_its_content() {
        let empty = read(&Secret::default()).await.unwrap_err();
        assert!(matches!(empty, Unusable::NoData), "{empty}");
        let mut other = secret(&json!("password: hunter2"));
        let error = read(&other).await.unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
        other.data = Some([(KEY.to_owned(), ByteString(vec![0xff, 0xfe]))].into());
        assert!(matches!(read(&other).await.unwrap_err(), Unusable::NotText));
        let mut without_context = kubeconfig(&json!({"server": "https://192.0.2.1"}), &json!({}));
        without_context["current-context"] = json!("other");
        let error = read(&secret(&without_context)).await.unwrap_err();
        assert!(matches!(error, Unusable::NoContext), "{error}");
    }
}
