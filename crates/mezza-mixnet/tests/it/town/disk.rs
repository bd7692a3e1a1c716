//! A disk that takes its time, as the node of a person meets it: while a transaction is written nothing
//! else is done, and what follows from a step leaves when its rows are durable.

use std::collections::{BTreeMap, VecDeque};

use mezza_core::{Backend, Machine as _, Time};
use mezza_mixnet::client::{Input, Output};
use mezza_mixnet::wire::{Frame, FrameBody};
use mezza_mixnet::{RoundId, Service};

use super::{Person, Town, Write};

/// How long the disk of a person takes, and what waits for it.
#[derive(Default)]
pub struct Disk {
    /// Milliseconds of one transaction; 0: none, and nothing waits.
    pub sync_ms: u64,
    pub(super) busy_until: Option<Time>,
    /// Inputs that wait, with the time of their coming.
    pub(super) inputs: VecDeque<(Time, Input)>,
    held: Vec<Output>,
}

impl Disk {
    pub(super) const fn is_busy(&self) -> bool {
        self.busy_until.is_some()
    }
}

/// The times that a watcher of the line takes.
#[derive(Default)]
pub struct Times {
    /// When each SUBMIT left.
    pub submits: BTreeMap<RoundId, Time>,
    /// Milliseconds from RETURN to GET.
    pub gets: Vec<f64>,
    /// Milliseconds from the end of a connection to the next hello.
    pub hellos: Vec<f64>,
    /// Milliseconds from settings of a config that is not known to the question for it.
    pub asks: Vec<f64>,
    returned: BTreeMap<RoundId, Time>,
    cut_at: Option<Time>,
    unknown_at: Option<Time>,
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a test")]
fn ms(from: Time, to: Time) -> f64 {
    to.since_ms(from) as f64
}

impl<B: Backend> Person<B> {
    /// A frame is read from the line.
    pub(super) fn reads(&mut self, frame: &Frame, now: Time) {
        self.line.on_read(frame, now);
        if let Frame::Round(id, FrameBody::Return { users, .. }) = frame {
            self.times.returned.insert(*id, now);
            if id.service == Service::Conversation {
                self.back.get_or_insert(now);
                self.returns.push((now, *users));
            }
        }
    }

    /// The settings that were just read are of a config that this person does not know.
    pub fn sees_unknown_config(&mut self, now: Time) {
        self.times.unknown_at = Some(now);
    }

    pub(super) fn notes_time(&mut self, frame: &Frame, now: Time) {
        let times = &mut self.times;
        match frame {
            Frame::Round(id, FrameBody::Submit(_)) => {
                assert!(times.submits.insert(*id, now).is_none(), "one SUBMIT a round");
            }
            Frame::Round(id, FrameBody::Fetch { .. }) => {
                times.gets.extend(times.returned.get(id).map(|at| ms(*at, now)));
            }
            Frame::Hello { .. } => times.hellos.extend(times.cut_at.take().map(|at| ms(at, now))),
            Frame::FetchConfig { .. } => {
                times.asks.extend(times.unknown_at.take().map(|at| ms(at, now)));
            }
            _ => {}
        }
    }

    pub(super) const fn notes_cut(&mut self, now: Time) {
        self.times.cut_at = Some(now);
    }
}

impl<B: Backend> Town<B> {
    /// Everybody has a disk that takes so long.
    pub fn slow_down(&mut self, sync_ms: u64) {
        self.people.iter_mut().for_each(|person| person.disk.sync_ms = sync_ms);
    }

    /// The messenger of a person writes something of its own.
    pub fn commit(&mut self, at: usize) {
        let now = self.now();
        let disk = &mut self.people[at].disk;
        if disk.sync_ms > 0 {
            let begin = disk.busy_until.unwrap_or(now);
            disk.busy_until = Some(begin.plus_ms(disk.sync_ms));
        }
    }

    /// One step: what it stores is written, and the rest of it waits for that.
    pub(super) fn drain_slowly(&mut self, at: usize) {
        loop {
            if self.people[at].disk.is_busy() {
                return;
            }
            let outputs: Vec<Output> = std::iter::from_fn(|| {
                self.people[at].client.as_mut().and_then(mezza_core::Machine::poll)
            })
            .collect();
            if outputs.is_empty() {
                return;
            }
            let stores =
                |output: &Output| matches!(output, Output::Store { .. } | Output::Received { .. });
            let writes = outputs.iter().any(stores);
            let now = self.now();
            for output in outputs {
                match output {
                    Output::Store { seq, first, record } => {
                        self.people[at].put(Write::Row { seq, first, record: record.to_vec() });
                    }
                    Output::Received { seq, contact, number, bytes } => {
                        let bytes = bytes.to_vec();
                        self.people[at].put(Write::Mail { seq, contact, number, bytes });
                    }
                    other if writes => self.people[at].disk.held.push(other),
                    other => self.carry_out(at, other),
                }
            }
            if writes {
                let disk = &mut self.people[at].disk;
                disk.busy_until = Some(now.plus_ms(disk.sync_ms));
            }
        }
    }

    /// The transaction is written: what waited for it goes on, due work before new inputs.
    pub(super) fn go_on(&mut self, at: usize) {
        let now = self.now();
        if self.people[at].disk.busy_until.take_if(|end| *end <= now).is_none() {
            return;
        }
        let synced = self.people[at].sync();
        let held = std::mem::take(&mut self.people[at].disk.held);
        for output in held {
            self.carry_out(at, output);
        }
        if let Some((seq, _)) = synced.into_iter().max() {
            self.people[at].disk.inputs.push_front((now, Input::Stored(seq)));
        }
        while !self.people[at].disk.is_busy() {
            let clock = self.clock(at);
            let person = &mut self.people[at];
            let Some(client) = &person.client else { return };
            if client.deadline().is_some_and(|due| due <= clock) {
                self.wake(at);
                continue;
            }
            let Some((came, input)) = person.disk.inputs.pop_front() else { return };
            let input = match input {
                Input::Frame { frame, .. } => Input::Frame { frame, age_ms: now.since_ms(came) },
                other => other,
            };
            self.give(at, input);
        }
    }
}
