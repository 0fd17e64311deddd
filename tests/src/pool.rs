//! One Ironic for many scenarios.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metal3_lab::ironic::{IronicConfig, IronicLab};
use tokio::sync::OnceCell;

/// An Ironic that the scenarios of a binary share, each with servers of its own. It ends with the binary.
#[derive(Debug)]
pub struct Pool {
    config: fn() -> IronicConfig,
    ironic: OnceCell<Arc<IronicLab>>,
    taken: AtomicUsize,
}

impl Pool {
    /// An Ironic that is started when it is asked for first.
    pub const fn new(config: fn() -> IronicConfig) -> Self {
        Self {
            config,
            ironic: OnceCell::const_new(),
            taken: AtomicUsize::new(0),
        }
    }

    /// The Ironic itself, for a scenario that needs a certain server of it.
    pub async fn ironic(&self) -> Arc<IronicLab> {
        let start = async || Arc::new(IronicLab::start((self.config)()).await.expect("Ironic starts"));
        self.ironic.get_or_init(start).await.clone()
    }

    /// The Ironic, and the first of this many servers that no other scenario has.
    pub(crate) async fn take(&self, servers: usize) -> (Arc<IronicLab>, usize) {
        let ironic = self.ironic().await;
        let first = self.taken.fetch_add(servers, Ordering::Relaxed);
        assert!(first + servers <= ironic.hosts().len(), "the pool has servers left");
        (ironic, first)
    }
}
