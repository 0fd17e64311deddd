//! Flags of upstream that have nothing to act on here. Each is accepted, so that an existing Deployment starts; what would
//! have changed the behaviour is said.

use clap::Args;

/// What is accepted for the sake of existing Deployments.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Compatibility")]
pub struct CompatArgs {
    /// Phases of the migration of stored versions to leave out (StorageVersionMigration, CleanupManagedFields); this version
    /// migrates nothing
    #[arg(long, env = "SKIP_CRD_MIGRATION_PHASES", value_delimiter = ',')]
    pub skip_crd_migration_phases: Vec<String>,
}
