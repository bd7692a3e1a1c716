//! State shared by two contacts: chains that give a dead drop, two cell keys and a turn per round,
//! and call tokens.
//!
//! ```text
//! c_r0 = H_32("mezza/mix conv", R, r0)          c_(r+1) = H_32("mezza/mix step", c_r, r+1)
//! drop | turn = first 16 and next 8 bytes of H_64("mezza/mix meet", c_r, r)
//! k_01 | k_10 = H_64("mezza/mix cell", c_r, r)   role 0 seals with k_01, role 1 with k_10
//! a_q0 = H_32("mezza/mix call", R, q0)           stepped like c
//! token(role, intent) = first 16 bytes of H_32("mezza/mix ring", a_q, q, role, intent)
//! ```
//!
//! A chain only advances, and its earlier states are wiped, so a thief of the device learns nothing
//! about past rounds.

use crate::config::NetworkId;
use mezza_core::{DecodeError, PublicKey, Reader, Secret, Wiping, Writer, labelled_hash, snapshot};

use crate::limits::CHAIN_SKIP_MAX;
use crate::service::{DROP_BYTES, TOKEN_BYTES};

/// The role of a device in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The device began the session.
    Initiator,
    /// The device answered.
    Responder,
}

snapshot!(enum Role [Initiator, Responder]);

impl Role {
    /// Returns the number in key derivations and stored forms.
    pub const fn number(self) -> u8 {
        match self {
            Self::Initiator => 0,
            Self::Responder => 1,
        }
    }

    /// Returns the role with this number.
    ///
    /// # Errors
    /// [`DecodeError::Value`] for any number but 0 and 1.
    pub const fn from_number(number: u8) -> Result<Self, DecodeError> {
        match number {
            0 => Ok(Self::Initiator),
            1 => Ok(Self::Responder),
            _ => Err(DecodeError::Value),
        }
    }

    /// Returns the other role.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Take part in conversation rounds.
    Talk,
    /// Reserved: read soon.
    ReadSoon,
}

snapshot!(enum Intent [Talk, ReadSoon]);

impl Intent {
    /// All intents.
    pub const ALL: [Self; 2] = [Self::Talk, Self::ReadSoon];

    const fn number(self) -> u8 {
        match self {
            Self::Talk => 0,
            Self::ReadSoon => 1,
        }
    }
}

/// Error: the round is before the chain, or further ahead than a chain may advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chain cannot go to this round")]
pub struct OutOfReach;

/// The meeting of two contacts in one round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DeadDrop {
    /// The id of the dead drop.
    pub drop: [u8; DROP_BYTES],
    /// The turn: a client serves the contacts with the largest turns, and both sides compute the
    /// same one.
    pub priority: u64,
}

impl core::fmt::Debug for DeadDrop {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("DeadDrop")
    }
}

/// The keys of one round: a drop, and one cell key per direction. Each round has one set, because
/// [`ConversationKeywheel::take_round_keys`] advances the chain (MIX-23).
pub struct RoundKeys {
    /// The id of the dead drop.
    pub drop: [u8; DROP_BYTES],
    /// Key for sealing our cell.
    pub seal: Secret<32>,
    /// Key for opening the partner's cell.
    pub open: Secret<32>,
}

impl core::fmt::Debug for RoundKeys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("RoundKeys")
    }
}

/// A secret that advances with the rounds.
struct Keywheel {
    secret: Secret<32>,
    round: u64,
}

snapshot!(struct Keywheel { secret, round });

impl Keywheel {
    fn begin(label: &str, root: &Secret<32>, round: u64) -> Self {
        let mut secret = Secret::init_with(|_| {});
        derive_into(label, root, round, &mut secret);
        Self { secret, round }
    }

    /// Advances towards `round` by at most `steps` steps. Returns true once `round` is reached.
    fn advance_to(&mut self, round: u64, steps: u64) -> Result<bool, OutOfReach> {
        // The chain is one-way: keys of earlier rounds are wiped and must not come back.
        let ahead = round.checked_sub(self.round).filter(|n| *n <= CHAIN_SKIP_MAX);
        for _ in 0..ahead.ok_or(OutOfReach)?.min(steps) {
            self.step_round();
        }
        Ok(self.round == round)
    }

    fn step_round(&mut self) {
        // A network has no round 2^64 - 1, because its clock checks refuse it.
        self.round = self.round.saturating_add(1);
        // The copy is wiped on drop, so an earlier round cannot be derived from memory.
        let last = self.secret.duplicate();
        derive_into("mezza/mix step", &last, self.round, &mut self.secret);
    }

    fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { secret: Secret::read_from(r)?, round: r.read_u64()? })
    }

    fn write_to(&self, w: &mut Writer) {
        w.put_bytes(self.secret.expose()).put_u64(self.round);
    }
}

/// Derives `H_32(label, secret, round)` into `into`.
fn derive_into(label: &str, secret: &Secret<32>, round: u64, into: &mut Secret<32>) {
    // Written in place: a moved secret would leave its bytes at the old address.
    let next = Wiping::new(labelled_hash::<32>(label, &[secret.expose(), &round.to_be_bytes()]));
    into.overwrite_with(|bytes| bytes.copy_from_slice(&*next));
}

