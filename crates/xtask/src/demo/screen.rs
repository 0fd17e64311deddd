//! The demo's output: permanent lines with the time; below them, in a terminal, one progress line.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;

/// Where there is no terminal, this much silence is broken by a line with what is under way.
const SILENCE: Duration = Duration::from_secs(8);
/// Removes the line with what is under way.
const ERASE: &str = "\r\x1b[K";

/// Standard output.
#[derive(Debug)]
pub struct Screen {
    is_terminal: bool,
    last: Mutex<Instant>,
}

impl Screen {
    /// A terminal is one whose cursor can be moved.
    pub fn new() -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            is_terminal: std::io::stdout().is_terminal() && !is_dumb,
            last: Mutex::new(Instant::now()),
        }
    }

    /// A line that stays, with the time of day.
    pub fn say(&self, text: &str) {
        self.print(&format!("{}  {text}", now().strftime("%H:%M:%S%.1f")));
    }

    /// A heading.
    pub fn heading(&self, text: &str) {
        let has_styles = self.is_terminal && std::env::var_os("NO_COLOR").is_none();
        let (bold, plain) = if has_styles { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        self.print(&format!("\n{bold}{text}{plain}"));
    }

    /// Text that stays, as it is.
    pub fn print(&self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// What is under way.
    pub fn progress(&self, text: &str) {
        if self.is_terminal {
            // Cut at the edge of the terminal instead of wrapped, so that it can be erased.
            self.write(&format!("\x1b[?7l  {text}\x1b[?7h"));
        } else if self.last.lock().elapsed() >= SILENCE {
            self.say(text);
        }
    }

    /// Nothing is under way any more.
    pub fn clear(&self) {
        self.write("");
    }

    fn write(&self, text: &str) {
        let mut last = self.last.lock();
        let erase = if self.is_terminal { ERASE } else { "" };
        let mut out = std::io::stdout().lock();
        // If the reader is gone, what runs must still be stopped in order.
        write!(out, "{erase}{text}").and_then(|()| out.flush()).ok();
        *last = Instant::now();
    }
}

/// The time of day.
#[expect(
    clippy::disallowed_methods,
    reason = "the edge of a process: what is measured here is what a person would"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}
