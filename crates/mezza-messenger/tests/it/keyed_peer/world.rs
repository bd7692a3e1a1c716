//! One device, two peers that hold its session keys, one relay that lies, and a clock.

use std::collections::VecDeque;
use std::iter::Sum;

use mezza_core::{Machine, PortableBackend, PublicKey, Time};
use mezza_messenger::card::{Card, RelayKey};
use mezza_messenger::note::{Era, Item, Kept, MixnetStart, Note, NoteDigest, Receipt};
use mezza_messenger::policy::{Fallback, Policy};
use mezza_messenger::{
    CarrierId, Command, ContactId, Device, Input, MailboxId, NoteId, RelayInput,
};
use mezza_mixnet::config::NetworkId;
use mezza_ratchet::OneTimePrekey;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::peer::{Peer, identity};
use crate::model::{Ask, Model, Store, Tell, Told};
use crate::operations::Operations;
use crate::stage::{
    Disk, START, assert_same, card, connection, drain, hand, load, newborn, records, relay,
};

/// The result of a list of operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    /// Notes that a peer opened.
    pub opened: usize,
    /// Notes that stand in threads at the end.
    pub shown: usize,
    /// Starts from the disk.
    pub restarts: usize,
}

impl Sum for Met {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            opened: a.opened + b.opened,
            shown: a.shown + b.shown,
            restarts: a.restarts + b.restarts,
        })
    }
}

struct World {
    device: Device<PortableBackend>,
    disk: Disk,
    relay: Model,
    tells: VecDeque<Tell>,
    peers: [Peer; 2],
    now: Time,
    /// True if the device has looked at its timers since the clock jumped.
    awake: bool,
    rng: ChaCha20Rng,
    met: Met,
}

/// Carries out what the bytes spell, and looks at what was stored after each step.
pub fn operations(data: &[u8]) -> Met {
    let mut ops = Operations::new(data);
    let mut world = World::new();
    world.check();
    while let Some(kind) = ops.next_kind(20) {
        let at = ops.draw_below(2);
        match kind {
            0 => world.peers[at].begin(&world.card(), &mut world.relay, world.now),
            1..=6 => {
                let body = some_body(&mut ops, &mut world.peers, at);
                let told = world.peers[at].send(&body, &mut world.relay, world.now);
                world.hear(told);
            }
            7 => world.met.opened += world.peers[at].read(&mut world.relay, world.now),
            8 => {
                let keys = [None, Some((0, 9)), Some((7, 0)), Some((16_777_215, 9))];
                let key = keys[ops.draw_below(keys.len())];
                let key = key.map(|(id, byte)| OneTimePrekey { id, key: PublicKey([byte; 32]) });
                world.peers[at].publish(key, world.now, &mut world.relay);
            }
            9..=12 => {
                let command = some_command(&mut ops, &world, at);
                world.give(Input::Command(command));
            }
            13 | 14 => {
                for _ in 0..=ops.draw_below(40) {
                    let Some(tell) = world.tells.pop_front() else { break };
                    world.tell(tell);
                }
            }
            15 => world.lie(&mut ops),
            16 | 17 => world.jump(&mut ops),
            18 => world.restart(),
            _ => world.reconnect(),
        }
        world.check();
    }
    let threads = world.device.contacts().into_iter();
    let threads = threads.map(|c| world.device.thread(c.id, None, 10_000, world.now).len());
    world.met.shown = threads.sum();
    world.met
}