/// The conversation chain of one contact, at one round. `Debug` shows the round only.
pub struct ConversationKeywheel {
    chain: Keywheel,
    role: Role,
}

snapshot!(struct ConversationKeywheel { chain, role });

impl ConversationKeywheel {
    /// Begins a chain at round `start` with the root from the messenger.
    pub fn begin(root: &Secret<32>, role: Role, start: u64) -> Self {
        Self { chain: Keywheel::begin("mezza/mix conv", root, start), role }
    }

    /// Returns the present round of the chain.
    pub const fn round(&self) -> u64 {
        self.chain.round
    }

    /// Returns our role.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Advances towards `round` by at most `steps` steps. Returns true once `round` is reached.
    /// Earlier states are wiped.
    ///
    /// # Errors
    /// [`OutOfReach`] for an earlier round, or one more than 2^26 ahead; the chain is unchanged.
    pub fn advance_to(&mut self, round: u64, steps: u64) -> Result<bool, OutOfReach> {
        self.chain.advance_to(round, steps)
    }

    /// Returns the meeting in the present round of the chain.
    pub fn meeting(&self) -> DeadDrop {
        let bytes = Wiping::new(self.derive_label("mezza/mix meet"));
        let mut meeting = DeadDrop { drop: [0; DROP_BYTES], priority: 0 };
        meeting.drop.copy_from_slice(&bytes[..16]);
        meeting.priority =
            bytes[16..24].iter().fold(0, |turn, byte| (turn << 8) | u64::from(*byte));
        meeting
    }

    /// Returns the keys of the present round. The chain advances, so that no other cell is sealed
    /// under these keys.
    pub fn take_round_keys(&mut self) -> RoundKeys {
        let bytes = Wiping::new(self.derive_label("mezza/mix cell"));
        let half = |at: usize| Secret::init_with(|key| key.copy_from_slice(&bytes[at..at + 32]));
        let (seal, open) = match self.role {
            // Each direction has its own key. With equal keys and a zero nonce the difference of
            // two cells would be revealed.
            Role::Initiator => (half(0), half(32)),
            Role::Responder => (half(32), half(0)),
        };
        // The drop is derived before the step, from the same round as the keys.
        let drop = self.meeting().drop;
        self.chain.step_round();
        RoundKeys { drop, seal, open }
    }

    fn derive_label(&self, label: &str) -> [u8; 64] {
        labelled_hash(label, &[self.chain.secret.expose(), &self.chain.round.to_be_bytes()])
    }

    /// Reads `role u8 | secret 32 | round u64`.
    ///
    /// # Errors
    /// [`DecodeError`] if bytes are missing or the role is not 0 or 1.
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { role: Role::from_number(r.read_u8()?)?, chain: Keywheel::read_from(r)? })
    }

    /// Writes the chain in 41 secret bytes.
    pub fn write_to(&self, w: &mut Writer) {
        w.put_u8(self.role.number());
        self.chain.write_to(w);
    }
}

impl core::fmt::Debug for ConversationKeywheel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ConversationKeywheel(round {})", self.chain.round)
    }
}

/// The call chain of one contact, at one call round.
pub struct CallKeywheel(Keywheel);

snapshot!(struct CallKeywheel(inner));

impl CallKeywheel {
    /// Begins a chain at call round `start`.
    pub fn begin(root: &Secret<32>, start: u64) -> Self {
        Self(Keywheel::begin("mezza/mix call", root, start))
    }

    /// Returns the present call round of the chain.
    pub const fn round(&self) -> u64 {
        self.0.round
    }

    /// Advances towards `round`, as [`ConversationKeywheel::advance_to`] does.
    ///
    /// # Errors
    /// [`OutOfReach`] for an earlier round, or one more than 2^26 ahead; the chain is unchanged.
    pub fn advance_to(&mut self, round: u64, steps: u64) -> Result<bool, OutOfReach> {
        self.0.advance_to(round, steps)
    }

    /// Returns the token for our call in the present round. The chain advances to the next round,
    /// so no other onion has this token (MIX-42).
    pub fn take_token(&mut self, role: Role, intent: Intent) -> [u8; TOKEN_BYTES] {
        let token = self.token(role, intent);
        // A missed call is repeated with the token of a later round, so that no two onions look
        // alike.
        self.0.step_round();
        token
    }

    /// Returns the token by which the device in `role` calls the other one in this round.
    pub fn token(&self, role: Role, intent: Intent) -> [u8; TOKEN_BYTES] {
        let round = self.0.round.to_be_bytes();
        let secret = self.0.secret.expose();
        let bytes = Wiping::new(labelled_hash::<32>(
            "mezza/mix ring",
            // The role is included, so that our own calls in a bucket do not look like the
            // partner's.
            &[secret, &round, &[role.number()], &[intent.number()]],
        ));
        let mut token = [0; TOKEN_BYTES];
        token.copy_from_slice(&bytes[..TOKEN_BYTES]);
        token
    }

