//! Programs that receive cells and the clock from a node. Each has a backlog. A slow program loses
//! single cells, which are counted and reported, but never the clock, which it needs to erase keys,
//! nor the progress of its own cells.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::control::CellFollower;
use mezza_host::process::control::{ControlAnswer, LineOffer};

/// Listeners at a time.
pub(super) const LISTENERS_MAX: usize = 16;
/// Maximum number of cells that wait for one listener.
const BACKLOG_MAX: usize = 1_024;
/// Maximum number of own cells whose progress waits for one listener.
const PROGRESS_MAX: usize = 4_096;

/// One program that listens.
struct Listener {
    answer: ControlAnswer,
    /// The name by which senders of cells refer to this listener.
    name: Option<u64>,
    /// The newest line about the clock that is not sent yet; it replaces an older one.
    clock: Option<Value>,
    /// The newest progress of each own cell that is not sent yet, by ticket.
    progress: BTreeMap<u64, Value>,
    cells: VecDeque<Value>,
    /// Cells dropped since the last line that reported a loss.
    lost: u64,
}

/// A line that a listener receives next.
enum NextLine {
    Clock(Value),
    Progress(u64, Value),
    Lost(Value),
    Cell(Value),
}

impl Listener {
    fn add_cell(&mut self, line: Value) {
        if self.cells.len() >= BACKLOG_MAX {
            // Drop the oldest cell: its life ends first.
            self.cells.pop_front();
            self.lost += 1;
        }
        self.cells.push_back(line);
    }

    fn next_line(&self) -> Option<NextLine> {
        if let Some(clock) = &self.clock {
            return Some(NextLine::Clock(clock.clone()));
        }
        if let Some((ticket, line)) = self.progress.first_key_value() {
            return Some(NextLine::Progress(*ticket, line.clone()));
        }
        if self.lost > 0 {
            return Some(NextLine::Lost(json!({ "event": "lost", "cells": self.lost })));
        }
        self.cells.front().cloned().map(NextLine::Cell)
    }

    /// Sends as many lines as the reader accepts now, the clock first. Returns false if the reader
    /// is gone.
    fn flush(&mut self) -> bool {
        while let Some(next) = self.next_line() {
            let (NextLine::Clock(line)
            | NextLine::Progress(_, line)
            | NextLine::Lost(line)
            | NextLine::Cell(line)) = &next;
            match self.answer.offer_line(line.clone()) {
                LineOffer::Full => return true,
                LineOffer::Closed => return false,
                LineOffer::Taken => self.remove_sent(&next),
            }
        }
        !self.answer.is_closed()
    }

    fn remove_sent(&mut self, sent: &NextLine) {
        match sent {
            NextLine::Clock(_) => self.clock = None,
            NextLine::Progress(ticket, _) => drop(self.progress.remove(ticket)),
            NextLine::Lost(_) => self.lost = 0,
            NextLine::Cell(_) => drop(self.cells.pop_front()),
        }
    }
}

/// All programs that listen to this node.
#[derive(Default)]
pub(super) struct Listeners(Vec<Listener>);

impl Listeners {
    /// Returns true if another listener is accepted.
    pub(super) fn have_room(&mut self) -> bool {
        self.0.retain(|listener| !listener.answer.is_closed());
        self.0.len() < LISTENERS_MAX
    }

    /// Returns true if a program listens under this name.
    pub(super) fn have_name(&self, name: u64) -> bool {
        self.0.iter().any(|listener| listener.name == Some(name) && !listener.answer.is_closed())
    }

    /// Adds a listener, and sends it the clock and all live cells, even if it reads slowly. A
    /// listener with a name first receives a line that confirms it: from then on it can follow
    /// cells.
    pub(super) fn add(
        &mut self,
        answer: &ControlAnswer,
        name: Option<u64>,
        clock: Option<Value>,
        cells: impl Iterator<Item = Value> + Send + 'static,
    ) {
        if name.is_some() {
            answer.send_line(&json!({ "event": "listening" }));
        }
        if let Some(clock) = clock {
            answer.send_line(&clock);
        }
        answer.send_all(cells);
        self.0.push(Listener {
            answer: answer.clone(),
            name,
            clock: None,
            progress: BTreeMap::new(),
            cells: VecDeque::new(),
            lost: 0,
        });
    }

    /// Queues the new time of the clock for all listeners.
    pub(super) fn tell_clock(&mut self, line: &Value) {
        self.0.iter_mut().for_each(|listener| listener.clock = Some(line.clone()));
    }

