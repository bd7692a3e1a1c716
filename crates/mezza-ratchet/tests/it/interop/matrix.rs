//! Tests that any two implementations must pass with each other.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::device::{Device, FIRST, Message, PLAIN, without_one_time};

/// Turns of [`turns`], three messages each: 120 messages each way.
const TURNS: u8 = 80;
/// Steps of [`random`].
const STEPS: usize = 150;
/// Nearly as many keys of skipped messages as everybody keeps.
const SKIPPED: usize = 1_990;
/// How many chains late a message may be: peers keep five receiving chains.
const LATE_MAX: u32 = 4;

/// Two devices; the first one initiates.
pub type Ends = [Box<dyn Device>; 2];
/// One part of the matrix. The last argument says whether there is a one-time key.
pub type Cell = fn(&mut Ends, bool);

/// Two new devices and a session of the first that nobody has opened yet.
fn begin(ends: &mut Ends, one_time: bool) {
    ends[0].bundle();
    let bundle = ends[1].bundle();
    let bundle = if one_time { bundle } else { without_one_time(bundle) };
    ends[0].process(&bundle).expect("a good bundle");
}

/// Two devices that have heard of each other.
fn open(ends: &mut Ends, one_time: bool) {
    begin(ends, one_time);
    deliver(ends, 0, b"hello", FIRST);
    deliver(ends, 1, b"yes", PLAIN);
}

fn deliver(ends: &mut Ends, from: usize, body: &[u8], kind: u8) {
    let message = ends[from].send(body);
    assert_eq!(message.kind, kind);
    opens(ends, 1 - from, &message, body);
}

fn opens(ends: &mut Ends, to: usize, message: &Message, body: &[u8]) {
    assert_eq!(ends[to].dec(message).as_deref(), Ok(body));
}

/// The first two messages change places; all are first messages until an answer was opened.
pub fn first_messages(ends: &mut Ends, one_time: bool) {
    begin(ends, one_time);
    let one = ends[0].send(b"");
    let two = ends[0].send(b"two");
    opens(ends, 1, &two, b"two");
    opens(ends, 1, &one, b"");
    deliver(ends, 0, b"three", FIRST);
    deliver(ends, 1, b"yes", PLAIN);
    deliver(ends, 0, b"good", PLAIN);
}

/// Three messages a turn, every second batch reversed, and no message opens twice.
pub fn turns(ends: &mut Ends, one_time: bool) {
    begin(ends, one_time);
    for turn in 0..TURNS {
        let from = usize::from(turn % 2);
        let mut batch = [0, 1, 2].map(|i| ([turn, i], ends[from].send(&[turn, i])));
        if turn % 4 > 1 {
            batch.reverse();
        }
        for (body, message) in batch {
            opens(ends, 1 - from, &message, &body);
            assert!(ends[1 - from].dec(&message).is_err(), "a replay opened");
        }
    }
}

/// A message under way in [`random`].
struct Flight {
    from: usize,
    /// Which chain of the sender it belongs to.
    chain: u32,
    body: Vec<u8>,
    message: Message,
}

/// Messages that are lost, repeated and up to four turns late, as a seed decides.
pub fn random(ends: &mut Ends, one_time: bool) {
    for seed in 0..4 {
        begin(ends, one_time);
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut world = World::default();
        for step in 0..STEPS {
            match rng.next_u32() % 10 {
                0..5 => world.send(ends, (rng.next_u32() % 2) as usize, step),
                5 => world.lose(&mut rng),
                _ => world.deliver(ends, &mut rng),
            }
        }
        while !world.flights.is_empty() {
            world.deliver(ends, &mut rng);
        }
        assert!(world.opened > 20, "seed {seed} hardly sends");
    }
}

/// Messages under way, and the chains in use.
#[derive(Default)]
struct World {
    flights: Vec<Flight>,
    /// Chains that each end began to send in.
    begun: [u32; 2],
    /// Chains of the other that each end has seen when it last began one, and by now.
    answered: [u32; 2],
    seen: [u32; 2],
    opened: usize,
}

