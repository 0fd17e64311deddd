//! Credentials for a registry out of a docker configuration, as Kubernetes keeps it in Secrets.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use serde::Deserialize;

use super::plan::EventReason;

/// What is wrong with a Secret, and the event that tells of it.
pub type Flaw = (EventReason, String);

#[derive(Deserialize)]
struct Config {
    auths: BTreeMap<String, Entry>,
}

/// One registry's entry. Either both texts, or both in one, coded.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    username: String,
    password: String,
    auth: String,
}

/// `user:password` for the registry of an image, which is how Ironic takes it. What is wrong is told without a word of the
/// content.
pub fn credentials(kind: &str, data: &BTreeMap<String, ByteString>, image_url: &str) -> Result<String, Flaw> {
    let key = match kind {
        "kubernetes.io/dockerconfigjson" => ".dockerconfigjson",
        "kubernetes.io/dockercfg" => ".dockercfg",
        other => {
            return Err((
                EventReason::ImageAuthFormatUnsupported,
                format!("is of type {other:?}; it must be kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg"),
            ));
        }
    };
    let flaw = |what: String| (EventReason::ImageAuthParseError, what);
    let text = data.get(key).ok_or_else(|| flaw(format!("has no key {key}")))?;
    // The parser quotes what it stumbles over, so its words are not passed on.
    let broken = |_| flaw(format!("has something under key {key} that is no docker configuration"));
    let auths = if key == ".dockercfg" {
        serde_json::from_slice(&text.0).map_err(broken)?
    } else {
        serde_json::from_slice::<Config>(&text.0).map_err(broken)?.auths
    };
    let registry = host_of(image_url);
    let entry = auths
        .iter()
        .find(|(name, _)| host_of(name) == registry)
        .map(|(_, entry)| entry)
        .ok_or_else(|| flaw(format!("has no credentials for registry {registry}")))?;
    entry
        .credentials()
        .ok_or_else(|| flaw(format!("has no usable user name and password for registry {registry}")))
}

impl Entry {
    fn credentials(&self) -> Option<String> {
        if !self.username.is_empty() && !self.password.is_empty() {
            return Some(format!("{}:{}", self.username, self.password));
        }
        let decoded = String::from_utf8(STANDARD.decode(self.auth.trim()).ok()?).ok()?;
        let (user, password) = decoded.split_once(':')?;
        (!user.is_empty() && !password.is_empty()).then(|| format!("{user}:{password}"))
    }
}

/// Host and port of a registry, from an image's URL or from a key of a docker configuration, without user info. The names of Docker Hub are
/// one registry.
fn host_of(text: &str) -> String {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
        .to_ascii_lowercase();
    match host.as_str() {
        "docker.io" | "registry-1.docker.io" | "registry.hub.docker.com" => "index.docker.io".to_owned(),
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    const JSON: &str = "kubernetes.io/dockerconfigjson";

    fn read(kind: &str, key: &str, content: &Value, url: &str) -> Result<String, Flaw> {
        let data = BTreeMap::from([(key.to_owned(), ByteString(content.to_string().into_bytes()))]);
        credentials(kind, &data, url)
    }

    #[rstest]
    #[case::coded("registry.example", json!({"auth": "dXNlcjpwYXNzOndvcmQ="}), "oci://registry.example/a/b:1", "user:pass:word")]
    #[case::plain("registry.example", json!({"username": "u", "password": "p"}), "oci://registry.example/a", "u:p")]
    #[case::with_port("registry.example:5000", json!({"auth": "dTpw"}), "oci://Registry.example:5000/a", "u:p")]
    #[case::user_info("registry.example", json!({"auth": "dTpw"}), "oci://me:canary@registry.example/a@sha256:0", "u:p")]
    #[case::as_url("https://registry.example/v2/", json!({"auth": "dTpw"}), "OCI://registry.example/a@sha256:0", "u:p")]
    #[case::docker_hub("https://index.docker.io/v1/", json!({"auth": "dTpw"}), "oci://docker.io/library/a", "u:p")]
    fn entries(#[case] name: &str, #[case] entry: Value, #[case] url: &str, #[case] expected: &str) {
        let new = json!({"auths": {"other.example": {"auth": "bm90OnRoaXM="}, name: entry.clone()}});
        assert_eq!(read(JSON, ".dockerconfigjson", &new, url).unwrap(), expected);
        let old = json!({name: entry});
        assert_eq!(
            read("kubernetes.io/dockercfg", ".dockercfg", &old, url).unwrap(),
            expected
        );
    }

    #[rstest]
    #[case::wrong_type("Opaque", ".dockerconfigjson", json!({}), EventReason::ImageAuthFormatUnsupported, "\"Opaque\"")]
    #[case::wrong_key(JSON, ".dockercfg", json!({}), EventReason::ImageAuthParseError, "no key .dockerconfigjson")]
    #[case::no_config(JSON, ".dockerconfigjson", json!(["hunter2"]), EventReason::ImageAuthParseError, "no docker configuration")]
    #[case::other_registry(JSON, ".dockerconfigjson", json!({"auths": {"x": {"auth": "hunter2"}}}), EventReason::ImageAuthParseError,
        "no credentials for registry r.example:5000")]
    #[case::not_coded(JSON, ".dockerconfigjson", json!({"auths": {"r.example:5000": {"auth": "hunter2"}}}), EventReason::ImageAuthParseError,
        "no usable user name and password")]
    #[case::half(JSON, ".dockerconfigjson", json!({"auths": {"r.example:5000": {"username": "hunter2"}}}), EventReason::ImageAuthParseError,
        "no usable user name and password")]
    fn flaws_are_named_without_the_content(
        #[case] kind: &str,
        #[case] key: &str,
        #[case] content: Value,
        #[case] event: EventReason,
        #[case] words: &str,
    ) {
        let (found, why) = read(kind, key, &content, "oci://r.example:5000/a").unwrap_err();
        assert_eq!(found, event);
        assert!(why.contains(words) && !why.contains("hunter2"), "{why}");
    }
}
