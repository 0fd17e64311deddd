//! The most memory that is allocated while something runs.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Watches what a test's allocator has handed out, from its start to [`Peak::most`].
#[derive(Debug)]
pub struct Peak {
    before: usize,
    is_over: Arc<AtomicBool>,
    sampler: JoinHandle<usize>,
}

impl Peak {
    /// Begins to ask the allocator how many bytes are in use.
    pub fn watch(allocated: impl Fn() -> usize + Send + 'static) -> Self {
        let before = allocated();
        let is_over = Arc::<AtomicBool>::default();
        let watched = is_over.clone();
        let sampler = thread::spawn(move || {
            let mut most = 0;
            while !watched.load(Ordering::Relaxed) {
                most = most.max(allocated());
                thread::yield_now();
            }
            most
        });
        Self {
            before,
            is_over,
            sampler,
        }
    }

    /// The most bytes beyond those that were in use at the start.
    pub fn most(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        let most = self.sampler.join().unwrap_or_else(|why| resume_unwind(why));
        most.saturating_sub(self.before)
    }
}