    /// Queues a new cell for all listeners.
    pub(super) fn tell_cell(&mut self, line: &Value) {
        self.0.iter_mut().for_each(|listener| listener.add_cell(line.clone()));
    }

    /// Queues the progress of a cell for the listener that follows it. Returns false if this
    /// listener is gone.
    pub(super) fn report_progress(&mut self, follower: CellFollower, mut line: Value) -> bool {
        let named = |listener: &Listener| listener.name == Some(follower.listener);
        let Some(at) = self.0.iter().position(named) else { return false };
        let progress = &mut self.0[at].progress;
        if progress.len() >= PROGRESS_MAX && !progress.contains_key(&follower.ticket) {
            // No line may be lost, so a program that does not read loses its stream. It starts
            // again, and takes its cells for refused.
            self.0.remove(at);
            return false;
        }
        line["ticket"] = json!(follower.ticket);
        progress.insert(follower.ticket, line);
        true
    }

    /// Sends as many lines as the listeners accept now, and removes those that are gone.
    pub(super) fn flush(&mut self) {
        self.0.retain_mut(Listener::flush);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(n: u64) -> Value {
        json!({ "event": "cell", "n": n })
    }

    /// A reader that stops while 5,000 cells arrive keeps the newest ones, gets the number of lost
    /// ones, and gets the clock before the cells.
    #[tokio::test]
    async fn mesh_66_a_slow_listener_loses_single_cells_and_no_clock() {
        let (answer, mut lines) = ControlAnswer::make_channel();
        let mut listeners = Listeners::default();
        listeners.add(
            &answer,
            None,
            Some(json!({ "event": "clock", "cur": 0 })),
            (0..2_000).map(cell),
        );
        drop(answer);
        for n in 2_000..7_000 {
            listeners.tell_cell(&cell(n));
            listeners.tell_clock(&json!({ "event": "clock", "cur": n }));
            listeners.flush();
        }
        let mut numbers = Vec::new();
        let mut lost = 0;
        let mut clock = 0;
        // First the lines sent before are read; then the listener is flushed repeatedly.
        for _ in 0..20_000 {
            listeners.flush();
            let pause = std::time::Duration::from_millis(1);
            let Ok(Some(line)) = tokio::time::timeout(pause, lines.recv()).await else { break };
            match line["event"].as_str() {
                Some("cell") => numbers.push(line["n"].as_u64().unwrap()),
                Some("clock") => clock = line["cur"].as_u64().unwrap(),
                _ => lost += line["cells"].as_u64().unwrap(),
            }
        }
        assert_eq!(numbers.len() as u64 + lost, 7_000, "each is shown or counted");
        assert!(numbers.is_sorted() && numbers[..2_000] == *(0..2_000).collect::<Vec<_>>());
        assert_eq!((clock, numbers.last()), (6_999, Some(&6_999)));
        drop(lines);
        listeners.tell_cell(&cell(1));
        listeners.flush();
        assert!(listeners.have_room() && listeners.0.is_empty());
    }

    /// A named listener that does not read keeps the newest progress of each of its cells. One that
    /// follows more cells than its queue holds loses its stream as a whole, and never a single line.
    #[tokio::test]
    async fn mesh_86_no_progress_of_a_followed_cell_is_lost() {
        let (answer, mut lines) = ControlAnswer::make_channel();
        let mut listeners = Listeners::default();
        listeners.add(&answer, Some(9), None, std::iter::empty());
        assert!(listeners.have_name(9) && !listeners.have_name(8));
        let report = |listeners: &mut Listeners, ticket, names: u64| {
            let line = json!({ "event": "carried", "names": names });
            listeners.report_progress(CellFollower { listener: 9, ticket }, line)
        };
        for names in 1..=3 {
            assert!((0..PROGRESS_MAX as u64).all(|ticket| report(&mut listeners, ticket, names)));
        }
        assert!(!listeners.report_progress(CellFollower { listener: 8, ticket: 1 }, json!({})));
        assert_eq!(lines.recv().await.unwrap()["event"], "listening");
        for ticket in 0..PROGRESS_MAX as u64 {
            listeners.flush();
            let line = lines.recv().await.unwrap();
            assert_eq!((&line["ticket"], &line["names"]), (&json!(ticket), &json!(3)));
        }
        for ticket in 0..PROGRESS_MAX as u64 {
            assert!(report(&mut listeners, ticket, 1));
        }
        assert!(!report(&mut listeners, u64::MAX, 1), "a queue above its bound");
        assert!(!listeners.have_name(9));
    }
}
