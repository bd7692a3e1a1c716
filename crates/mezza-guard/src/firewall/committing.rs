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

use super::{Firewall, proper};
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
    Committed(Changed<G>),
    Answered(Changed<G>),
    Done,
}

/// The coins, and what went out.
struct Changed<G: Group> {
    alpha: Coin<G>,
    u: Coin<G>,
    v: Coin<G>,
    commitment: [G::Element; 2],
}

impl<G: Group> CommittingFirewall<G> {
    /// A firewall for one session.
    pub const fn new(group: G) -> Self {
        Self::with_coins(group, Uniform)
    }
}

impl<G: Group, C: Coins<G>> CommittingFirewall<G, C> {
    /// A firewall with this source of coins: alpha, u, v.
    pub const fn with_coins(group: G, coins: C) -> Self {
        Self { group, coins, state: State::New }
    }

    fn commitment(
        &mut self,
        [c1, c2]: [&G::Element; 2],
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let group = &self.group;
        proper(group, &[c1, c2])?;
        let mut draw = |role| Coin::draw(group, role, &mut self.coins, rng);
        let (alpha, u, v) = (draw(CoinRole::Power), draw(CoinRole::Shift), draw(CoinRole::Shift));
        let hv = group.power_h(v.scalar());
        let shift = group.multiply(&group.power_g(u.scalar()), &hv);
        let raise = |element: G::Element| group.power(&element, alpha.scalar());
        let commitment = [raise(group.multiply(c1, &shift)), raise(group.multiply(c2, &hv))];
        proper(group, &[&commitment[0], &commitment[1]])?;
        let [out1, out2] = commitment.clone();
        self.state = State::Committed(Changed { alpha, u, v, commitment });
        Ok(Message::commitment(out1, out2))
    }

    fn opening(&mut self, [r, s]: [&G::Scalar; 2]) -> Result<Message<G>, FirewallError> {
        let State::Answered(changed) = &self.state else { return Err(FirewallError::Order) };
        let (group, alpha) = (&self.group, changed.alpha.scalar());
        let r = group.times(alpha, &group.add(r, changed.u.scalar()));
        let s = group.times(alpha, &group.add(s, changed.v.scalar()));
        let [c1, c2] = &changed.commitment;
        commit::open(group, [c1, c2], [&r, &s]).map_err(|_| FirewallError::Opening)?;
        self.state = State::Done;
        Ok(Message::opening(r, s))
    }
}

impl<G: Group, C: Coins<G>> Firewall<G> for CommittingFirewall<G, C> {
    fn outgoing(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        match (&self.state, &message) {
            (State::New, Message::Commitment(both)) => {
                self.commitment(both.each_ref().map(ViewDependent::seen), rng)
            }
            (State::Answered(_), Message::Opening(both)) => {
                self.opening(both.each_ref().map(ViewDependent::seen))
            }
            _ => Err(FirewallError::Order),
        }
    }

    fn incoming(
        &mut self,
        message: Message<G>,
        _: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let (State::Committed(changed), Message::Key(key)) = (&self.state, &message) else {
            return Err(FirewallError::Order);
        };
        proper(&self.group, &[key.seen()])?;
        let raised = self.group.power(key.seen(), changed.alpha.scalar());
        if let State::Committed(changed) = core::mem::replace(&mut self.state, State::New) {
            self.state = State::Answered(changed);
        }
        Ok(Message::key(raised))
    }
}