impl World {
    fn new() -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let device = newborn("victim", START, &mut rng);
        let mut model = Model::new(Store::default());
        let card = card(&device);
        let peers = [11, 12].map(|scalar| Peer::new(scalar, &card, &mut model));
        let disk = Disk::new();
        let tells = VecDeque::new();
        let met = Met::default();
        let now = START;
        let mut world =
            Self { device, disk, relay: model, tells, peers, now, awake: true, rng, met };
        world.drain();
        world.settle();
        for peer in &mut world.peers {
            peer.publish(None, START, &mut world.relay);
        }
        world.meet();
        world
    }

    /// The first peer writes, is let in, and reads the answer.
    fn meet(&mut self) {
        let card = self.card();
        let now = self.now;
        let peer = &mut self.peers[0];
        peer.begin(&card, &mut self.relay, now);
        peer.seq = 1;
        let own = peer.cards[0].encode();
        let hello = Item::Hello { slot: Some(peer.slot.clone()), tag: None, card: own };
        let items = vec![hello, Item::Text("let me in".into())];
        let note = Note { era: Era([9; 4]), seq: 1, sent: now, timer_s: 0, items };
        let told = peer.send(&note.encode(), &mut self.relay, now);
        self.hear(told);
        self.settle();
        let contact = self.device.contacts()[0].id;
        self.give(Input::Command(Command::Accept { contact }));
        self.settle();
        assert!(self.peers[0].read(&mut self.relay, now) > 0, "the answer opens");
    }

    fn card(&self) -> Card {
        card(&self.device)
    }

    fn give(&mut self, input: Input) {
        // A refusal leaves everything as it was.
        let _ = hand(&mut self.device, input, self.now, &mut self.rng);
        self.drain();
    }

    fn tell(&mut self, tell: Tell) {
        self.give(tell.into_input(connection()));
    }

    fn settle(&mut self) {
        while let Some(tell) = self.tells.pop_front() {
            self.tell(tell);
        }
    }

    fn hear(&mut self, told: Vec<Told>) {
        self.tells.extend(told.into_iter().filter(|(who, _)| *who == 0).map(|(_, tell)| tell));
    }

    fn drain(&mut self) {
        let outputs = drain(&mut self.device, &mut self.disk);
        for ask in outputs.into_iter().filter_map(Ask::from_output) {
            let (early, late) = self.relay.ask(0, ask);
            self.hear(early.into_iter().chain(late).collect());
        }
    }

    /// Checks that the stored state is the device's; that it loads with nothing quarantined; and that once nothing
    /// is due, a start from it is the running device.
    fn check(&mut self) {
        let own = records(&self.device);
        assert_same(&own, &self.disk);
        let mut dice = ChaCha20Rng::seed_from_u64(1);
        let mut again = load(&self.disk, self.now, &mut dice);
        if !self.awake || self.device.deadline().is_some_and(|due| due <= self.now) {
            return;
        }
        let mut disk = self.disk.clone();
        drain(&mut again, &mut disk);
        assert_same(&records(&again), &own);
        assert!(disk == own, "a start stores what is not its own");
    }

    /// The relay says what is not so, twice, or in another order.
    fn lie(&mut self, ops: &mut Operations<'_>) {
        let waiting = self.tells.len();
        let tell = self.tells.remove(ops.draw_below(waiting));
        match (ops.draw_below(6), tell) {
            (0, tell) => drop(tell),
            (1, Some(tell)) => {
                self.tells.push_back(tell.clone());
                self.tell(tell);
            }
            (2, Some(Tell::Done(ticket, _))) => {
                self.tell(Tell::Done(ticket, ops.draw_below(6) as u8));
            }
            (3, Some(Tell::Mail(slot, nr, mut bytes))) => {
                let at = ops.draw_below(256) * bytes.len() / 256;
                bytes[at] ^= 1 << ops.draw_below(8);
                self.tell(Tell::Mail(slot, nr, bytes));
            }
            (4, _) => self.tell(Tell::Stock(ops.next_byte().into())),
            (_, Some(tell)) => self.tell(tell),
            (_, None) => {
                let slot = MailboxId(ops.draw_below(6) as u32);
                let length = ops.draw_below(256);
                self.tell(Tell::Mail(slot, 7, ops.next_bytes(length)));
            }
        }
    }

    /// The clock goes on or jumps; the process may have stalled, and look at no timer yet.
    fn jump(&mut self, ops: &mut Operations<'_>) {
        let day = Time::DAY_MS;
        let steps = [1, 1_000, Time::MINUTE_MS, Time::HOUR_MS, day, 8 * day, 31 * day, 70 * day];
        let step = steps[ops.draw_below(steps.len())];
        self.now = match ops.draw_below(16) {
            0..=9 => self.now.plus_ms(step),
            10..=13 => self.now.minus_ms(step),
            14 => START,
            _ => [Time::from_ms(1), Time::from_ms(u64::MAX - 9), START][ops.draw_below(3)],
        };
        self.awake = ops.draw_below(4) > 0;
        if self.awake {
            self.device.wake(self.now, &mut self.rng);
            self.drain();
        }
    }

    fn restart(&mut self) {
        self.relay.leave(0);
        self.tells.clear();
        self.device = load(&self.disk, self.now, &mut self.rng);
        self.met.restarts += 1;
        self.awake = true;
        self.drain();
    }

    fn reconnect(&mut self) {
        self.relay.leave(0);
        self.tells.clear();
        self.tell_down();
        self.tells.push_back(Tell::Up);
    }

    fn tell_down(&mut self) {
        self.give(RelayInput::Down { connection: connection() }.into());
    }
}