impl World {
    fn send(&mut self, ends: &mut Ends, from: usize, step: usize) {
        let body = format!("step {step} {}", "x".repeat(step)).into_bytes();
        if from == 1 && self.seen[1] == 0 {
            return; // nobody has written yet
        }
        if self.begun[from] == 0 || self.seen[from] > self.answered[from] {
            self.begun[from] += 1;
            self.answered[from] = self.seen[from];
        }
        let message = ends[from].send(&body);
        self.flights.push(Flight { from, chain: self.begun[from], body, message });
        let begun = self.begun;
        self.flights.retain(|flight| flight.chain + LATE_MAX >= begun[flight.from]);
    }

    fn lose(&mut self, rng: &mut ChaCha20Rng) {
        // The very first one must come, or nothing ever begins.
        if self.flights.len() > 1 {
            self.pick(rng);
        }
    }

    fn deliver(&mut self, ends: &mut Ends, rng: &mut ChaCha20Rng) {
        let Some(flight) = self.pick(rng) else { return };
        let to = 1 - flight.from;
        assert_eq!(ends[to].dec(&flight.message).as_ref(), Ok(&flight.body));
        self.seen[to] = self.seen[to].max(flight.chain);
        self.opened += 1;
        if rng.next_u32().is_multiple_of(4) {
            assert!(ends[to].dec(&flight.message).is_err(), "a replay opened");
        }
    }

    fn pick(&mut self, rng: &mut ChaCha20Rng) -> Option<Flight> {
        let count = self.flights.len();
        (count > 0).then(|| self.flights.swap_remove(rng.next_u32() as usize % count))
    }
}

/// A bit flipped in any byte of a message is refused, and harms neither it nor the next one.
pub fn flips(ends: &mut Ends, one_time: bool) {
    open(ends, one_time);
    for from in [0, 1] {
        let message = ends[from].send(b"hello there");
        for at in 0..message.bytes.len() {
            let mut flipped = message.clone();
            flipped.bytes[at] ^= 1 << (at % 8);
            assert!(ends[1 - from].dec(&flipped).is_err(), "byte {at} does not matter");
        }
        opens(ends, 1 - from, &message, b"hello there");
        deliver(ends, from, b"and again", PLAIN);
    }
}

/// Both begin at once: both first messages open, and then both speak in one session.
pub fn simultaneous(ends: &mut Ends, one_time: bool) {
    let bundles = [ends[0].bundle(), ends[1].bundle()];
    let bundles = if one_time { bundles } else { bundles.map(without_one_time) };
    ends[0].process(&bundles[1]).expect("a good bundle");
    ends[1].process(&bundles[0]).expect("a good bundle");
    let crossing = [ends[0].send(b"one"), ends[1].send(b"two")];
    opens(ends, 1, &crossing[0], b"one");
    opens(ends, 0, &crossing[1], b"two");
    for body in [b"a", b"b", b"c"] {
        for from in [0, 1] {
            let message = ends[from].send(body);
            opens(ends, 1 - from, &message, body);
        }
    }
    deliver(ends, 0, b"settled", PLAIN);
    deliver(ends, 1, b"yes", PLAIN);
}

/// How a receiver takes a message that is further ahead than others allow.
#[derive(Clone, Copy)]
pub struct Jump {
    /// Messages that may be missing in front of one.
    pub max: usize,
    /// True if this receiver has that limit.
    pub held: bool,
}

/// The second end misses `jump.max` messages and opens the next one, then an old one and one of
/// the oldest whose keys everybody keeps.
pub fn jump(ends: &mut Ends, jump: Jump) {
    open(ends, true);
    deliver(ends, 0, b"zero", PLAIN);
    let bodies = (0..=jump.max + 1).map(usize::to_be_bytes);
    let messages = bodies.map(|body| ends[0].send(&body)).collect::<Vec<_>>();
    let beyond = ends[1].dec(&messages[jump.max + 1]);
    assert_eq!(beyond.is_err(), jump.held, "one beyond the limit: {beyond:?}");
    for i in [jump.max, jump.max - 1, jump.max - SKIPPED] {
        opens(ends, 1, &messages[i], &i.to_be_bytes());
    }
    deliver(ends, 1, b"back", PLAIN);
}
