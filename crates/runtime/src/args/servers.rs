//! Where the process serves, and with which TLS settings.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{args::go_bool, listen::ListenAddr};

/// Health probes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Servers")]
pub struct ProbeArgs {
    /// Address of /healthz and /readyz over plain HTTP; 0 switches them off
    #[arg(long, env = "HEALTH_ADDR", default_value = ":9440")]
    pub health_addr: ListenAddr,
}

/// The metrics endpoint.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Servers")]
pub struct MetricsArgs {
    /// Address of /metrics; 0 switches it off
    #[arg(long, env = "METRICS_ADDR", default_value = ":8443")]
    pub metrics_addr: ListenAddr,

    /// Directory with tls.crt and tls.key of /metrics; without these files a self-signed certificate is made
    #[arg(
        long,
        env = "METRICS_CERT_DIR",
        default_value = "/tmp/k8s-metrics-server/serving-certs"
    )]
    pub metrics_cert_dir: PathBuf,

    /// Serve /metrics over plain HTTP without asking who calls; on another than a loopback address this is warned about
    #[arg(long, env = "METRICS_PLAIN_HTTP", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub metrics_plain_http: bool,
}

/// The webhooks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Servers")]
pub struct WebhookArgs {
    /// Port of the webhooks, which every replica serves; 0 switches them off
    #[arg(long, env = "WEBHOOK_PORT", default_value = "9443")]
    pub webhook_port: u16,

    /// Directory with tls.crt and tls.key of the webhooks, as cert-manager mounts them; changes are followed
    #[arg(
        long,
        env = "WEBHOOK_CERT_DIR",
        default_value = "/tmp/k8s-webhook-server/serving-certs/"
    )]
    pub webhook_cert_dir: PathBuf,
}

/// TLS settings of every server in the process (webhooks and metrics).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Servers")]
pub struct TlsArgs {
    /// Oldest TLS version that is served
    #[arg(long, env = "TLS_MIN_VERSION", default_value = "TLS12")]
    pub tls_min_version: TlsVersion,

    /// Newest TLS version that is served
    #[arg(long, env = "TLS_MAX_VERSION", default_value = "TLS13")]
    pub tls_max_version: TlsVersion,

    /// Cipher suites of TLS 1.2 by their IANA names, separated by commas; empty takes the safe ones
    #[arg(long, env = "TLS_CIPHER_SUITES", default_value = "")]
    pub tls_cipher_suites: String,

    /// Key exchange groups in order of preference, separated by commas: X25519, CurveP256, CurveP384, CurveP521,
    /// X25519MLKEM768, SecP256r1MLKEM768, SecP384r1MLKEM1024; empty takes the defaults
    #[arg(long, env = "TLS_CURVE_PREFERENCES", default_value = "")]
    pub tls_curve_preferences: String,
}

/// A TLS version that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum TlsVersion {
    /// TLS 1.2
    #[value(name = "TLS12", alias = "VersionTLS12")]
    Tls12,
    /// TLS 1.3
    #[value(name = "TLS13", alias = "VersionTLS13")]
    Tls13,
}
