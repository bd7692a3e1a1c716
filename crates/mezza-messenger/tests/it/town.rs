//! People with whole devices in one mixnet, and one relay beside it. The network is in memory, jobs
//! are run at once, and every device has its disk.

mod air;
mod entry;
mod lives;
mod member;
mod wire;

use std::collections::VecDeque;

use mezza_core::{Machine, PortableBackend, Secret, StaticKey, Time};
use mezza_lanes::portable;
use mezza_messenger::CarrierId;
use mezza_messenger::card::Card;
use mezza_messenger::carriers::mixnet::{MixnetInput, MixnetOutput, NetworkAddress};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::policy::Policy;
use mezza_messenger::view::NoteView;
use mezza_messenger::{
    CallerError, CarrierError, CarrierInput, CarrierOutput, Command, ContactId, Device,
    DeviceError, Input, NoteId, Output, RecordKind,
};
use mezza_mixnet::client::{Client, ClientOptions, FrameSchedule, ScheduledFrame, SendTime};
use mezza_mixnet::config::Config;
use mezza_mixnet::coordinator;
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::wire::Frame;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::city::City;
use crate::model::{Ask, Model, Store};
use crate::saved::BackupPoint;
use crate::stage::{START, assert_same, card, connection, hand, load, newborn, records, texts};
use member::Member;

use air::Air;
pub use air::TICK_MS;
pub use entry::Lies;

/// From one round to the next.
pub const ROUND_MS: u64 = 10_000;

/// A network of one mix whose rounds begin soon, with hardly any noise.
pub fn config() -> Config {
    let mut config = crate::fixture::config(1);
    config.valid_from = START.minus_ms(Time::DAY_MS);
    config.valid_until = START.plus_ms(90 * Time::DAY_MS);
    for policy in &mut config.services {
        (policy.base_time, policy.interval_ms) = (START.plus_ms(10_000), ROUND_MS as u32);
        (policy.ask_ms, policy.lead_ms, policy.collect_ms) = (1_000, 3_000, 3_000);
        (policy.mu, policy.scale, policy.rounds) = (2, 2, 1_000_000);
    }
    config
}

/// Cells alone, at this pin.
pub fn cells(pin: u8) -> Policy {
    Policy { carriers: vec![CarrierId::MIXNET], level_min: pin, ..Policy::default() }
}

/// When a device dies: at its n-th batch, right behind it or after all that follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doom(pub u32, pub bool);

pub struct Town {
    pub city: City,
    pub relay: Model,
    pub members: Vec<Member>,
    pub rng: ChaCha20Rng,
    /// The output at which member 0 makes a backup.
    pub point: BackupPoint,
    queue: VecDeque<(usize, Input)>,
    air: Air,
    connections: u64,
    clients: u8,
    /// How often the outputs of a device were carried out.
    drains: u64,
}

impl Town {
    /// People of these names, all in the network.
    pub fn new(names: &[&str]) -> Self {
        Self::with(config(), names)
    }

    /// The same in a network of this config.
    pub fn with(config: Config, names: &[&str]) -> Self {
        let mut city = City::with_config(config);
        city.net.now = START;
        let relay = Model::new(Store::default());
        let rng = ChaCha20Rng::seed_from_u64(7);
        let members = Vec::new();
        let queue = VecDeque::new();
        let point = BackupPoint::default();
        let air = Air::default();
        let mut town = Self {
            city,
            relay,
            members,
            rng,
            point,
            queue,
            air,
            connections: 0,
            clients: 0,
            drains: 0,
        };
        for name in names {
            town.arrive(name);
        }
        town.pass(2 * ROUND_MS);
        town
    }

    /// Somebody new, who joins at once.
    pub fn arrive(&mut self, name: &str) {
        let device = newborn(name, self.now(), &mut self.rng);
        self.members.push(Member::new(device));
        let who = self.members.len() - 1;
        self.drain(who);
        self.join(who).expect("a network can be joined");
    }

