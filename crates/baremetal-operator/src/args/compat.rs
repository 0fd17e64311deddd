//! Flags and variables of upstream that have nothing to act on here. Each is accepted and checked as upstream checks it,
//! so that an existing Deployment starts; what would have changed the behaviour is said loudly.

use crate::duration::go_duration;
use clap::Args;
use clap::builder::ValueParser;

/// What is accepted for the sake of existing Deployments.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Compatibility")]
pub struct CompatArgs {
    /// The way hosts are provisioned: ironic. Upstream's demo and fixture make up hosts within the operator; they are refused, so that no host is said to run what nobody deployed: an Ironic to try things with is crates/ironic-sim
    #[arg(long, default_value = "ironic", value_parser = provisioner())]
    pub provisioner: String,

    /// Folder of provisioner plugins, which this program cannot load
    #[arg(long, env = "PROVISIONER_PLUGIN_DIR", default_value = "/plugins")]
    pub provisioner_plugin_dir: String,

    /// How long upstream trusts a negotiated API version; here it is negotiated anew after every outage
    #[arg(long, env = "IRONIC_CLIENT_CACHE_TTL", default_value = "5s", value_parser = ttl())]
    pub ironic_client_cache_ttl: String,

    /// An option of servers, without effect on a client
    #[arg(long, env = "IRONIC_SKIP_CLIENT_SAN_VERIFY", default_value = "false", value_parser = any_case_bool())]
    pub ironic_skip_client_san_verify: bool,
}

impl CompatArgs {
    /// Why the program must not start: it would do something else than what was asked for.
    pub fn refusal(&self) -> Option<String> {
        match self.provisioner.as_str() {
            "ironic" => None,
            known @ ("demo" | "fixture") => Some(format!(
                "--provisioner={known} is not part of this program; use ironic, for tests with a simulated Ironic"
            )),
            plugin => Some(format!(
                "--provisioner={plugin}: plugins in {} cannot be loaded; use ironic",
                self.provisioner_plugin_dir
            )),
        }
    }

    /// What was asked for and will not happen.
    pub fn complaints(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.ironic_skip_client_san_verify {
            found.push("IRONIC_SKIP_CLIENT_SAN_VERIFY has no effect on a client".to_owned());
        }
        found
    }
}

/// `^[a-z0-9][a-z0-9-]*$`
fn provisioner() -> ValueParser {
    ValueParser::new(|text: &str| {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let begins = text.chars().next().is_some_and(is_plain);
        if begins && text.chars().all(|c| is_plain(c) || c == '-') {
            Ok(text.to_owned())
        } else {
            Err("expected lower-case letters, digits and dashes")
        }
    })
}

/// A Go duration that may be zero but not negative.
fn ttl() -> ValueParser {
    ValueParser::new(|text: &str| match text {
        "0" | "0s" => Ok(text.to_owned()),
        other => go_duration(other).map(|_| other.to_owned()),
    })
}

/// `true` in any case; everything else is false, as upstream reads these.
pub(crate) fn any_case_bool() -> ValueParser {
    ValueParser::new(|text: &str| Ok::<_, String>(text.eq_ignore_ascii_case("true")))
}
