//! A certificate authority for one lab: serving certificates, client certificates and the key pair for service
//! account tokens. Everything is ECDSA P-256 and valid from 2000 to 2049, so no test depends on the clock.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context, Result, bail};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use serde::{Deserialize, Serialize};

use crate::private_file;

/// A certificate with its private key, both PEM.
#[derive(Clone, Serialize, Deserialize)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key, PKCS #8.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

impl Pair {
    /// Writes `NAME.crt` and `NAME.key` into `folder`, the key readable by the owner only.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        fs::write(folder.join(format!("{name}.crt")), &self.certificate).context("cannot write a certificate")?;
        private_file::write(&folder.join(format!("{name}.key")), &self.key)
    }
}

/// A name in a serving certificate, beside 127.0.0.1 and localhost.
#[derive(Debug, Clone)]
pub enum Name {
    /// A DNS name.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

/// A certificate authority.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes a new authority of this common name.
    pub fn generate(common_name: &str) -> Result<Self> {
        Self::new(ca_params(common_name)?)
    }

    /// The same, but it expired long ago. What it signs has not.
    pub fn expired(common_name: &str) -> Result<Self> {
        let mut params = ca_params(common_name)?;
        params.not_after = date_time_ymd(2001, 1, 1);
        Self::new(params)
    }

    fn new(params: CertificateParams) -> Result<Self> {
        let key = KeyPair::generate().context("cannot make the key of the CA")?;
        let certificate = params
            .self_signed(&key)
            .context("cannot sign the CA's own certificate")?
            .pem();
        Ok(Self {
            certificate,
            issuer: Issuer::new(params, key),
        })
    }

    /// Reads `ca.crt` and `ca.key` from `folder`, as written by an earlier call with the same name, or makes them.
    pub fn open_or_generate(folder: &Path, common_name: &str) -> Result<Self> {
        let (certificate, key) = (folder.join("ca.crt"), folder.join("ca.key"));
        if certificate.exists() && key.exists() {
            let pem = fs::read_to_string(&key).with_context(|| format!("cannot read {}", key.display()))?;
            let key = KeyPair::from_pem(&pem).with_context(|| format!("{} holds no private key", key.display()))?;
            let certificate =
                fs::read_to_string(&certificate).with_context(|| format!("cannot read {}", certificate.display()))?;
            return Ok(Self {
                certificate,
                issuer: Issuer::new(ca_params(common_name)?, key),
            });
        }
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let made = Self::generate(common_name)?;
        made.pair().write(folder, "ca")?;
        Ok(made)
    }

    /// The authority's own certificate, PEM: what clients must trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The authority's certificate and key, for those that sign by themselves.
    pub fn pair(&self) -> Pair {
        Pair {
            certificate: self.certificate.clone(),
            key: self.issuer.key().serialize_pem(),
        }
    }

    /// A serving certificate for 127.0.0.1, localhost and `names`.
    pub fn server(&self, common_name: &str, names: &[Name]) -> Result<Pair> {
        let mut params = leaf_params(common_name)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let local = [Name::Ip(Ipv4Addr::LOCALHOST.into()), Name::Dns("localhost".to_owned())];
        for name in local.iter().chain(names) {
            params.subject_alt_names.push(match name {
                Name::Dns(name) => SanType::DnsName(
                    name.as_str()
                        .try_into()
                        .with_context(|| format!("{name} is no DNS name"))?,
                ),
                Name::Ip(address) => SanType::IpAddress(*address),
            });
        }
        self.sign(&params)
    }

    /// A client certificate: Kubernetes reads the common name as the user and the organisations as groups.
    ///
    /// Two groups at most: the library that signs keeps one value per attribute, and an attribute can be named in two
    /// ways.
    pub fn client(&self, common_name: &str, groups: &[&str]) -> Result<Pair> {
        let mut params = leaf_params(common_name)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let organisation = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        if groups.len() > organisation.len() {
            bail!(
                "a client certificate for {common_name} can name two groups, not {}",
                groups.len()
            );
        }
        for (attribute, group) in organisation.into_iter().zip(groups) {
            params.distinguished_name.push(attribute, *group);
        }
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Pair> {
        let key = KeyPair::generate().context("cannot make a key")?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .context("cannot sign a certificate")?
            .pem();
        Ok(Pair {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

/// Writes `sa.key` and `sa.pub` into `folder` unless they are there: the pair that signs and checks the tokens of
/// service accounts.
pub fn service_account_keys(folder: &Path) -> Result<()> {
    let (private, public) = (folder.join("sa.key"), folder.join("sa.pub"));
    if private.exists() && public.exists() {
        return Ok(());
    }
    let key = KeyPair::generate().context("cannot make the key for service accounts")?;
    private_file::write(&private, &key.serialize_pem())?;
    fs::write(&public, key.public_key_pem()).with_context(|| format!("cannot write {}", public.display()))
}

fn ca_params(common_name: &str) -> Result<CertificateParams> {
    let mut params = leaf_params(common_name)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    params.use_authority_key_identifier_extension = false;
    Ok(params)
}

fn leaf_params(common_name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new()).context("cannot describe a certificate")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2049, 12, 31);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}
