//! People with whole clients around one network: their disks, their messengers, their bad luck.

use std::collections::{BTreeMap, BTreeSet};

use mezza_core::{Backend, EphemeralKey, Machine, PortableBackend, Secret, Time, Wiping};
use mezza_mixnet::client::{
    Client, ClientJob, ClientOptions, FrameSchedule, Input, NewRoot, Output, ScheduledFrame,
    SendTime, StartRounds, StreamMark,
};
use mezza_mixnet::config::Config;
use mezza_mixnet::contact::{Intent, Role};
use mezza_mixnet::coordinator;
use mezza_mixnet::wire::{Frame, FrameBody};
use mezza_mixnet::{RoundId, Service};
use mezza_sim::handle_checked;
use rand_core::Rng as _;

use crate::city::City;
use crate::fixture::Net;

mod disk;
mod person;
mod trouble;

use person::Write;
pub use person::{Luck, Mail, Person, dialling_key};

/// A client made of rows is where the one is that wrote them: it has spent as much, seals none of its
/// rounds again, numbers pieces as it did, and takes nothing for acknowledged that was not.
pub fn goes_on<B: Backend>(restored: &Client<B>, client: &Client<B>) {
    assert_eq!(restored.ledger(), client.ledger());
    assert_eq!(restored.chain(), client.chain());
    let last = |client: &Client<B>| Service::ALL.map(|service| client.last_sealed(service));
    assert_eq!(last(restored), last(client));
    let (made, own): (Vec<_>, Vec<_>) =
        (restored.stream_marks().collect(), client.stream_marks().collect());
    assert_eq!(made.len(), own.len());
    for (made, own) in made.into_iter().zip(own) {
        let name = |mark: StreamMark| (mark.contact, mark.line, mark.next);
        assert_eq!(name(made), name(own));
        assert!(made.acked_by_partner <= own.acked_by_partner, "{made:?} of {own:?}");
    }
}

/// A dishonest entry: what it makes of a frame for a person.
pub type Liar = Box<dyn FnMut(usize, Frame) -> Vec<Frame>>;

/// Reads what a person seals for a round: the plaintexts of all slots.
pub type Sealed = Box<dyn FnMut(usize, RoundId, &[u8])>;

pub struct Town<B: Backend = PortableBackend> {
    pub city: City<B>,
    pub people: Vec<Person<B>>,
    connections: u64,
    heard: BTreeMap<u64, usize>,
    /// Those for whom no round came back for so long that messages lost their tickets.
    overdue: BTreeSet<usize>,
    pub crashes: u32,
    pub cuts: u32,
    pub liar: Option<Liar>,
    pub sealed: Option<Sealed>,
    /// Each row that is stored is followed by a look at what a start would make of all of them.
    pub looks: bool,
}

impl Town {
    pub fn new(config: Config, people: u64, seed: u64) -> Self {
        Self::around(Net::new(config, seed), people, seed)
    }
}

impl<B: Backend> Town<B> {
    /// People around these mixes.
    pub fn around(net: Net<B>, people: u64, seed: u64) -> Self {
        let people = (0..people).map(|number| Person::new(number, seed)).collect();
        let connections = 0;
        let heard = BTreeMap::new();
        let city = City::around_net(net);
        let crashes = 0;
        let cuts = 0;
        let liar = None;
        let looks = false;
        let overdue = BTreeSet::new();
        let sealed = None;
        let mut town =
            Self { city, people, connections, heard, overdue, crashes, cuts, liar, sealed, looks };
        for at in 0..town.people.len() {
            let setup = town.setup(at);
            town.people[at].client = Some(Client::new(setup, town.now()));
            town.drain(at);
        }
        town
    }

    fn setup(&self, at: usize) -> ClientOptions {
        self.people[at].setup(self.city.net.config.hash(), self.city.net.kernel)
    }

    pub fn now(&self) -> Time {
        self.city.net.now
    }

    /// The clock of one person.
    pub fn clock(&self, at: usize) -> Time {
        self.now().plus_ms(self.people[at].ahead_ms).minus_ms(self.people[at].back_ms)
    }

    /// Somebody's clock is put ahead.
    pub fn put_ahead(&mut self, at: usize, ms: u64) {
        self.people[at].ahead_ms += ms;
        self.wake(at);
    }

    /// Somebody's clock is put back.
    pub fn put_back(&mut self, at: usize, ms: u64) {
        self.people[at].back_ms += ms;
        self.wake(at);
    }

