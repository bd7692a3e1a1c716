//! The firewall of the end that commits, `DH_Comm_FW` in full (thesis, equations 4.1 to 4.9).
//!
//! ```text
//! out  C1, C2   C1' = (C1 g^u h^v)^alpha    C2' = (C2 h^v)^alpha
//! in   A        A^alpha
//! out  r, s     r' = alpha (r + u)          s' = alpha (s + v)      checked against C1', C2'
//!
//! New --commitment--> Committed --key--> Answered --opening that fits--> Done
//! ```

use mezza_core::CryptoRng;

use super::{Firewall, check_proper};
use crate::coins::{Coin, CoinRole, Coins, Uniform};
use crate::commit;
use crate::error::FirewallError;
use crate::group::{Group, ViewDependent};
use crate::message::Message;

/// Re-randomises and mauls a commitment, its opening and the answer.
pub struct CommittingFirewall<G: Group, C = Uniform> {
    group: G,
    coins: C,
    state: State<G>,
}

enum State<G: Group> {
    New,
    Committed(CommittingCoins<G>, [G::Element; 2]),
    Answered(CommittingCoins<G>, [G::Element; 2]),
    Done,
}

/// The coins alpha, u and v of one session.
pub(crate) struct CommittingCoins<G: Group> {
    alpha: Coin<G>,
    u: Coin<G>,
    v: Coin<G>,
}

impl<G: Group> CommittingCoins<G> {
    pub(crate) fn draw(group: &G, coins: &mut dyn Coins<G>, rng: &mut dyn CryptoRng) -> Self {
        let mut draw = |role| Coin::draw(group, role, coins, rng);
        // The order of the draws is fixed by the test vectors.
        let alpha = draw(CoinRole::Power);
        let u = draw(CoinRole::Shift);
        let v = draw(CoinRole::Shift);
        Self { alpha, u, v }
    }

    /// Computes C1' and C2'. Refuses an identity in the input and in the result.
    pub(crate) fn change_commitment(
        &self,
        group: &G,
        [c1, c2]: [&G::Element; 2],
    ) -> Result<[G::Element; 2], FirewallError> {
        // An identity would be sent as a power of the shift alone.
        check_proper(group, &[c1, c2])?;
        let hv = group.power_h(self.v.scalar());
        let shift = group.multiply(&group.power_g(self.u.scalar()), &hv);
        let raise = |element: G::Element| group.power(&element, self.alpha.scalar());
        let changed = [raise(group.multiply(c1, &shift)), raise(group.multiply(c2, &hv))];
        // A client that guesses u or v could make the result the identity.
        check_proper(group, &[&changed[0], &changed[1]])?;
        Ok(changed)
    }

    /// Raises the other key to the power of alpha.
    pub(crate) fn change_key(
        &self,
        group: &G,
        key: &G::Element,
    ) -> Result<G::Element, FirewallError> {
        check_proper(group, &[key])?;
        Ok(group.power(key, self.alpha.scalar()))
    }

    /// Computes r' and s', and checks them against the commitment that was sent (GUARD-7).
    pub(crate) fn change_opening(
        &self,
        group: &G,
        went_out: [&G::Element; 2],
        [r, s]: [&G::Scalar; 2],
    ) -> Result<[G::Scalar; 2], FirewallError> {
        let alpha = self.alpha.scalar();
        // Computed modulo q: over the integers the gcd of both openings would reveal alpha
        // (GUARD-5).
        let r = group.multiply_scalars(alpha, &group.add_scalars(r, self.u.scalar()));
        let s = group.multiply_scalars(alpha, &group.add_scalars(s, self.v.scalar()));
        // An opening that does not match would give the client 64 free bytes (GUARD-7).
        commit::open_commitment(group, went_out, [&r, &s]).map_err(|_| FirewallError::Opening)?;
        Ok([r, s])
    }
}

impl CommittingCoins<crate::group::Ristretto> {
    /// Returns all coins, for tests.
    pub(crate) fn snapshot(&self) -> alloc::vec::Vec<u8> {
        [&self.alpha, &self.u, &self.v].map(|coin| coin.scalar().to_bytes()).concat()
    }
}

impl<G: Group> CommittingFirewall<G> {
    /// Creates a firewall for one session.
    pub const fn new(group: G) -> Self {
        Self::with_coins(group, Uniform)
    }
}

impl<G: Group, C: Coins<G>> CommittingFirewall<G, C> {
    /// Creates a firewall with this source of the coins alpha, u, v.
    pub const fn with_coins(group: G, coins: C) -> Self {
        Self { group, coins, state: State::New }
    }
}

impl<G: Group, C: Coins<G>> Firewall<G> for CommittingFirewall<G, C> {
    fn change_outgoing(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let group = &self.group;
        match (&self.state, &message) {
            (State::New, Message::Commitment(both)) => {
                let coins = CommittingCoins::draw(group, &mut self.coins, rng);
                let both = both.each_ref().map(ViewDependent::seen);
                // Refused before the state changes, so that the coins for a bad message are wiped
                // (GUARD-6).
                let [c1, c2] = coins.change_commitment(group, both)?;
                self.state = State::Committed(coins, [c1.clone(), c2.clone()]);
                Ok(Message::commitment(c1, c2))
            }
            (State::Answered(coins, went_out), Message::Opening(both)) => {
                let both = both.each_ref().map(ViewDependent::seen);
                let [r, s] = coins.change_opening(group, went_out.each_ref(), both)?;
                self.state = State::Done;
                Ok(Message::opening(r, s))
            }
            _ => Err(FirewallError::Order),
        }
    }

    fn change_incoming(
        &mut self,
        message: Message<G>,
        _: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let (State::Committed(coins, _), Message::Key(key)) = (&self.state, &message) else {
            return Err(FirewallError::Order);
        };
        let raised = coins.change_key(&self.group, key.seen())?;
        // The sent commitment is stored, because the opening is checked against it (GUARD-7).
        if let State::Committed(coins, sent) = core::mem::replace(&mut self.state, State::New) {
            self.state = State::Answered(coins, sent);
        }
        Ok(Message::key(raised))
    }
}
