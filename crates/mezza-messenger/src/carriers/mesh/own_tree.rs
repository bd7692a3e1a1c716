//! The key tree of this device: made on request, erased before any trial, stored in steps.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, DecodeError, Reader, Wiping, Writer, snapshot};
use mezza_hibe::floor::ClockTrust;
use mezza_hibe::{
    BlockPolicy, CardBlock, Delta, EntryKind, Epoch, FloorRules, HeldKeys, KeyTree, Life,
    RecordName, Shape, System, Tick, TreeError, TreeProfile,
};

use super::MeshReport;
use crate::io::{KeyringStep, RecordChange, RecordKind, Retention, RowsByKey, WriteBatch};

/// Version of the head row.
const VERSION: u8 = 1;
/// Future epochs of each life whose keys are prepared.
const AHEAD: u32 = 2;
/// Multiplications that early expansion may take in one step; 32 take about 7 ms.
const EXPANSION_MAX: u32 = 64;
/// Key of the head row, which has the card block and the generation that a start requires.
const HEAD_KEY: &[u8] = &[];

/// The tree and its keys of the present epochs.
pub(super) struct OwnTree {
    tree: KeyTree,
    /// `None` before the first report of a clock.
    rules: Option<FloorRules>,
    held: HeldKeys,
    /// True if the date was confirmed since the last report of a clock. A jump of more than a day
    /// erases nothing without that.
    is_date_confirmed: bool,
}

snapshot!(struct OwnTree {
    tree => tree.card().lives().map(|life| tree.find_floor(life).map_or(0, |floor| floor.0)).collect::<Vec<u32>>(),
    rules => rules.is_some(),
    held => held.held_epochs().map(|epoch| epoch.0).collect::<Vec<u32>>(),
    is_date_confirmed,
});

/// Returns the trust in a clock, which depends on its maximum error.
fn trust_of(clock: &MeshReport) -> ClockTrust {
    ClockTrust::within(clock.within_ms)
}

/// Returns the tick that may erase keys: neighbours can delay it, but never advance it (HIBE-74).
fn erasing_tick(clock: &MeshReport) -> Tick {
    trust_of(clock).earliest_tick(Tick(clock.cur.min(clock.own)), clock.settled)
}

