//! What a person sees: in a terminal a table that keeps itself up to date below the lines of what happened; elsewhere
//! only those lines, each once and with the time.

use parking_lot::{Mutex, MutexGuard};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use comfy_table::{Attribute, Cell, Color};
use jiff::Timestamp;
use metal3_api::metal3::ProvisioningState;

use super::journey::Seen;
use super::story::{Story, seconds};
use super::{columns, machines};

/// The width of tables where there is no terminal to ask.
const PLAIN_WIDTH: u16 = 120;
/// How long nothing may be said.
const SILENCE: Duration = Duration::from_secs(8);

/// Standard output.
#[derive(Debug)]
pub struct Screen {
    is_live: bool,
    is_coloured: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Lines of the table that stands below the text now.
    drawn: usize,
    last: Instant,
}

impl Screen {
    /// Live in a terminal that can move its cursor; with colours there unless `NO_COLOR` is set.
    pub fn new() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_live = std::io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self {
            is_live,
            is_coloured: is_live && !is_set("NO_COLOR"),
            state: Mutex::new(State {
                drawn: 0,
                last: Instant::now(),
            }),
        }
    }

    /// Whether there is a table to keep up to date.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// The width of the output in columns.
    pub fn width(&self) -> u16 {
        self.size().0
    }

    /// Columns and lines.
    fn size(&self) -> (u16, u16) {
        let asked = if self.is_live {
            rustix::termios::tcgetwinsize(std::io::stdout()).ok()
        } else {
            None
        };
        asked
            .filter(|size| size.ws_col >= 20)
            .map_or((PLAIN_WIDTH, u16::MAX), |size| (size.ws_col, size.ws_row))
    }

    /// A line that stays, with the time of day.
    pub fn say(&self, text: &str) {
        let time = now().strftime("%H:%M:%S%.1f").to_string();
        let time = if self.is_coloured {
            format!("\x1b[2m{time}\x1b[0m")
        } else {
            time
        };
        self.print(&format!("{time}  {text}"));
    }

    /// Text that stays, as it is.
    pub fn print(&self, text: &str) {
        let mut state = self.state();
        let mut out = erase(&mut state);
        out.push_str(text);
        out.push('\n');
        write(&out);
        state.last = Instant::now();
    }

    /// A heading.
    pub fn heading(&self, text: &str) {
        self.print(&if self.is_coloured {
            format!("\n\x1b[1m{text}\x1b[0m")
        } else {
            format!("\n{text}")
        });
    }

    /// Says something if nothing has been said for a while; always up to date in a terminal.
    pub fn beat(&self, text: &str) {
        if self.is_live {
            self.draw(&[format!("  {text}")]);
        } else if self.state().last.elapsed() >= SILENCE {
            self.say(text);
        }
    }

    /// The tables of Machines and hosts, where they can be drawn.
    pub fn board(&self, seen: &Seen, title: &str) {
        if !self.is_live {
            return;
        }
        let stories = &seen.hosts;
        let (width, height) = self.size();
        let machines = machines::table(&seen.machines, width);
        let height = height.saturating_sub(u16::try_from(machines.lines().count()).unwrap_or(u16::MAX));
        // A table that is higher than the terminal cannot be moved up over: hosts at rest are left out first.
        let room = usize::from(height.saturating_sub(5)).max(1);
        let mut shown: Vec<&Story> = stories.iter().collect();
        if shown.len() > room {
            shown.sort_by_key(|story| (story.waiting.is_none(), story.is_gone));
            shown.truncate(room - 1);
        }
        let mut lines = vec![String::new(), self.bold(title)];
        lines.extend(machines.lines().map(str::to_owned));
        lines.extend(table(&shown, now(), width, self.is_coloured).lines().map(str::to_owned));
        if shown.len() < stories.len() {
            lines.push(format!(" and {} more", stories.len() - shown.len()));
        }
        self.draw(&lines);
    }

    /// Takes the table away.
    pub fn clear(&self) {
        let out = erase(&mut self.state());
        write(&out);
    }

    fn bold(&self, text: &str) -> String {
        if self.is_coloured {
            format!(" \x1b[1m{text}\x1b[0m")
        } else {
            format!(" {text}")
        }
    }

    fn draw(&self, lines: &[String]) {
        let mut state = self.state();
        // Written over instead of erased first, so that nothing flickers; the cursor is hidden meanwhile.
        let up = if state.drawn > 0 {
            format!("\x1b[{}A", state.drawn)
        } else {
            String::new()
        };
        let mut out = format!("\x1b[?25l{up}");
        for line in lines {
            out.push_str(line);
            out.push_str("\x1b[K\n");
        }
        out.push_str("\x1b[J\x1b[?25h");
        write(&out);
        state.drawn = lines.len();
        state.last = Instant::now();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// What removes the table.
fn erase(state: &mut State) -> String {
    match std::mem::take(&mut state.drawn) {
        0 => String::new(),
        lines => format!("\x1b[{lines}A\x1b[J"),
    }
}

/// Somebody who no longer reads is no reason to stop: what runs must still be ended in good order.
fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).ok();
}

