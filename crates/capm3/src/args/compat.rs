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
}