    fn wake(&mut self, at: usize) {
        let now = self.clock(at);
        let person = &mut self.people[at];
        if let Some(client) = &mut person.client {
            client.wake(now, &mut person.rng);
            self.drain(at);
        }
    }

    /// Makes two people contacts of each other; each is called by its number.
    pub fn introduce(&mut self, a: usize, b: usize, root: u8) {
        for (own, other, role) in [(a, b, Role::Initiator), (b, a, Role::Responder)] {
            let root = Secret::init_with(|s| s.fill(root));
            let contact = other as u32;
            let start = StartRounds { conversation: 100, call: 100 };
            let new = NewRoot { contact, root, role, start, bucket: 1 };
            self.give(own, Input::Add(new));
        }
    }

    /// A message is on the disk of its messenger; the client gets it if it runs and rounds come back.
    pub fn write(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        let mail = Mail { contact: to as u32, bytes, ticket: None, handed: false, acked: false };
        self.people[from].mails.push(mail);
        if self.people[from].client.is_some() && !self.overdue.contains(&from) {
            let last = self.people[from].mails.len() - 1;
            self.send(from, last);
        }
    }

    fn send(&mut self, from: usize, mail: usize) {
        let person = &mut self.people[from];
        person.tickets += 1;
        let ticket = person.tickets;
        let mail = &mut person.mails[mail];
        mail.ticket = Some(ticket);
        let contact = mail.contact;
        let bytes = Wiping::new(mail.bytes.clone());
        self.give(from, Input::Send { ticket, contact, bytes });
    }

    /// All messages that were not handed.
    fn send_again(&mut self, from: usize) {
        self.overdue.remove(&from);
        for mail in 0..self.people[from].mails.len() {
            if !self.people[from].mails[mail].handed {
                self.send(from, mail);
            }
        }
    }

    pub fn call(&mut self, from: usize, to: usize) {
        self.give(from, Input::Call(to as u32, Intent::Talk));
    }

    pub fn give(&mut self, at: usize, input: Input) {
        if self.people[at].disk.is_busy() {
            let now = self.now();
            return self.people[at].disk.inputs.push_back((now, input));
        }
        let now = self.clock(at);
        let person = &mut self.people[at];
        if let Some(client) = &mut person.client {
            // Some come late: a job of a round that is over, a row of a connection that is gone.
            let _ = if self.city.net.checks {
                handle_checked(client, input, now, &mut person.rng)
            } else {
                client.handle(input, now, &mut person.rng)
            };
        }
        self.drain(at);
    }

    /// Carries out all outputs of one client, and all that follows.
    fn drain(&mut self, at: usize) {
        if self.people[at].disk.sync_ms > 0 {
            return self.drain_slowly(at);
        }
        while let Some(output) = self.people[at].client.as_mut().and_then(Machine::poll) {
            let person = &mut self.people[at];
            if person.unlucky(person.luck.crash) {
                return self.crash(at);
            }
            if !matches!(output, Output::Store { .. } | Output::Received { .. }) {
                self.sync(at);
            }
            self.carry_out(at, output);
            // Not before: what follows from it must not overtake the output.
            let person = &mut self.people[at];
            if person.connection.is_some() && person.unlucky(person.luck.cut) {
                self.cut(at);
            }
        }
        self.sync(at);
        for (seq, later) in core::mem::take(&mut self.people[at].synced) {
            self.stored(at, seq, later);
        }
        if self.looks && core::mem::take(&mut self.people[at].wrote) {
            self.look(at);
        }
    }

    /// Makes writes durable before anything else is done. Reports them afterwards.
    fn sync(&mut self, at: usize) {
        let synced = self.people[at].sync();
        self.people[at].synced.extend(synced);
    }

    /// A start would go on from where the client is.
    fn look(&self, at: usize) {
        if let Some(client) = &self.people[at].client {
            goes_on(&self.restored(at), client);
        }
    }

