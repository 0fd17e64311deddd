//! Free ports on loopback, without a race between several labs on one machine.
//!
//! Asking the kernel for a free port, closing it and using it later is a race: another process may get the same one, and any
//! outgoing connection may take a port of the ephemeral range. Therefore ports come from below that range, and a locked file
//! reserves each one while its [`Port`] lives. The kernel releases the lock when the holder ends, however it ends, so there are
//! no stale locks to clean up.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// A port on 127.0.0.1 that no other lab on this machine will use while this value lives.
///
/// Nothing listens on it yet. Children of this process may; the parent holds the lock.
#[derive(Debug)]
pub struct Port {
    number: u16,
    lock: File,
}

impl Port {
    /// Takes any free port.
    pub fn free() -> Result<Self> {
        let range = range(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default());
        let size = u64::from(range.end - range.start);
        // A random start keeps two labs that begin at the same moment out of each other's way.
        let start = RandomState::new().hash_one(0_u8) % size;
        for step in 0..size {
            let offset = u16::try_from((start + step) % size).context("a range of ports is below 65536")?;
            if let Some(port) = Self::take(range.start + offset)? {
                return Ok(port);
            }
        }
        bail!("no free port on 127.0.0.1 in {}..{}", range.start, range.end)
    }

    /// Takes this port if no other lab holds it and nothing listens on it.
    pub fn take(number: u16) -> Result<Option<Self>> {
        let folder = folder();
        fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let path = folder.join(number.to_string());
        // Never remove the file: a lock on a removed file is invisible to other processes.
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open the lock {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(err)) => {
                return Err(err).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        let nobody_listens = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok();
        Ok(nobody_listens.then_some(Self { number, lock }))
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Closing alone would not do for the moment in which another thread has forked and not yet called exec.
        self.lock.unlock().ok();
    }
}

/// One folder per user: two users cannot lock each other's files.
fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("metal3-lab-ports-{}", rustix::process::getuid().as_raw()))
}

/// The ports to choose from, by the kernel's ephemeral range ("first last").
fn range(ephemeral: &str) -> Range<u16> {
    const WANTED: Range<u16> = 20_000..32_000;
    let mut bounds = ephemeral
        .split_whitespace()
        .filter_map(|number| number.parse::<u16>().ok());
    match (bounds.next(), bounds.next()) {
        // A machine whose ephemeral range starts early: what lies below it if that is enough, else what lies above.
        (Some(first), Some(last)) if first < WANTED.end => {
            if first > 4_000 {
                first.saturating_sub(10_000).max(2_000)..first
            } else if last < 64_000 {
                last + 1..65_535
            } else {
                WANTED
            }
        }
        _ => WANTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_lie_outside_the_ephemeral_range() {
        assert_eq!(range("32768\t60999\n"), 20_000..32_000);
        assert_eq!(range("16000 65535"), 6_000..16_000);
        assert_eq!(range("1024 60000"), 60_001..65_535);
        assert_eq!(
            range("1024 65535"),
            20_000..32_000,
            "nothing is outside: the lock alone must do"
        );
        assert_eq!(range(""), 20_000..32_000);
    }

    #[test]
    fn a_port_is_given_out_once_until_it_is_dropped() {
        let port = Port::free().unwrap();
        let number = port.number();
        assert!(Port::take(number).unwrap().is_none(), "held");
        drop(port);
        let again = Port::take(number).unwrap().expect("free again");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap();
        drop(again);
        assert!(Port::take(number).unwrap().is_none(), "somebody listens");
        drop(listener);
    }
}