    /// A member joins the network, for the first time or again.
    pub fn join(&mut self, who: usize) -> Result<(), DeviceError> {
        let link = NetworkAddress { pin: self.city.net.config.hash(), address: "m40:7000".into() };
        self.command(who, MixnetInput::Join(link))
    }

    /// The relay hears something from nobody here.
    pub fn hears(&mut self, who: usize, ask: Ask) {
        let (early, late) = self.relay.ask(who, ask);
        let told = early.into_iter().chain(late).filter(|(to, _)| *to < self.members.len());
        self.queue.extend(told.map(|(who, tell)| (who, tell.into_input(connection()))));
        self.settle();
    }

    /// Returns true if the mixnet's client of a device has chains for a contact, by its rows.
    pub fn is_known(&self, who: usize, contact: ContactId) -> bool {
        self.client(who).has_contact(contact.0)
    }

    /// The mixnet's client of a device, by its rows.
    pub fn client(&self, who: usize) -> Client<PortableBackend> {
        let rows =
            self.members[who].disk.iter().filter(|((kind, _), _)| *kind == RecordKind::NetworkRow);
        let rows: Vec<(u64, &[u8])> = rows
            .map(|((_, key), row)| (key.as_slice().try_into().expect("8 bytes"), row.as_slice()))
            .map(|(key, row)| (u64::from_be_bytes(key), row))
            .collect();
        let dialling = StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(1)));
        let pin = self.city.net.config.hash();
        let floor = NoiseFloor::None;
        let setup = ClientOptions { pin, dialling, floor, kernel: portable() };
        let mut dice = ChaCha20Rng::seed_from_u64(1);
        let client = Client::<PortableBackend>::restore(setup, rows, self.now(), &mut dice);
        client.expect("what a client wrote")
    }

    pub fn now(&self) -> Time {
        self.city.net.now
    }

    /// Returns the time on the clock of a member.
    pub fn clock(&self, who: usize) -> Time {
        let skew_ms = self.members[who].skew_ms;
        if skew_ms < 0 {
            self.now().minus_ms(skew_ms.unsigned_abs())
        } else {
            self.now().plus_ms(skew_ms.unsigned_abs())
        }
    }

    /// When a member wakes next; one that stalls does not.
    fn due(&self, who: usize) -> Option<Time> {
        let Member { device, skew_ms, stalled, .. } = &self.members[who];
        let at = device.deadline().filter(|_| stalled.is_none())?;
        Some(Time::from_ms(at.as_ms().saturating_add_signed(skew_ms.saturating_neg())))
    }

    fn next(&self) -> Option<Time> {
        (0..self.members.len()).filter_map(|who| self.due(who)).min()
    }

    /// The process of a member stands still for so long. Then it hears all at once what came
    /// meanwhile, behind its timers or in front of them.
    pub fn stall(&mut self, who: usize, ms: u64, timers_first: bool) {
        self.members[who].stalled = Some(Vec::new());
        self.pass(ms);
        let held = self.members[who].stalled.take().unwrap_or_default();
        if timers_first {
            self.wake();
        }
        self.queue.extend(held.into_iter().map(|input| (who, input)));
        self.settle();
        self.wake();
    }

    pub fn card(&self, who: usize) -> Card {
        card(&self.members[who].device)
    }

    /// `who` adds the card of `whom`, and goes by this policy.
    pub fn add(&mut self, who: usize, whom: usize, policy: Policy) -> ContactId {
        let card = self.card(whom);
        let ik = *card.ik().as_bytes();
        self.command(who, Command::Add { card, petname: None, in_person: false }).expect("added");
        let contact = self.members[who].device.contact_by_ik(&ik).expect("there");
        self.command(who, Command::Policy { contact, policy }).expect("sound");
        contact
    }

    pub fn say(&mut self, who: usize, contact: ContactId, text: &str) -> NoteId {
        self.clients += 1;
        let client = [self.clients; 16];
        self.command(who, Command::Send { contact, client, text: text.into(), life: None })
            .expect("accepted");
        self.members[who].device.find_sent(&client).expect("an accepted note has a number")
    }

    pub fn state(&self, who: usize, note: NoteId) -> NoteState {
        self.members[who].device.note(note, self.now()).expect("there").state
    }

    pub fn thread(&self, who: usize, contact: ContactId) -> Vec<NoteView> {
        self.members[who].device.thread(contact, None, 100, self.now())
    }

    /// Texts of a thread, own ones behind `>`.
    pub fn texts(&self, who: usize, contact: ContactId) -> Vec<String> {
        texts(&self.members[who].device, contact, self.now())
    }

    pub fn command(&mut self, who: usize, command: impl Into<Input>) -> Result<(), DeviceError> {
        let result = self.input(who, command);
        self.settle();
        result
    }

    /// One input, and what follows from it here.
    pub fn input(&mut self, who: usize, input: impl Into<Input>) -> Result<(), DeviceError> {
        let now = self.clock(who);
        let result = hand(&mut self.members[who].device, input, now, &mut self.rng);
        self.drain(who);
        result
    }

    /// Carries the outputs of one device out, in their order.
    fn drain(&mut self, who: usize) {
        let mut stored = false;
        let before = self.members[who].batches.len();
        while let Some(output) = self.members[who].device.poll() {
            if let Output::Store(batch) = output {
                stored = true;
                self.members[who].store(batch.0);
                if self.members[who].is_doomed(false) {
                    return self.crash(who);
                }
            } else {
                self.carry_out(who, output);
            }
        }
        let now = self.clock(who);
        let member = &self.members[who];
        // A round without content changes nothing that is in a backup but the charges.
        let has_content = member.batches[before..].contains(&true);
        if who == 0 && has_content {
            self.point.pass_output(&member.device, now);
        }
        self.drains += 1;
        // A row that a round without content left different stays so, and is found a little later.
        if has_content || self.drains.is_multiple_of(8) {
            self.check_stored(who);
        }
        if stored && self.members[who].is_doomed(true) {
            self.crash(who);
        }
    }

    /// Checks that the disk of a member holds the state of its device. The rows of the network's
    /// client are changes of it, and steps of the key tree are stored by an output of their own.
    fn check_stored(&self, who: usize) {
        const APART: [RecordKind; 3] =
            [RecordKind::NetworkRow, RecordKind::Tree, RecordKind::TreeRing];
        let member = &self.members[who];
        let mut own = records(&member.device);
        let is_compared = |(kind, _): &(RecordKind, Vec<u8>)| !APART.contains(kind);
        let ours = own.iter().filter(|(key, _)| is_compared(key));
        if !ours.eq(member.disk.iter().filter(|(key, _)| is_compared(key))) {
            let mut disk = member.disk.clone();
            own.retain(|key, _| is_compared(key));
            disk.retain(|key, _| is_compared(key));
            assert_same(&own, &disk);
        }
    }

    fn carry_out(&mut self, who: usize, output: Output) {
        let kernel = portable();
        let member = &mut self.members[who];
        match output {
            Output::Notify(event) => member.shown.push(event),
            Output::Durable(carrier, number) => {
                self.queue.push_back((who, Input::Stored(carrier, number)));
            }
            Output::Carrier(CarrierOutput::Mixnet(MixnetOutput::Connect {
                at,
                hello,
                key,
                ..
            })) => {
                let at = self.by_town(who, at);
                self.members[who].dial = Some((at, hello, key.is_some()));
                self.dial(who);
            }
            Output::Carrier(CarrierOutput::Mixnet(MixnetOutput::Disconnect)) => self.hang_up(who),
            Output::Carrier(CarrierOutput::Mixnet(MixnetOutput::Leave)) => {
                self.hang_up(who);
                self.members[who].dial = None;
                let theirs =
                    |input: &Input| matches!(input, Input::Carrier(CarrierInput::Mixnet(_)));
                self.queue.retain(|(to, input)| *to != who || !theirs(input));
            }
            Output::Carrier(CarrierOutput::Mixnet(MixnetOutput::Frame(scheduled))) => {
                let when = match scheduled.when {
                    SendTime::At(at) => SendTime::At(self.by_town(who, at)),
                    after @ SendTime::AfterReturn(_) => after,
                };
                let now = self.now();
                let line = &mut self.members[who].line;
                line.push_frame(ScheduledFrame { when, ..scheduled }, now);
                self.flush(who);
            }
            Output::Carrier(CarrierOutput::Mixnet(MixnetOutput::Job(mut job))) => {
                member.wraps(&mut job);
                let done = job.run::<PortableBackend>(kernel);
                self.queue.push_back((who, MixnetInput::Done(job, done).into()));
            }
            Output::Carrier(CarrierOutput::Mesh(output)) => self.carry_out_mesh(who, output),
            Output::Carrier(CarrierOutput::Link(output)) => self.carry_out_link(who, output),
            output => {
                let Some(ask) = Ask::from_output(output).filter(|_| member.relay) else { return };
                member.asked.push(ask.clone());
                let (early, late) = self.relay.ask(who, ask);
                let told = early.into_iter().chain(late);
                self.queue.extend(told.map(|(who, tell)| (who, tell.into_input(connection()))));
            }
        }
    }

    /// A time by the clock of a member, by that of the town.
    fn by_town(&self, who: usize, at: Time) -> Time {
        self.now().plus_ms(at.since_ms(self.clock(who)))
    }

    /// Connects a member whose dial is due.
    fn dial(&mut self, who: usize) {
        let now = self.now();
        let member = &mut self.members[who];
        let Some((_, hello, trusted)) = member.dial.take_if(|(at, ..)| *at <= now) else { return };
        let input = if member.net {
            self.connections += 1;
            member.connection = Some(self.connections);
            member.line = FrameSchedule::default();
            member.heard = self.city.all.len();
            self.leave(who, hello);
            MixnetInput::Up { trusted }
        } else {
            MixnetInput::Down
        };
        self.queue.push_back((who, input.into()));
    }

    /// Frames whose time has come leave.
    fn flush(&mut self, who: usize) {
        while let Some(frame) = self.members[who].line.pop_due(self.city.net.now) {
            self.leave(who, frame);
        }
    }

    fn leave(&mut self, who: usize, frame: Frame) {
        let member = &mut self.members[who];
        let Some(connection) = member.connection else { return };
        let size = frame.encode().expect("short enough").len();
        member.frames.push((frame.kind(), size));
        self.city.input(coordinator::Input::FromClient(connection, frame));
    }

    /// The next steps of the lines of all members.
    fn next_of_lines(&self) -> Option<Time> {
        let lines = self
            .members
            .iter()
            .flat_map(|member| [member.dial.as_ref().map(|(at, ..)| *at), member.line.deadline()]);
        lines.flatten().min()
    }

    /// Lets everything happen that needs no time.
    pub fn settle(&mut self) {
        loop {
            for who in 0..self.members.len() {
                let all = self.city.all.len();
                let member = &mut self.members[who];
                let Some(connection) = member.connection else { continue };
                let heard = std::mem::replace(&mut member.heard, all);
                let told = self.city.told.remove(&connection).unwrap_or_default();
                let frames = told.into_iter().chain(self.city.all[heard..].iter().cloned());
                let frames = member.entry.tells(frames.collect());
                let now = self.city.net.now;
                for frame in &frames {
                    member.line.on_read(frame, now);
                }
                let frames =
                    frames.into_iter().map(|frame| MixnetInput::Frame { frame, age_ms: 0 });
                self.queue.extend(frames.map(|input| (who, input.into())));
                self.flush(who);
            }
            self.fly();
            self.connect_dials();
            if self.queue.is_empty() {
                return;
            }
            while let Some((who, input)) = self.queue.pop_front() {
                if let Some(held) = &mut self.members[who].stalled {
                    held.push(input);
                    continue;
                }
                // What answers an older life or connection is no fault of the device.
                match self.input(who, input) {
                    Ok(())
                    | Err(
                        DeviceError::Carrier(CarrierError::NoSuchTicket | CarrierError::Network(_))
                        | DeviceError::Caller(CallerError::NoSuchMailbox),
                    ) => {}
                    Err(error) => panic!("the device refuses what others say: {error}"),
                }
            }
        }
    }

    /// Time passes, with every round and every deadline on the way.
    pub fn pass(&mut self, ms: u64) {
        let end = self.now().plus_ms(ms);
        self.settle();
        loop {
            let others = self.city.entry.deadline().into_iter().chain(self.next_of_lines());
            let others = others.chain(self.next_of_links());
            let next = self.next().into_iter().chain(others).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.city.run_until(next.max(self.now()));
            for who in 0..self.members.len() {
                self.dial(who);
                self.flush(who);
            }
            self.wake_links();
            self.wake();
        }
        self.city.run_until(end);
    }

    /// Time passes, and there is no network; every device wakes once an hour at most.
    pub fn sleep(&mut self, ms: u64) {
        let end = self.now().plus_ms(ms);
        for who in 0..self.members.len() {
            self.members[who].net = false;
            self.hang_up(who);
        }
        self.settle();
        loop {
            let next = self.next().into_iter().chain(self.next_of_lines()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.city.net.now = next.max(self.now().plus_ms(Time::HOUR_MS)).min(end);
            (0..self.members.len()).for_each(|who| self.dial(who));
            self.wake();
        }
        self.city.net.now = end;
        self.members.iter_mut().for_each(|member| member.net = true);
    }

    fn wake(&mut self) {
        let now = self.now();
        for who in 0..self.members.len() {
            let is_due = |town: &Self| town.due(who).is_some_and(|at| at <= now);
            if is_due(self) {
                self.look(who);
                assert!(!is_due(self), "a deadline does not move");
            }
        }
        self.settle();
    }

    /// A device looks at its clock.
    pub fn look(&mut self, who: usize) {
        let clock = self.clock(who);
        self.members[who].device.wake(clock, &mut self.rng);
        self.drain(who);
    }

    pub fn hang_up(&mut self, who: usize) {
        self.members[who].line = FrameSchedule::default();
        if let Some(connection) = self.members[who].connection.take() {
            self.city.input(coordinator::Input::Gone(connection));
            self.queue.push_back((who, MixnetInput::Down.into()));
        }
    }

    /// The device dies, and starts from its disk.
    pub fn crash(&mut self, who: usize) {
        let now = self.clock(who);
        let device = load(&self.members[who].disk, now, &mut self.rng);
        self.start(who, device);
    }

    /// The connection of a member to the relay ends.
    fn leave_relay(&mut self, who: usize) {
        let told = self.relay.leave(who).into_iter();
        self.queue.extend(told.map(|(who, tell)| (who, tell.into_input(connection()))));
    }

    /// The device of a member was started anew.
    pub fn start(&mut self, who: usize, device: Device<PortableBackend>) {
        self.leave_relay(who);
        self.queue.retain(|(to, _)| *to != who);
        self.forget_mesh(who);
        self.forget_link(who);
        let member = &mut self.members[who];
        member.doom = None;
        member.device = device;
        (member.dial, member.line) = (None, FrameSchedule::default());
        entry_gone(&mut self.city, member);
        self.drain(who);
    }
}

/// The entry sees that the connection of a member has ended.
fn entry_gone(city: &mut City, member: &mut Member) {
    if let Some(connection) = member.connection.take() {
        city.input(coordinator::Input::Gone(connection));
    }
}
