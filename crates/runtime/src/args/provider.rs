//! Flags that the managers of Cluster API's providers have in common, beside those of every controller.

use std::time::Duration;

use clap::Args;

use super::{LeaderArgs, LogArgs, MetricsArgs, WebhookArgs, go_bool, go_duration};
use crate::listen::ListenAddr;

/// What upstream's providers are started with. Their Deployments can be kept.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Provider")]
pub struct ProviderArgs {
    /// Work only while holding the lease; the same as --enable-leader-election
    #[arg(long, env = "LEADER_ELECT", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub leader_elect: bool,

    /// Time without renewal after which another replica may take over; 0 leaves it to --lease-duration-seconds
    #[arg(long, env = "LEADER_ELECT_LEASE_DURATION", default_value = "0", value_parser = go_duration())]
    pub leader_elect_lease_duration: Duration,

    /// Time without a successful renewal after which the leader gives up; 0 leaves it to --renew-deadline-seconds
    #[arg(long, env = "LEADER_ELECT_RENEW_DEADLINE", default_value = "0", value_parser = go_duration())]
    pub leader_elect_renew_deadline: Duration,

    /// Time between two attempts to take or renew the lease; 0 leaves it to --retry-period-seconds
    #[arg(long, env = "LEADER_ELECT_RETRY_PERIOD", default_value = "0", value_parser = go_duration())]
    pub leader_elect_retry_period: Duration,

    /// The namespace of the pod: the lease lives there
    #[arg(long, env = "POD_NAMESPACE", default_value = "")]
    pub pod_namespace: String,

    /// How often everything is looked at again without a reason
    #[arg(long, env = "SYNC_PERIOD", default_value = "10m", value_parser = go_duration())]
    pub sync_period: Duration,

    /// Value that the label cluster.x-k8s.io/watch-filter of what is worked on must have; empty takes everything
    #[arg(long, env = "WATCH_FILTER", default_value = "")]
    pub watch_filter: String,

    /// Address of /metrics; without it --metrics-addr counts
    #[arg(long, env = "DIAGNOSTICS_ADDRESS")]
    pub diagnostics_address: Option<ListenAddr>,

    /// Serve /metrics over plain HTTP; the same as --metrics-plain-http
    #[arg(long, env = "INSECURE_DIAGNOSTICS", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub insecure_diagnostics: bool,

    /// Conversion and admission.
    #[command(flatten)]
    pub webhooks: WebhookArgs,

    /// text or json; --dev is text, too
    #[arg(long, env = "LOGGING_FORMAT", default_value = "json", value_parser = ["json", "text"])]
    pub logging_format: String,

    /// Accepted so that existing Deployments start; --log-filter says what is logged
    #[arg(short, long, env = "LOG_VERBOSITY", default_value = "0")]
    pub v: u8,

    /// The rest of what Kubernetes' components know about logging.
    #[command(flatten)]
    pub ignored: IgnoredLogArgs,
}

/// Accepted so that existing Deployments start, and without a meaning here: --log-filter says what is logged.
#[derive(Args, Clone, Debug)]
pub struct IgnoredLogArgs {
    /// Verbosity by file.
    #[arg(long, hide = true, env = "LOG_VMODULE", default_value = "")]
    pub vmodule: String,
    /// How often buffers are written out.
    #[arg(long, hide = true, env = "LOG_FLUSH_FREQUENCY", default_value = "")]
    pub log_flush_frequency: String,
    /// Size of a buffer.
    #[arg(long, hide = true, env = "LOG_JSON_INFO_BUFFER_SIZE", default_value = "")]
    pub log_json_info_buffer_size: String,
    /// Errors to stderr, the rest to stdout.
    #[arg(long, hide = true, env = "LOG_JSON_SPLIT_STREAM", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub log_json_split_stream: bool,
    /// Size of a buffer.
    #[arg(long, hide = true, env = "LOG_TEXT_INFO_BUFFER_SIZE", default_value = "")]
    pub log_text_info_buffer_size: String,
    /// Errors to stderr, the rest to stdout.
    #[arg(long, hide = true, env = "LOG_TEXT_SPLIT_STREAM", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub log_text_split_stream: bool,
}

impl ProviderArgs {
    /// Puts what can be said in two ways into one place.
    pub fn unify(&self, leader: &mut LeaderArgs, metrics: &mut MetricsArgs, log: &mut LogArgs) {
        let seconds = |asked: Duration, other: u16| {
            if asked.is_zero() {
                other
            } else {
                // What does not fit is refused with the other times, as too long.
                u16::try_from(asked.as_secs()).unwrap_or(u16::MAX)
            }
        };
        leader.enable_leader_election |= self.leader_elect;
        leader.lease_duration_seconds = seconds(self.leader_elect_lease_duration, leader.lease_duration_seconds);
        leader.renew_deadline_seconds = seconds(self.leader_elect_renew_deadline, leader.renew_deadline_seconds);
        leader.retry_period_seconds = seconds(self.leader_elect_retry_period, leader.retry_period_seconds);
        metrics.metrics_plain_http |= self.insecure_diagnostics;
        log.dev |= self.logging_format == "text";
        if let Some(address) = &self.diagnostics_address {
            metrics.metrics_addr = address.clone();
        }
    }
}
