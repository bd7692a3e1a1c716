//! The firewall of the end that answers a commitment, the counterpart of `DH_Comm_FW`.
//!
//! ```text
//! in   C1, C2   C1^alpha  C2^alpha
//! out  A        A^alpha
//! in   r, s     alpha r   alpha s
//!
//! New --commitment--> Asked --key--> Replied --opening--> Done
//! ```

use mezza_core::CryptoRng;

use super::{Firewall, check_proper};
use crate::coins::{Coin, CoinRole, Coins, Uniform};
use crate::error::FirewallError;
use crate::group::{Group, ViewDependent};
use crate::message::Message;

/// Mauls a commitment, its opening and the party's own answer.
pub struct AnsweringFirewall<G: Group, C = Uniform> {
    group: G,
    coins: C,
    state: State<G>,
}

enum State<G: Group> {
    New,
    Asked(Coin<G>),
    Replied(Coin<G>),
    Done,
}

impl<G: Group> AnsweringFirewall<G> {
    /// Creates a firewall for one session.
    pub const fn new(group: G) -> Self {
        Self::with_coins(group, Uniform)
    }
}

impl<G: Group, C: Coins<G>> AnsweringFirewall<G, C> {
    /// Creates a firewall with this source of the coin alpha.
    pub const fn with_coins(group: G, coins: C) -> Self {
        Self { group, coins, state: State::New }
    }
}

impl<G: Group, C: Coins<G>> Firewall<G> for AnsweringFirewall<G, C> {
    fn change_outgoing(
        &mut self,
        message: Message<G>,
        _: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let (State::Asked(alpha), Message::Key(key)) = (&self.state, &message) else {
            return Err(FirewallError::Order);
        };
        check_proper(&self.group, &[key.seen()])?;
        let raised = self.group.power(key.seen(), alpha.scalar());
        // The coin moves to the next state, because it must not be copied (GUARD-3).
        if let State::Asked(alpha) = core::mem::replace(&mut self.state, State::New) {
            self.state = State::Replied(alpha);
        }
        Ok(Message::key(raised))
    }

    fn change_incoming(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        match (&self.state, &message) {
            (State::New, Message::Commitment(both)) => {
                let [c1, c2] = both.each_ref().map(ViewDependent::seen);
                check_proper(&self.group, &[c1, c2])?;
                // The coin is never 0: C^0 would be the same commitment for all (GUARD-3).
                let alpha = Coin::draw(&self.group, CoinRole::Power, &mut self.coins, rng);
                let [c1, c2] = [c1, c2].map(|c| self.group.power(c, alpha.scalar()));
                self.state = State::Asked(alpha);
                Ok(Message::commitment(c1, c2))
            }
            (State::Replied(alpha), Message::Opening(both)) => {
                let scale =
                    |s: &ViewDependent<_>| self.group.multiply_scalars(alpha.scalar(), s.seen());
                let [r, s] = both.each_ref().map(scale);
                // The coin ends with its session and is wiped here.
                self.state = State::Done;
                Ok(Message::opening(r, s))
            }
            _ => Err(FirewallError::Order),
        }
    }
}