    fn carry_out(&mut self, at: usize, output: Output) {
        let now = self.now();
        let person = &mut self.people[at];
        match output {
            Output::Dial { at: due, hello, search } => {
                let due = self.by_town(at, due);
                self.people[at].dial = Some((due, hello, search));
                self.dial(at);
            }
            Output::Close => self.cut(at),
            Output::Joined => self.send_again(at),
            // What was not handed has lost its ticket, and is sent again with the next round.
            Output::Returning(returning) => {
                if !returning {
                    self.overdue.insert(at);
                } else if self.overdue.contains(&at) {
                    self.send_again(at);
                }
            }
            Output::Frame(ScheduledFrame { when, frame }) => {
                let when = match when {
                    SendTime::At(due) => SendTime::At(self.by_town(at, due)),
                    after @ SendTime::AfterReturn(_) => after,
                };
                self.people[at].line.push_frame(ScheduledFrame { when, frame }, now);
                self.flush(at);
            }
            Output::Want(pairs) => {
                for _ in 0..pairs {
                    let pair = EphemeralKey::random::<B>(&mut self.people[at].dice);
                    self.give(at, Input::Give(pair));
                }
            }
            Output::Job(mut job) => {
                if person.unlucky(person.luck.lost) {
                    return self.give(at, Input::Lost(job.id()));
                }
                if let ClientJob::Wrap(wrap) = &job {
                    person.wraps(wrap.id, wrap.inner.to_vec());
                    if let Some(reads) = &mut self.sealed {
                        reads(at, wrap.id, &wrap.inner);
                    }
                }
                let done = job.run::<B>(self.city.net.kernel);
                self.give(at, Input::Done(job, done));
            }
            Output::Store { seq, first, record } => {
                person.put(Write::Row { seq, first, record: record.to_vec() });
            }
            Output::Received { seq, contact, number, bytes } => {
                person.put(Write::Mail { seq, contact, number, bytes: bytes.to_vec() });
            }
            Output::Handed(ticket) => {
                let mails = person.mails.iter_mut().filter(|mail| mail.ticket == Some(ticket));
                mails.for_each(|mail| mail.handed = true);
                person.news.push(Output::Handed(ticket));
            }
            Output::Acked(ticket) => {
                let mails = person.mails.iter_mut().filter(|mail| mail.ticket == Some(ticket));
                mails.for_each(|mail| mail.acked = true);
            }
            Output::Level(level) => {
                person.level = level;
                person.news.push(Output::Level(level));
            }
            other => person.news.push(other),
        }
    }

    /// A time by the clock of a person, by that of the town.
    fn by_town(&self, at: usize, time: Time) -> Time {
        self.now().plus_ms(time.since_ms(self.clock(at)))
    }

    /// Connects if the time of a dial has come.
    fn dial(&mut self, at: usize) {
        let now = self.now();
        let person = &mut self.people[at];
        let Some((_, hello, search)) = person.dial.take_if(|(due, ..)| *due <= now) else {
            return;
        };
        if !self.answers(at, search) || self.people[at].dies() {
            return self.give(at, Input::Down);
        }
        self.connections += 1;
        let person = &mut self.people[at];
        (person.connection, person.line) = (Some(self.connections), FrameSchedule::default());
        person.is_silent = false;
        self.leave(at, hello);
        self.give(at, Input::Up { trusted: search.is_none() });
    }

    /// Sends the frames whose time has come.
    fn flush(&mut self, at: usize) {
        let now = self.now();
        while let Some(frame) = self.people[at].line.pop_due(now) {
            self.leave(at, frame);
        }
    }

    fn leave(&mut self, at: usize, frame: Frame) {
        let now = self.now();
        let person = &mut self.people[at];
        let Some(connection) = person.connection else { return };
        if let Frame::Round(id, FrameBody::Submit(_)) = &frame {
            person.submits(*id);
        }
        let bytes = frame.encode().expect("short enough");
        person.frames.push((now, frame.kind(), bytes.len()));
        person.notes_time(&frame, now);
        if !person.is_silent {
            self.city.input(coordinator::Input::FromClient(connection, frame));
        }
    }

    /// Reports durable rows in order: none after an unreported one.
    fn stored(&mut self, at: usize, seq: u64, later: bool) {
        let person = &mut self.people[at];
        if later || !person.unsaid.is_empty() {
            return person.unsaid.push(seq);
        }
        self.give(at, Input::Stored(seq));
    }

    /// Disk and messenger have caught up.
    pub fn catch_up(&mut self, at: usize) {
        let person = &mut self.people[at];
        (person.slow_disk, person.slow_messenger) = (false, false);
        if let Some(seq) = core::mem::take(&mut person.unsaid).pop() {
            self.give(at, Input::Stored(seq));
        }
    }

    /// The process dies; its disk stays. It is started again after a while.
    pub fn crash(&mut self, at: usize) {
        self.crashes += 1;
        let now = self.now();
        let person = &mut self.people[at];
        person.client = None;
        (person.level, person.back) = (0, None);
        person.returns.clear();
        (person.dial, person.line) = (None, FrameSchedule::default());
        person.wrapped.clear();
        person.unsaid.clear();
        person.synced.clear();
        person.lose_power();
        person.up_at = Some(now.plus_ms(u64::from(person.dice.next_u32() % 9_000)));
        if let Some(connection) = person.connection.take() {
            self.city.input(coordinator::Input::Gone(connection));
        }
    }

