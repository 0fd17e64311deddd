//! One pool: what is known of it, what to do next, and doing it.
//!
//! ```text
//!  watches ──────────────▶ Book ──▶ decide (pure) ──▶ a round of effects ──▶ apply ──┐
//!  answers to our requests ──▲───────────────────────────────────────────────────────┘
//! ```

mod answer;
mod apply;
mod book;
mod decide;
mod doubt;
pub mod effect;
mod fresh;
mod note;
mod promise;
mod record;
pub mod seen;
#[cfg(test)]
mod simulation;
mod stuck;
mod text;

pub use self::apply::Server;
pub use self::book::{Book, ClusterSeen, Policy};
pub use self::decide::Round;
pub use self::fresh::Lists;
pub use self::note::{Told, gathered};
pub use self::text::{CONSISTENT, SPEC_VALID, plan_of, pool_text, problems_of};