impl OwnTree {
    /// Creates a key tree for the three lives, the lifetime classes of keys.
    pub fn create(
        system: &System,
        clock: &MeshReport,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, TreeError> {
        let earliest = erasing_tick(clock);
        let tree = KeyTree::create(system, Shape::Lives, TreeProfile::Minute, earliest, rng)?;
        Ok(Self::with_tree(tree))
    }

    fn with_tree(tree: KeyTree) -> Self {
        Self { tree, rules: None, held: HeldKeys::new(), is_date_confirmed: false }
    }

    /// Notes that the user confirmed the clock of the node.
    pub fn on_date_confirmed(&mut self) {
        self.is_date_confirmed = true;
    }

    /// Returns the card block, 630 bytes: part 03 of the card.
    pub fn card_block(&self) -> &[u8] {
        self.tree.card().as_bytes()
    }

    /// Returns true if the keys of the shortest life are all erased, so that the card has ended.
    pub fn is_over(&self) -> bool {
        self.tree.is_over()
    }

    /// Returns the keys of the present epochs.
    pub fn held_keys(&self) -> HeldKeys {
        self.held.clone()
    }

    /// Erases the keys of past epochs, and then derives those of the current ones. Without a
    /// network clock, keys are only erased, by boot time, and none is derived.
    ///
    /// # Errors
    /// A record of the tree that must hold a key holds none. Keys that were erased stay erased.
    pub fn follow_clock(
        &mut self,
        clock: Option<&MeshReport>,
        boot_ms: u64,
        system: &System,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), TreeError> {
        let tree = &mut self.tree;
        let rules =
            self.rules.get_or_insert_with(|| FloorRules::new(tree, ClockTrust::POOR, boot_ms));
        if let Some(clock) = clock {
            rules.set_trust(trust_of(clock));
            if core::mem::take(&mut self.is_date_confirmed) {
                rules.confirm_tick(tree, erasing_tick(clock), boot_ms);
            }
        }
        let floors = rules.update_floors(tree, clock.map(erasing_tick), boot_ms);
        for of in &floors {
            self.held.drop_below(of.life, of.floor);
        }
        tree.erase_below_floors(&floors, rng)?;
        let Some(clock) = clock else { return Ok(()) };
        let lives: Vec<Life> = tree.card().lives().collect();
        for life in lives {
            // Before the first and after the last day of the card no epoch is current, so there is
            // nothing to prepare.
            if let Ok(current) = tree.card().find_epoch(life, Tick(clock.cur)) {
                tree.prepare_life(life, current.plus(AHEAD), EXPANSION_MAX, rng)?;
            }
            tree.hold_keys(system, life, Tick(clock.cur), &mut self.held, rng)?;
        }
        Ok(())
    }

    /// Returns the changes that are not confirmed as stored; `None` if there are none.
    pub fn pending_step(&mut self) -> Option<KeyringStep> {
        let Delta { generation, put, keyring, drop } = self.tree.pending_delta()?;
        let before = put.into_iter().map(|(name, record)| put_row(name_key(&name), record));
        let head = put_row(HEAD_KEY.into(), encode_head(generation, self.tree.card().as_bytes()));
        let gone = drop
            .iter()
            .map(|name| RecordChange::Drop { kind: RecordKind::Tree, key: name_key(name) });
        Some(KeyringStep {
            generation,
            before: WriteBatch(before.collect()),
            keyring,
            after: WriteBatch(gone.chain([head]).collect()),
        })
    }

    /// Returns true if a later start finds this tree.
    pub fn is_stored(&self) -> bool {
        self.tree.is_stored()
    }

    /// Notes that the step of this generation is durable.
    pub fn on_stored(&mut self, generation: u64) {
        self.tree.confirm_stored(generation);
    }

    /// Loads a tree from its rows and its keyring.
    ///
    /// # Errors
    /// A row or the keyring is missing, damaged, or older than the head row requires.
    pub fn load(rows: &RowsByKey, keyring: &[u8]) -> Result<Self, DecodeError> {
        let head = rows.get(HEAD_KEY).ok_or(DecodeError::Truncated)?;
        let (generation, block) = read_head(head)?;
        let card =
            CardBlock::decode(block, BlockPolicy::Product).map_err(|_| DecodeError::Value)?;
        let mut records = BTreeMap::new();
        for (key, record) in rows.iter().filter(|(key, _)| !key.is_empty()) {
            records.insert(read_name(key)?, record.to_vec());
        }
        let tree = KeyTree::import(&card, keyring, &records, generation);
        let tree = tree.map_err(|_| DecodeError::Value)?;
        Ok(Self::with_tree(tree))
    }
}

fn put_row(key: Vec<u8>, value: Vec<u8>) -> RecordChange {
    let value = Wiping::new(value);
    RecordChange::Put { kind: RecordKind::Tree, key, bucket: Retention::Permanent, value }
}

/// Encodes the head row: `version u8 | generation u64 | card block`.
fn encode_head(generation: u64, block: &[u8]) -> Vec<u8> {
    let mut w = Writer::with_capacity(9 + block.len());
    w.put_u8(VERSION).put_u64(generation).put_bytes(block);
    w.finish()
}

fn read_head(bytes: &[u8]) -> Result<(u64, &[u8]), DecodeError> {
    let mut r = Reader::new(bytes);
    if r.read_u8()? != VERSION {
        return Err(DecodeError::Value);
    }
    Ok((r.read_u64()?, r.read_rest()))
}

/// Encodes the key of a record's row: `generation u64 | start u32 | kind u8`.
fn name_key(name: &RecordName) -> Vec<u8> {
    let mut w = Writer::with_capacity(13);
    w.put_u64(name.generation).put_u32(name.start.0).put_u8(name.kind.byte());
    w.finish()
}

fn read_name(key: &[u8]) -> Result<RecordName, DecodeError> {
    Reader::decode_exact(key, |r| {
        let generation = r.read_u64()?;
        let start = Epoch(r.read_u32()?);
        let kind = EntryKind::from_byte(r.read_u8()?).ok_or(DecodeError::Value)?;
        Ok(RecordName { generation, start, kind })
    })
}