    /// Returns the client that a start makes of the rows of a person.
    fn restored(&self, at: usize) -> Client<B> {
        let rows = self.people[at].rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
        let mut rng = self.people[at].rng.clone();
        let restored = Client::restore(self.setup(at), rows, self.clock(at), &mut rng);
        let restored = restored.expect("what a client wrote");
        assert_eq!(restored.rows_aside(), [], "every row is read");
        restored
    }

    fn start(&mut self, at: usize) {
        let now = self.clock(at);
        let client = if self.people[at].rows.is_empty() {
            Client::new(self.setup(at), now)
        } else {
            self.restored(at)
        };
        let person = &mut self.people[at];
        person.up_at = None;
        person.client = Some(client);
        assert!(person.spent() >= person.paid.len() as u64, "the ledger forgot something");
        self.drain(at);
    }

    pub fn cut(&mut self, at: usize) {
        if let Some(connection) = self.people[at].connection.take() {
            self.cuts += 1;
            let now = self.now();
            self.people[at].notes_cut(now);
            self.people[at].back = None;
            self.people[at].returns.clear();
            self.city.input(coordinator::Input::Gone(connection));
            self.give(at, Input::Down);
        }
    }

    /// Delivers frames of the entry to the clients.
    fn deliver(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.people.len() {
            let Some(connection) = self.people[at].connection else { continue };
            let told = self.city.told.remove(&connection).unwrap_or_default();
            let all = self.city.all.len();
            let heard = self.heard.insert(connection, all).unwrap_or(all);
            if self.people[at].is_silent {
                continue;
            }
            let public = self.city.all[heard..].to_vec();
            for frame in told.into_iter().chain(public) {
                any = true;
                let frames = match &mut self.liar {
                    Some(liar) => liar(at, frame),
                    None => vec![frame],
                };
                for frame in frames {
                    if self.people[at].connection == Some(connection) {
                        let now = self.now();
                        self.people[at].reads(&frame, now);
                        self.give(at, Input::Frame { frame, age_ms: 0 });
                    }
                }
            }
        }
        any
    }

    /// Goes on to a time, from deadline to deadline of whoever has one.
    pub fn until(&mut self, end: Time) {
        loop {
            while self.deliver() {}
            let awake = || self.people.iter().filter(|person| !person.is_asleep);
            let own = awake().filter_map(|person| match &person.client {
                // Nothing is done until the disk is.
                Some(_) if person.disk.is_busy() => None,
                Some(client) => {
                    let due = client.deadline().map(|due| due.plus_ms(person.back_ms));
                    due.map(|due| due.minus_ms(person.ahead_ms))
                }
                None => person.up_at,
            });
            let lines = awake().flat_map(|person| {
                let dial = person.dial.as_ref().map(|(due, ..)| *due);
                [dial, person.line.deadline(), person.disk.busy_until]
            });
            let next = own.chain(lines.flatten()).chain(self.city.entry.deadline()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            let next = next.max(self.now());
            self.city.run_until(next);
            for at in 0..self.people.len() {
                if self.people[at].is_asleep {
                    continue;
                }
                self.dial(at);
                self.flush(at);
                self.go_on(at);
                let clock = self.clock(at);
                let person = &self.people[at];
                match &person.client {
                    Some(client)
                        if !person.disk.is_busy()
                            && client.deadline().is_some_and(|due| due <= clock) =>
                    {
                        self.wake(at);
                    }
                    None if person.up_at.is_some_and(|due| due <= next) => self.start(at),
                    _ => {}
                }
            }
        }
        self.city.run_until(end);
    }

    /// Returns true if every mail is with its receiver, and every client knows it.
    pub fn is_calm(&self) -> bool {
        self.people.iter().all(|person| person.mails.iter().all(|mail| mail.handed))
            && self.people.iter().enumerate().all(|(at, person)| {
                person.client.as_ref().is_some_and(|client| {
                    (0..self.people.len() as u32)
                        .all(|other| usize::try_from(other) == Ok(at) || client.is_idle(other))
                })
            })
    }

    /// Returns the outputs of this sort for a person.
    pub fn told<T>(&self, at: usize, of: impl Fn(&Output) -> Option<T>) -> Vec<T> {
        self.people[at].news.iter().filter_map(of).collect()
    }
}