/// Returns a message of a peer: mostly a note, with any content.
fn some_body(ops: &mut Operations<'_>, peers: &mut [Peer; 2], at: usize) -> Vec<u8> {
    if ops.draw_below(12) == 0 {
        let length = ops.draw_below(256);
        return ops.next_bytes(length);
    }
    let peer = &mut peers[at];
    peer.seq = match ops.draw_below(12) {
        0 => 0,
        1 => peer.seq.saturating_sub(1),
        2 => peer.seq.saturating_add(1_024),
        3 => u32::MAX - ops.draw_below(3) as u32,
        _ => peer.seq.wrapping_add(1),
    };
    let timers = [0, 0, 0, 1, 3_600, 86_400, u32::MAX];
    let mut items: Vec<Item> = (0..ops.draw_below(4)).map(|_| some_item(ops, &peers[at])).collect();
    if ops.draw_below(3) == 0 {
        let form = peers[at].cards[ops.draw_below(peers[at].cards.len())].encode();
        items.insert(0, Item::Hello { slot: Some(peers[at].slot.clone()), tag: None, card: form });
    }
    let note = Note {
        era: Era([[9; 4], [8; 4], [ops.next_byte(); 4]][ops.draw_below(3)]),
        seq: peers[at].seq,
        sent: [START, Time::from_ms(0), Time::from_ms(u64::MAX)][ops.draw_below(3)],
        timer_s: timers[ops.draw_below(timers.len())],
        items,
    };
    note.encode().to_vec()
}

fn some_item(ops: &mut Operations<'_>, peer: &Peer) -> Item {
    let era = [[9; 4], [8; 4], [ops.next_byte(); 4]][ops.draw_below(3)];
    let seqs = [0, 1, 2, 63, 1_024, 1_025, u32::MAX - 1_024, u32::MAX - 1, u32::MAX];
    let mut seq = || seqs[ops.draw_below(seqs.len())];
    let from = seq();
    let to = seq();
    match ops.draw_below(13) {
        0 | 1 => Item::Text("x".repeat([1, 2, 700, 8_192][ops.draw_below(4)])),
        2 => {
            let card = some_card(ops, peer);
            let mut slot = peer.slot.clone();
            match ops.draw_below(4) {
                0 => slot.seal = PublicKey([0; 32]),
                1 => slot.relay.host = "a.".repeat(120) + "example",
                2 => slot.relay.key = RelayKey([ops.next_byte(); 32]),
                _ => {}
            }
            let tag = (ops.draw_below(2) == 0).then_some([7; 8]);
            Item::Hello { slot: tag.is_none().then_some(slot), tag, card }
        }
        3 | 4 => Item::Card(some_card(ops, peer)),
        5 => {
            let bits = [0, 1, u64::MAX, 1 << 63][ops.draw_below(4)];
            Item::Receipt(Receipt {
                what: 1 + ops.draw_below(2) as u8,
                era: Era(era),
                floor: from,
                base: to,
                bits,
            })
        }
        6 => Item::Timer([0, 1, 86_401, u32::MAX][ops.draw_below(4)]),
        7 => Item::Reset(1 + ops.draw_below(3) as u8),
        8 => Item::Retry,
        9 => {
            let conversation = u64::from(from);
            let call = u64::MAX - u64::from(to);
            Item::Meet(MixnetStart {
                network: NetworkId([era[0]; 16]),
                conversation,
                call,
                root: None,
            })
        }
        10 => {
            Item::Void { era: Era(era), from: from.max(1).min(to.max(1)), to: to.max(1).max(from) }
        }
        11 => {
            let digest = NoteDigest([ops.next_byte(); NoteDigest::BYTES]);
            let count = [1, 2, Kept::NOTES_MAX][ops.draw_below(3)];
            Item::Kept(Kept { era: Era(era), notes: vec![(from, digest); count] })
        }
        _ => Item::Unknown(0x30),
    }
}

