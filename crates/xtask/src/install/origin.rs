//! Where the files of a release come from: a signature over their checksums, and a statement about their source, as SLSA has it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::SignatureScheme;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

/// A key of a release: an ECDSA key on the curve P-256, as `cosign` and `openssl` make it.
#[derive(Debug)]
pub struct Key(Box<dyn rustls::sign::Signer>);

impl Key {
    /// Reads a key in PEM without a password.
    pub fn read(path: &Path) -> Result<Self> {
        let what = || format!("{} is no private key in PEM without a password", path.display());
        let key = PrivateKeyDer::from_pem_file(path).with_context(what)?;
        let key = rustls::crypto::ring::sign::any_ecdsa_type(&key).with_context(what)?;
        let signer = key.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]);
        Ok(Self(signer.with_context(|| {
            format!("{} is not a key on the curve P-256", path.display())
        })?))
    }

    /// A signature in base64, which `cosign verify-blob` and `openssl dgst -verify` understand.
    pub fn sign(&self, content: &[u8]) -> Result<String> {
        let signature = self.0.sign(content).context("cannot sign")?;
        Ok(BASE64_STANDARD.encode(signature) + "\n")
    }
}

/// What the files were made of: an in-toto statement, `None` if the working tree is not what a commit holds.
pub fn statement(root: &Path, registry: &str, version: &str, sums: &[(String, String)]) -> Result<Option<Value>> {
    let git = |args: &[&str]| -> Result<String> {
        let output = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(args)
            .output()
            .context("cannot start git")?;
        ensure!(
            output.status.success(),
            "git {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Ok(changed) = git(&["status", "--porcelain"]) else {
        return Ok(None);
    };
    if !changed.is_empty() {
        return Ok(None);
    }
    let subjects = sums
        .iter()
        .map(|(name, sum)| json!({"name": name, "digest": {"sha256": sum}}));
    let repository = env!("CARGO_PKG_REPOSITORY");
    Ok(Some(json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects.collect::<Vec<_>>(),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{repository}/blob/{version}/docs/install.md#a-release"),
                "externalParameters": {"command": "cargo xtask dist", "registry": registry},
                "resolvedDependencies": [
                    {"uri": format!("git+{repository}@{version}"), "digest": {"gitCommit": git(&["rev-parse", "HEAD"])?}},
                ],
            },
            "runDetails": {"builder": {"id": format!("{repository}/blob/{version}/crates/xtask")}},
        },
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_one_that_openssl_understands() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let pair = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&path, pair.serialize_pem()).unwrap();
        let signature = BASE64_STANDARD
            .decode(Key::read(&path).unwrap().sign(b"sums").unwrap().trim())
            .unwrap();
        let known = rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .all;
        let verifies = |content: &[u8]| {
            let mut known = known.iter();
            known.any(|one| one.verify_signature(pair.public_key_raw(), content, &signature).is_ok())
        };
        assert!(verifies(b"sums") && !verifies(b"others"));

        std::fs::write(&path, "nothing").unwrap();
        let error = Key::read(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("is no private key in PEM without a password"),
            "{error}"
        );
    }

    #[test]
    fn only_an_unchanged_working_tree_has_an_origin() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let sums = [("metal3.yaml".to_owned(), "00".to_owned())];
        let said = || statement(root, "registry", "v1.0.0", &sums).unwrap();
        assert_eq!(said(), None, "no repository");
        let git = |line: &str| {
            let words = line.split(' ');
            let done = Command::new("git").arg("-C").arg(root).args(words).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        git("init --quiet");
        git("-c user.name=a -c user.email=b commit --quiet --allow-empty --message=c");
        let statement = said().unwrap();
        assert_eq!(
            statement["subject"][0],
            json!({"name": "metal3.yaml", "digest": {"sha256": "00"}})
        );
        let source = &statement["predicate"]["buildDefinition"]["resolvedDependencies"][0];
        assert_eq!(source["digest"]["gitCommit"].as_str().unwrap().len(), 40);
        std::fs::write(root.join("new"), "").unwrap();
        assert_eq!(said(), None);
    }
}
