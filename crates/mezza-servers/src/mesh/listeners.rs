//! Programs that receive cells and the clock from a node. Each has a backlog. A slow program loses
//! single cells, which are counted and reported, but never the clock, which it needs to erase keys.

use std::collections::VecDeque;

use serde_json::{Value, json};

use mezza_host::process::control::{ControlAnswer, LineOffer};

/// Listeners at a time.
pub(super) const LISTENERS_MAX: usize = 16;
/// Maximum number of cells that wait for one listener.
const BACKLOG_MAX: usize = 1_024;

/// One program that listens.
struct Listener {
    answer: ControlAnswer,
    /// The newest line about the clock that is not sent yet; it replaces an older one.
    clock: Option<Value>,
    cells: VecDeque<Value>,
    /// Cells dropped since the last line that reported a loss.
    lost: u64,
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

    /// Sends as many lines as the reader accepts now, the clock first. Returns false if the reader
    /// is gone.
    fn flush(&mut self) -> bool {
        loop {
            let lost = (self.lost > 0).then(|| json!({ "event": "lost", "cells": self.lost }));
            let Some(line) = self.clock.clone().or(lost).or_else(|| self.cells.front().cloned())
            else {
                return !self.answer.is_closed();
            };
            match self.answer.offer_line(line) {
                LineOffer::Full => return true,
                LineOffer::Closed => return false,
                LineOffer::Taken if self.clock.take().is_some() => (),
                LineOffer::Taken if self.lost > 0 => self.lost = 0,
                LineOffer::Taken => drop(self.cells.pop_front()),
            }
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

    /// Adds a listener, and sends it the clock and all live cells, even if it reads slowly.
    pub(super) fn add(
        &mut self,
        answer: &ControlAnswer,
        clock: Option<Value>,
        cells: impl Iterator<Item = Value> + Send + 'static,
    ) {
        if let Some(clock) = clock {
            answer.send_line(&clock);
        }
        answer.send_all(cells);
        let answer = answer.clone();
        let cells = VecDeque::new();
        self.0.push(Listener { answer, clock: None, cells, lost: 0 });
    }

    /// Queues the new time of the clock for all listeners.
    pub(super) fn tell_clock(&mut self, line: &Value) {
        self.0.iter_mut().for_each(|listener| listener.clock = Some(line.clone()));
    }

    /// Queues a new cell for all listeners.
    pub(super) fn tell_cell(&mut self, line: &Value) {
        self.0.iter_mut().for_each(|listener| listener.add_cell(line.clone()));
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
        listeners.add(&answer, Some(json!({ "event": "clock", "cur": 0 })), (0..2_000).map(cell));
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
}