/// The table of hosts, one line each whatever the width.
pub fn table(stories: &[&Story], now: Timestamp, width: u16, is_coloured: bool) -> String {
    let dim = |cell: Cell| cell.add_attribute(Attribute::Dim);
    let titles = ["HOST", "STATE", "FOR", "WAITING FOR"].map(|title| dim(Cell::new(title)));
    let mut table = columns::fitted(width, titles);
    if is_coloured {
        table.enforce_styling();
    }
    for story in stories {
        let waits = match (&story.error, &story.waiting) {
            (Some(error), _) => Cell::new(format!("error: {error}")).fg(Color::Red),
            (None, Some(waiting)) => Cell::new(short(&waiting.message)),
            (None, None) => Cell::new(""),
        };
        let elapsed = seconds(story.since, now).max(0.0);
        let cells = vec![
            Cell::new(&story.name),
            // Wide enough for nearly every state, so that columns stay where they are.
            Cell::new(format!("{:<14}", story.state_text())).fg(colour(story)),
            dim(Cell::new(format!("{elapsed:>4.0} s"))),
            waits,
        ];
        columns::add_line(&mut table, cells);
    }
    columns::with_open_end(table)
}

/// The text with each UUID cut to its beginning: a line of the table has no room for more.
fn short(text: &str) -> String {
    let is_uuid = |word: &str| {
        word.len() == 36 && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') && word.matches('-').count() == 4
    };
    let cut = |word: &str| match word.get(..36) {
        Some(uuid) if is_uuid(uuid) => format!("{}…{}", &uuid[..8], &word[36..]),
        _ => word.to_owned(),
    };
    text.split(' ').map(cut).collect::<Vec<_>>().join(" ")
}

fn colour(story: &Story) -> Color {
    if story.error.is_some() {
        return Color::Red;
    }
    match story.state {
        _ if story.is_gone => Color::DarkGrey,
        ProvisioningState::Provisioned => Color::Green,
        ProvisioningState::Available => Color::Blue,
        ProvisioningState::Deprovisioning | ProvisioningState::Deleting => Color::Magenta,
        _ => Color::Cyan,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::story::Waiting;

    #[test]
    fn uuids_are_cut_and_nothing_else() {
        let text = "Ironic inspects node 1f624415-f715-4f23-8123-bf96be5ee1d4: its ramdisk boots; 12 deadbeef";
        assert_eq!(
            short(text),
            "Ironic inspects node 1f624415…: its ramdisk boots; 12 deadbeef"
        );
    }

    #[test]
    fn every_host_has_one_line_however_narrow_the_terminal() {
        let start = Timestamp::from_second(0).unwrap();
        let mut story = Story::new("rack2-node1", start);
        let message = "for Ironic to reach the management controller of the host with its address and credentials";
        story.waiting = Some(Waiting {
            reason: "Verifying".to_owned(),
            message: message.to_owned(),
        });
        for width in [60, 80, 200] {
            let text = table(&[&story, &story], Timestamp::from_second(7).unwrap(), width, false);
            assert_eq!(text.lines().count(), 3, "{text}");
            assert!(
                text.lines().all(|line| line.chars().count() <= usize::from(width)),
                "{text}"
            );
            assert!(text.contains("   7 s") && text.contains("for Ironic"), "{text}");
            assert!(!text.contains('\x1b'));
        }
        assert!(table(&[&story], start, 80, true).contains('\x1b'));
    }
}
