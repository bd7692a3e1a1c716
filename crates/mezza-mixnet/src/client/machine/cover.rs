//! Rounds of a locked device (MIX-78): an idle client without contacts, their keys or a ledger.
//!
//! ```text
//! Client -- into_live_line --> LiveLine -- idle --> Client that idles
//!   ^                                                      |
//!   +---- attach ---- LiveLine <---- into_live_line -------+
//! ```
//!
//! The connection, the times of its frames and the rounds in progress stay the same in both steps,
//! so an observer cannot see when the device is locked or unlocked.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, EphemeralKey, PublicKey, Secret, StaticKey, Time, snapshot};
use mezza_lanes::Kernel;

use super::links::Link;
use super::rounds::{Round, RoundState, SlotContents};
use super::standing::ProtectionState;
use super::{Client, ClientOptions, Output, draw_number};
use crate::config::Chain;
use crate::mix::NoiseFloor;
use crate::privacy::Ledger;
use crate::{RoundId, Service};

/// The part of a client that continues while the device is locked. It holds no key of a contact,
/// and no secret except the key pairs and reply keys of rounds in progress.
pub struct LiveLine {
    pin: [u8; 32],
    /// The key that determines the bucket.
    bucket_key: PublicKey,
    chain: Option<Chain>,
    link: Link,
    silent_lines: u32,
    searches: u32,
    rounds: BTreeMap<RoundId, Round>,
    last: BTreeMap<Service, u64>,
    shown: BTreeMap<Service, u64>,
    pairs: Vec<EphemeralKey>,
    wanted: usize,
    standing: ProtectionState,
    seen: Time,
    left: Option<Time>,
    heard: Option<u64>,
}

snapshot!(struct LiveLine {
    pin, bucket_key, chain, link, silent_lines, searches, rounds, last, shown, pairs, wanted, standing,
    seen, left, heard,
});

impl Round {
    /// Forgets the contacts served by the slots. Returns false if the round cannot continue: its
    /// record is not durable, so its onions must not be sent (MIX-23).
    fn forget_content(&mut self) -> bool {
        let idle = |content: &mut SlotContents| match content {
            // A slot keeps the dead drop that it accesses, so the onions of the round are sent
            // unchanged (MIX-78).
            SlotContents::Drops(slots) => slots.iter_mut().for_each(|slot| slot.served = None),
            SlotContents::Call(real, expected) => {
                *real = false;
                expected.clear();
            }
            SlotContents::Invite(waiting) => *waiting = None::<Box<_>>,
        };
        match &mut self.stage {
            RoundState::Armed => {}
            RoundState::Sealed { durable, content, .. } => {
                idle(content);
                // The confirmation of this record would go to the client that ends here, so the
                // round cannot continue.
                return *durable;
            }
            RoundState::Sent { content, .. } => idle(content),
            RoundState::Fetching(fetch) => fetch.forget_expected(),
        }
        true
    }
}

impl<B: Backend> Client<B> {
    /// Takes the line from a client. The content of slots in progress is treated as missed.
    pub fn into_live_line(self, now: Time) -> LiveLine {
        let mut rounds = self.rounds;
        rounds.retain(|_, round| round.forget_content());
        let mut standing = self.standing;
        standing.forget_told();
        LiveLine {
            pin: self.setup.pin,
            bucket_key: self.bucket_key,
            chain: self.chain,
            link: self.link,
            silent_lines: self.silent_lines,
            searches: self.searches,
            rounds,
            last: self.last,
            shown: self.shown,
            pairs: self.pairs,
            wanted: self.wanted,
            standing,
            seen: self.seen,
            // Calls in rounds from now on do not reach us.
            left: self.left.or(Some(now)),
            heard: self.heard,
        }
    }

    /// Creates an idle client, which takes part in all rounds and serves no contact. It reads no
    /// invitations, and its rows need not be stored.
    pub fn idle(
        line: LiveLine,
        kernel: &'static dyn Kernel,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        // The real key is in the locked vault. A random one opens nothing at the same cost.
        let dialling = StaticKey::from_scalar::<B>(Secret::random(rng));
        let pin = line.pin;
        // The user's floor is unknown here. The level is computed again after the unlock.
        let floor = NoiseFloor::None;
        let mut client = Self::empty(ClientOptions { pin, dialling, floor, kernel }, now);
        // No ledger: an idle client charges nothing, because its slots serve no contact (MIX-78).
        client.idles = true;
        client.bucket_key = line.bucket_key;
        client.chain.clone_from(&line.chain);
        client.take_over(line);
        client
    }

    /// Continues a line that was open while the device was locked. Returns false and changes
    /// nothing if the line is of another network or key.
    pub fn attach_line(&mut self, line: LiveLine, now: Time, rng: &mut dyn CryptoRng) -> bool {
        // A restored vault must not continue the connection of another network or user (MIX-78).
        if line.pin != self.setup.pin || line.bucket_key != self.bucket_key {
            return false;
        }
        let seq = |chain: &Option<Chain>| chain.as_ref().map(|chain| chain.head_config().seq);
        // Configs that arrived while locked are kept, and stored before they are used.
        if seq(&line.chain) > seq(&self.chain) {
            self.chain.clone_from(&line.chain);
            if let (Some(chain), None) = (&self.chain, &self.ledger) {
                self.ledger = Some(Ledger::new(chain.head_config().network, draw_number(rng)));
            }
            self.take_snapshot(now);
            self.outputs.push_back(Output::Config);
        }
        self.take_over(line);
        // Unreadable rows are of rounds before the lock, so the last rounds of the line bound them.
        self.unread.clear();
        self.walk_at.get_or_insert(now);
        if self.link.is_up() {
            self.outputs.push_back(Output::Joined);
            self.come_back(now);
        }
        true
    }

    fn take_over(&mut self, line: LiveLine) {
        (self.link, self.silent_lines, self.searches) =
            (line.link, line.silent_lines, line.searches);
        for (service, round) in line.last {
            // Rounds that the idle client sealed must not be sealed again by this one (MIX-40).
            self.goes_to(RoundId { service, round });
        }
        (self.rounds, self.shown) = (line.rounds, line.shown);
        (self.pairs, self.wanted, self.standing) = (line.pairs, line.wanted, line.standing);
        (self.seen, self.left, self.heard) = (line.seen, line.left, line.heard);
    }
}
