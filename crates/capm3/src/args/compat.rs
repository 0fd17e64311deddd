//! Flags of upstream that have nothing to act on here. Each is accepted, so that an existing Deployment starts; what would
//! have changed the behaviour is said.

use clap::Args;

/// What is accepted for the sake of existing Deployments.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Compatibility")]
pub struct CompatArgs {
    /// Metal3Remediations at once; this version does not remediate
    #[arg(long, env = "METAL3REMEDIATION_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub metal3remediation_concurrency: u16,

    /// Phases of the migration of stored versions to leave out (StorageVersionMigration, CleanupManagedFields); this version
    /// migrates nothing
    #[arg(long, env = "SKIP_CRD_MIGRATION_PHASES", value_delimiter = ',')]
    pub skip_crd_migration_phases: Vec<String>,

    /// Accepted so that existing Deployments start; --log-filter says what is logged
    #[arg(long, env = "LOG_VERBOSITY", default_value = "0")]
    pub v: u8,

    /// The same by file; --log-filter says what is logged
    #[arg(long, default_value = "")]
    pub vmodule: String,

    /// Accepted so that existing Deployments start; every line is written at once
    #[arg(long, default_value = "5s")]
    pub log_flush_frequency: String,

    /// Accepted so that existing Deployments start; all lines go to one stream
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub log_json_split_stream: String,

    /// Accepted so that existing Deployments start; nothing is buffered
    #[arg(long, hide = true, default_value = "0")]
    pub log_json_info_buffer_size: String,

    /// Accepted so that existing Deployments start; all lines go to one stream
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub log_text_split_stream: String,

    /// Accepted so that existing Deployments start; nothing is buffered
    #[arg(long, hide = true, default_value = "0")]
    pub log_text_info_buffer_size: String,
}
