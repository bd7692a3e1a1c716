//! The ratchet: input from the network, input from the disk, and two parties driven by a list of
//! operations.

use crate::operations::Operations;
use mezza_core::{EphemeralKey, Machine, PortableBackend, Secret, StaticKey, Time};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::{
    Bundle, Change, Changes, Conversation, IdentityKeyPair, OneTimePrekey, Padding, Prekeys,
    StoredRow, SuiteList, Table,
};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

const START: Time = Time::from_ms(1_800_000_000_000);

/// One side: its prekeys and its conversation with the other side.
struct Party {
    identity: IdentityKeyPair,
    prekeys: Prekeys,
    conversation: Conversation<PortableBackend>,
    /// The newest bundle, with the one-time keys that are not issued yet.
    published: (Vec<u8>, Vec<OneTimePrekey>),
}

/// Two parties and the messages between them.
struct Pair {
    parties: [Party; 2],
    /// For each party: messages with their expected bodies.
    wires: [Vec<(Vec<u8>, Vec<u8>)>; 2],
    now: Time,
    rng: ChaCha8Rng,
}

fn make_identity(byte: u8) -> IdentityKeyPair {
    IdentityKeyPair::new(StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|scalar| {
        scalar.fill(byte);
    })))
}

impl Party {
    fn new(own: u8, other: u8) -> Self {
        let remote = make_identity(other).public_key();
        let identity = make_identity(own);
        let conversation = Conversation::new(identity.public_key(), remote);
        let prekeys = Prekeys::new(identity.duplicate());
        Self { identity, prekeys, conversation, published: (Vec::new(), Vec::new()) }
    }

    fn encode_state(&self) -> Vec<u8> {
        [self.conversation.encode().as_slice(), self.prekeys.encode().as_slice()].concat()
    }

    /// Wakes the prekeys and supplies the keys that they request.
    fn wake(&mut self, now: Time, rng: &mut ChaCha8Rng) {
        self.prekeys.wake(now, rng);
        while let Some(output) = self.prekeys.poll() {
            match output {
                Output::Need { spk, opk } => {
                    let mut draw =
                        |n| (0..n).map(|_| StaticKey::random::<PortableBackend>(rng)).collect();
                    let fresh = Input::Fresh { spk: draw(spk), opk: draw(opk.min(3)) };
                    self.prekeys.handle(fresh, now, rng).expect("exactly what was asked for");
                }
                Output::Publish { bundle, one_time, replace } => {
                    if replace {
                        self.published.1.clear();
                    }
                    self.published.0 = bundle;
                    self.published.1.extend(one_time);
                }
                Output::Store(_) | Output::Low => {}
            }
        }
    }

    /// Restarts from the rows on the disk.
    fn reload_state(&mut self) {
        let rows = self.conversation.all_rows();
        let local = *self.conversation.local();
        let remote = *self.conversation.remote();
        let loaded = Conversation::load(local, remote, rows_put(&rows)).expect("our own rows");
        assert_eq!(loaded.encode().as_slice(), self.conversation.encode().as_slice());
        self.conversation = loaded;
        let rows = self.prekeys.all_rows();
        let loaded = Prekeys::load(self.identity.duplicate(), rows_put(&rows));
        let again = loaded.expect("our own rows").all_rows();
        assert!(flatten_rows(&again) == flatten_rows(&rows), "rows changed by a restart");
    }
}

fn flatten_rows(changes: &Changes) -> Vec<(Table, &[u8], &[u8])> {
    rows_put(changes).map(|row| (row.table, row.key, row.value)).collect()
}

fn rows_put(changes: &Changes) -> impl Iterator<Item = StoredRow<'_>> {
    changes.iter().filter_map(|change| match change {
        Change::Put { table, key, value } => Some(StoredRow { table: *table, key, value }),
        Change::Drop { .. } => None,
    })
}