fn some_card(ops: &mut Operations<'_>, peer: &Peer) -> Vec<u8> {
    let mut card = peer.cards[ops.draw_below(peer.cards.len())].encode();
    match ops.draw_below(8) {
        0 => card.truncate(ops.draw_below(256)),
        1 => card.push(ops.next_byte()),
        2 => card = super::peer::forms(&identity(31), 70_000, &[(9, vec![1; 99])])[0].encode(),
        _ => {}
    }
    // The item itself refuses an empty one.
    if card.is_empty() { vec![0] } else { card }
}

fn some_command(ops: &mut Operations<'_>, world: &World, at: usize) -> Command {
    let contacts = world.device.contacts();
    let contact = contacts.get(ops.draw_below(contacts.len() + 1)).map_or(ContactId(77), |c| c.id);
    let notes = world.device.thread(contact, None, 100, world.now);
    let note = notes.get(ops.draw_below(notes.len() + 1)).map_or(NoteId(7_777), |note| note.id);
    match ops.draw_below(20) {
        0..=2 => Command::Accept { contact },
        3 | 4 => {
            let cards = &world.peers[at].cards;
            let card = cards[ops.draw_below(cards.len())].clone();
            Command::Add { card, petname: None, in_person: ops.draw_below(2) == 0 }
        }
        5..=8 => {
            let text = "y".repeat([1, 300, 8_192][ops.draw_below(3)]);
            Command::Send { contact, client: [ops.next_byte(); 16], text, life: None }
        }
        9 => Command::Seen { contact, note },
        10 => Command::Cancel { note },
        11 => Command::Forget { note },
        12 => Command::Block { contact, blocked: ops.draw_below(2) == 0 },
        13 => Command::Delete { contact },
        14 => Command::Refuse { contact },
        15 => Command::Reset { contact },
        16 => {
            let carriers = [vec![CarrierId::RELAY], vec![CarrierId::MIXNET, CarrierId::RELAY]];
            let policy = Policy {
                carriers: carriers[ops.draw_below(2)].clone(),
                level_min: 1 + ops.draw_below(4) as u8,
                fallback: if ops.draw_below(2) == 0 { Fallback::None } else { Fallback::Listed },
                timer_s: [0, 60, 86_400, u32::MAX][ops.draw_below(4)],
                delivered: ops.draw_below(3) > 0,
                read: ops.draw_below(2) == 0,
                life: None,
            };
            Command::Policy { contact, policy }
        }
        17 => Command::Verify { contact, equal: ops.draw_below(2) == 0 },
        18 if ops.draw_below(2) == 0 => Command::Rotate,
        18 => Command::Refill,
        _ => {
            let relays = if ops.draw_below(3) == 0 { Vec::new() } else { vec![relay()] };
            Command::Publish { name: "another".into(), relays }
        }
    }
}