    /// Reads `secret 32 | round u64`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if the bytes are fewer.
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Keywheel::read_from(r).map(Self)
    }

    /// Writes 40 secret bytes.
    pub fn write_to(&self, w: &mut Writer) {
        self.0.write_to(w);
    }
}

impl core::fmt::Debug for CallKeywheel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CallKeywheel(round {})", self.0.round)
    }
}

/// Returns the bucket, 1 to `buckets`, in which the owner of a dialling key looks for calls and
/// invitations. It is the same in every round.
pub fn assign_bucket(dialling: &PublicKey, network: &NetworkId, buckets: u32) -> u32 {
    let hash: [u8; 32] = labelled_hash("mezza/mix bucket", &[&dialling.0, &network.0]);
    let head = hash[..8].iter().fold(0, |head: u64, byte| (head << 8) | u64::from(*byte));
    1 + (head % u64::from(buckets.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn chain(role: Role) -> ConversationKeywheel {
        ConversationKeywheel::begin(&Secret::init_with(|s| s.fill(7)), role, 100)
    }

    #[test]
    fn both_sides_meet_and_open_each_others_cells() {
        let mut alice = chain(Role::Initiator);
        let mut bob = chain(Role::Responder);
        for round in [100, 101, 107] {
            assert_eq!(alice.advance_to(round, 10), Ok(true));
            assert_eq!(bob.advance_to(round, 10), Ok(true));
            assert_eq!(alice.meeting(), bob.meeting());
            let met = alice.meeting().drop;
            let ours = alice.take_round_keys();
            let theirs = bob.take_round_keys();
            assert_eq!((ours.drop, theirs.drop), (met, met));
            assert!(ours.seal == theirs.open && ours.open == theirs.seal);
            assert!(ours.seal != ours.open);
            assert_eq!(alice.advance_to(round, 10), Err(OutOfReach), "a round is taken once");
        }
        assert_eq!(alice.advance_to(106, 10), Err(OutOfReach), "a chain only goes forward");
        assert_eq!(alice.advance_to(109 + CHAIN_SKIP_MAX, 10), Err(OutOfReach));
        assert_eq!(alice.round(), 108);
    }

    #[test]
    fn slices_of_a_long_way_end_where_one_step_at_a_time_does() {
        let mut slices = chain(Role::Initiator);
        let mut steps = chain(Role::Initiator);
        let mut slept = 0;
        while !slices.advance_to(1_100, 300).expect("in reach") {
            slept += 1;
        }
        (101..=1_100).for_each(|round| assert_eq!(steps.advance_to(round, 1), Ok(true)));
        assert_eq!((slept, slices.meeting()), (3, steps.meeting()));
    }

    #[test]
    fn stored_chains_go_on_and_debug_is_silent() {
        let mut w = Writer::new();
        let chain = chain(Role::Responder);
        let calls = CallKeywheel::begin(&Secret::init_with(|s| s.fill(7)), 5);
        chain.write_to(&mut w);
        calls.write_to(&mut w);
        let read = |r: &mut Reader<'_>| {
            Ok::<_, DecodeError>((ConversationKeywheel::read_from(r)?, CallKeywheel::read_from(r)?))
        };
        let (mut again, calls_again) =
            Reader::decode_exact(w.as_slice(), read).expect("what was written");
        assert_eq!((again.meeting(), again.role()), (chain.meeting(), Role::Responder));
        let token = |calls: &CallKeywheel| calls.token(Role::Initiator, Intent::Talk);
        assert_eq!(token(&calls_again), token(&calls));
        assert_eq!(
            format!("{chain:?} {calls:?} {:?}", chain.meeting()),
            "ConversationKeywheel(round 100) CallKeywheel(round 5) DeadDrop"
        );
        let mut chain = chain;
        assert!(again.take_round_keys().seal == chain.take_round_keys().seal);
    }

    #[test]
    fn tokens_differ_by_role_intent_and_round() {
        let mut calls = CallKeywheel::begin(&Secret::init_with(|s| s.fill(7)), 5);
        let mut seen = alloc::collections::BTreeSet::new();
        for round in 5..8 {
            calls.advance_to(round, 1).expect("in reach");
            for role in [Role::Initiator, Role::Responder] {
                seen.extend(Intent::ALL.map(|intent| calls.token(role, intent)));
            }
        }
        assert_eq!(seen.len(), 12);
        let token = calls.token(Role::Initiator, Intent::Talk);
        assert_eq!(calls.take_token(Role::Initiator, Intent::Talk), token);
        assert_eq!(calls.advance_to(7, 1), Err(OutOfReach), "a round is called in once");
        assert!((1..=8).contains(&assign_bucket(&PublicKey([1; 32]), &NetworkId([2; 16]), 8)));
        assert_eq!(assign_bucket(&PublicKey([1; 32]), &NetworkId([2; 16]), 1), 1);
    }
}