impl Pair {
    fn new() -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut parties = [Party::new(1, 2), Party::new(2, 1)];
        for party in &mut parties {
            party.wake(START, &mut rng);
        }
        Self { parties, wires: [Vec::new(), Vec::new()], now: START, rng }
    }

    /// Begins a session from the newest bundle of the other side.
    fn begin_session(&mut self, from: usize) {
        let (bundle, one_time) = &mut self.parties[1 - from].published;
        let bundle = bundle.clone();
        let one_time = one_time.pop();
        let remote = *self.parties[from].conversation.remote();
        let checked = Bundle::decode(&bundle).expect("an honest bundle");
        let Ok(checked) = checked.check(&remote, &SuiteList::our_suites(), self.now) else {
            return;
        };
        let fresh = EphemeralKey::random::<PortableBackend>(&mut self.rng);
        let party = &mut self.parties[from];
        let (session, _) = checked
            .initiate_session::<PortableBackend>(&party.identity, fresh, one_time, &mut self.rng)
            .expect("a checked bundle begins a session");
        let _ = party.conversation.add_session(session, self.now);
    }

    fn seal(&mut self, from: usize, body: Vec<u8>) {
        let party = &mut self.parties[from];
        let fresh = party.conversation.needs_ephemeral();
        let fresh = fresh.then(|| EphemeralKey::random::<PortableBackend>(&mut self.rng));
        let before = party.encode_state();
        match party.conversation.seal(&body, b"outer", Padding::Blocks, fresh, self.now) {
            Ok((message, _)) => self.wires[1 - from].push((message, body)),
            Err(_) => assert_eq!(before, party.encode_state(), "a refused seal changed the state"),
        }
    }

    /// Passes `message` to a party; if it opens, the result must be `body`.
    fn open(&mut self, to: usize, message: &[u8], body: Option<&[u8]>) {
        let party = &mut self.parties[to];
        let before = party.encode_state();
        let Party { identity, prekeys, conversation, .. } = party;
        match conversation.open(message, b"outer", identity, prekeys, self.now) {
            Ok(opened) => assert_eq!(Some(opened.body.as_slice()), body, "another body opened"),
            Err(_) => {
                assert_eq!(before, party.encode_state(), "a refused message changed the state");
            }
        }
    }
}

/// Drives two parties: begin, seal, deliver in any order, repeat, damage, wait, restart.
pub fn run_operations(data: &[u8]) {
    let mut ops = Operations::new(data);
    let mut pair = Pair::new();
    while let Some(kind) = ops.next_kind(10) {
        let who = ops.draw_below(2);
        match kind {
            0 => pair.begin_session(who),
            1 | 2 => {
                let length = ops.draw_below(256) * 2;
                pair.seal(who, vec![ops.next_byte(); length]);
            }
            3..=5 if !pair.wires[who].is_empty() => {
                let at = if kind == 3 { 0 } else { ops.draw_below(pair.wires[who].len()) };
                let (message, body) = pair.wires[who][at].clone();
                pair.open(who, &message, Some(&body));
                if kind != 5 {
                    pair.wires[who].remove(at);
                }
            }
            6 if !pair.wires[who].is_empty() => {
                let at = ops.draw_below(pair.wires[who].len());
                let (mut message, _) = pair.wires[who][at].clone();
                let place = (ops.draw_below(256) * 256 + ops.draw_below(256)) % message.len();
                message[place] ^= 1 << ops.draw_below(8);
                pair.open(who, &message, None);
            }
            7 => {
                pair.now = pair.now.plus_ms(ops.draw_below(256) as u64 * 3 * Time::HOUR_MS);
                let now = pair.now;
                let rng = &mut pair.rng;
                pair.parties[who].wake(now, rng);
                let _ = pair.parties[who].conversation.sweep_expired(now);
            }
            8 => pair.parties[who].reload_state(),
            9 => {
                let length = ops.draw_below(256);
                let message = ops.next_bytes(length);
                pair.open(who, &message, None);
            }
            _ => {}
        }
    }
}

