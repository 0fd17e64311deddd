//! The IP address manager: pools of addresses, and claims that get one.
//!
//! ```text
//!  watches: pools, claims and addresses of both families, Clusters
//!      │ watches
//!      ▼
//!    Book (one per pool) ──▶ decide (pure) ──▶ a round of requests ──▶ API server
//!      ▲                                            │ answers
//!      └────────────────────────────────────────────┘
//! ```
//!
//! [`alloc`] is the arithmetic, without Kubernetes. [`pool`] is one pool: what is known, what to do next, doing it.
//! [`admission`] says what may be written. [`watches`] brings what the watches show to the [`books`],
//! [`pass`] goes round after round until a pool is settled.
//!
//! # Why no address has two holders
//!
//! Caches lag, processes are killed anywhere, and a manager that has lost its lease may still have requests under way. So
//! nothing is concluded from a cache alone. There are two kinds of address objects, and names only keep apart those of one
//! kind; what is to keep everybody apart is the pool, of which there is one.
//!
//! 1. **An address is given by a write to the pool's status**, which adds it to `allocating` (and `indexes`), and which the
//!    server takes only if the pool is still the version that the decision was made on. Of two managers, one gets 409.
//! 2. **A decision is made on a complete view.** Whenever a manager meets a pool for the first time, or a version of it that
//!    this manager has not written itself (another one is at work, or a move or a restore has emptied it), it reads the pool
//!    and *then* the addresses of both families from the server, not from the cache. Every address that was given before
//!    that version of the pool is then in `allocating` or has its object; one that is given later changes the pool, and the
//!    write of rule 1 fails.
//! 3. **An address object is made only for what `allocating` promises to that very claim** (by UID), under a name that follows
//!    from the address; a promise ends when its claim has been told, or when the server has said that the claim is gone.
//!    Whoever is killed in between, the next one finds the promise and makes the same object. If the name is taken, what is
//!    there is looked at: ours after all, a leftover that goes, or a reason to take another address.
//! 4. **An address is free only when the server has said that its object is gone**, and whoever gives it again does so by
//!    rule 1. The claim's finalizer, which is there before anything is given, stays until then.
//!
//! What is left is a request of a manager that lost its lease, which arrives after its claim is gone and its address is
//! another's: an object without a claim, or of an earlier claim of the same name. It is removed, and until then its address is
//! blocked.
//!
//! `pool::simulation` tries this: a walk kills a leader at each of its requests in turn, and random schedules let up to three
//! managers with lagging caches overlap, lose answers, die, and leave requests behind that arrive late.
//!
//! # Why none leaks, and why every claim ends
//!
//! Each step can be seen in the API, and each pass begins from what is seen: a finalizer without an address, an entry of
//! `allocating` without an object, an object without a claim's status, an object without a claim all have a next step. A
//! request that fails holds up its own claim, with a growing pause. Claims that find the pool used up wait in a queue, oldest
//! first, and are looked at when an address becomes free or the pool changes; other refusals are looked at again then, too.
//!
//! # What is not done
//!
//! Upstream keeps a failed claim failed until it is made anew; here a failure lasts as long as its cause. An address keeps its
//! prefix, gateway and DNS servers when the pool changes later, as upstream's does.

pub mod admission;
pub mod alloc;
pub mod args;
pub mod books;
pub mod metrics;
pub mod pass;
pub mod pool;
pub mod rbac;
pub mod run;
pub mod watches;