/// Makes a pair after a few turns, with a gap, so that every table has rows.
fn make_talked() -> Pair {
    let mut pair = Pair::new();
    pair.begin_session(0);
    for turn in 0..4 {
        for n in 0..3 {
            pair.seal(turn % 2, vec![n; 20]);
        }
        // The second of three messages is left out, so that a skipped key is stored.
        for at in [2, 0] {
            let (message, body) = pair.wires[1 - turn % 2].swap_remove(at);
            pair.open(1 - turn % 2, &message, Some(&body));
        }
        pair.wires[1 - turn % 2].truncate(1);
    }
    pair
}

/// Decodes a bundle; one that is accepted begins a session.
pub fn check_bundle(data: &[u8]) {
    let Ok(bundle) = Bundle::decode(data) else { return };
    let Ok(checked) = bundle.check(&make_identity(2).public_key(), &SuiteList::our_suites(), START)
    else {
        return;
    };
    let fresh =
        EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|scalar| scalar.fill(8)));
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    assert!(
        checked
            .initiate_session::<PortableBackend>(&make_identity(1), fresh, None, &mut rng)
            .is_ok()
    );
}

/// Returns an honest bundle.
pub fn bundle_seeds() -> Vec<Vec<u8>> {
    vec![Pair::new().parties[1].published.0.clone()]
}

/// Opens a message at a party without a session or with one, as the first byte chooses.
pub fn check_message(data: &[u8]) {
    let Some((choice, message)) = data.split_first() else { return };
    let mut pair = if choice % 2 == 0 { Pair::new() } else { make_talked() };
    let party = &mut pair.parties[1];
    let before = party.encode_state();
    let Party { identity, prekeys, conversation, .. } = party;
    match conversation.open(message, b"outer", identity, prekeys, START) {
        Ok(opened) => {
            assert!(HONEST.contains(&opened.body.as_slice()), "opened what nobody sealed");
        }
        Err(_) => assert_eq!(before, party.encode_state(), "a refused message changed the state"),
    }
}

/// Texts of the seeds.
const HONEST: [&[u8]; 2] = [b"first", b"later"];

/// Returns a first message to each of the two parties, and a later one.
pub fn message_seeds() -> Vec<Vec<u8>> {
    let mut pair = Pair::new();
    pair.begin_session(0);
    pair.seal(0, HONEST[0].to_vec());
    let first = pair.wires[1][0].0.clone();
    let mut pair = make_talked();
    pair.seal(0, HONEST[1].to_vec());
    let later = pair.wires[1].last().map(|(message, _)| message.clone()).unwrap_or_default();
    [(0, &first), (1, &first), (1, &later)]
        .into_iter()
        .map(|(choice, message)| [&[choice], message.as_slice()].concat())
        .collect()
}

/// Loads one stored row of each table: `table u8 | key length u8 | key | value`.
pub fn check_stored(data: &[u8]) {
    let [table, key_len, rest @ ..] = data else { return };
    let Some((key, value)) = rest.split_at_checked(usize::from(*key_len)) else { return };
    let Some(table) = Table::from_number(*table) else { return };
    let row = [StoredRow { table, key, value }];
    let local = make_identity(1).public_key();
    let remote = make_identity(2).public_key();
    if let Ok(conversation) = Conversation::<PortableBackend>::load(local, remote, row) {
        let again = conversation.all_rows();
        let same = Conversation::<PortableBackend>::load(local, remote, rows_put(&again));
        assert_eq!(same.expect("our own rows").encode(), conversation.encode());
    }
    let row = [StoredRow { table, key, value }];
    if let Ok(mut prekeys) = Prekeys::load(make_identity(1), row) {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        prekeys.wake(START, &mut rng);
        while prekeys.poll().is_some() {}
    }
}

/// Returns every row that a pair has after a few turns.
pub fn stored_seeds() -> Vec<Vec<u8>> {
    let pair = make_talked();
    let row = |record: StoredRow<'_>| {
        let head = [record.table.number(), record.key.len() as u8];
        [&head, record.key, record.value].concat()
    };
    let rows = pair.parties.iter().flat_map(|party| {
        let sessions = party.conversation.all_rows();
        let keys = party.prekeys.all_rows();
        rows_put(&sessions).map(row).chain(rows_put(&keys).map(row)).collect::<Vec<_>>()
    });
    rows.collect()
}
