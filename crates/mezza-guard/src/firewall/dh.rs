//! The firewall of Diffie-Hellman, `DH_FW` (thesis, listing 4.2): A -> A^w out and B -> B^w in, or
//! in reverse order at the end that answers.
//!
//! ```text
//! New --a key, out or in--> Raised --a key, the other way--> Done
//! ```

use mezza_core::CryptoRng;

use super::{Firewall, check_proper};
use crate::coins::{Coin, CoinRole, Coins, Uniform};
use crate::error::FirewallError;
use crate::group::Group;
use crate::message::Message;

/// Raises both keys to the power of one coin.
pub struct DhFirewall<G: Group, C = Uniform> {
    group: G,
    coins: C,
    state: State<G>,
}

enum State<G: Group> {
    New,
    /// The coin, and true if the first key was outgoing.
    Raised(Coin<G>, bool),
    Done,
}

impl<G: Group> DhFirewall<G> {
    /// Creates a firewall for one session.
    pub const fn new(group: G) -> Self {
        Self::with_coins(group, Uniform)
    }
}

impl<G: Group, C: Coins<G>> DhFirewall<G, C> {
    /// Creates a firewall with this source of coins.
    pub const fn with_coins(group: G, coins: C) -> Self {
        Self { group, coins, state: State::New }
    }

    fn change_message(
        &mut self,
        message: &Message<G>,
        is_out: bool,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let Message::Key(key) = message else { return Err(FirewallError::Order) };
        check_proper(&self.group, &[key.seen()])?;
        let (raised, next) = match &self.state {
            State::New => {
                let coin = Coin::draw(&self.group, CoinRole::Power, &mut self.coins, rng);
                let raised = self.group.power(key.seen(), coin.scalar());
                (raised, State::Raised(coin, is_out))
            }
            // Both keys get the same coin, once in each direction, so that both ends agree.
            State::Raised(coin, first_went_out) if *first_went_out != is_out => {
                (self.group.power(key.seen(), coin.scalar()), State::Done)
            }
            // A second key in one direction would reveal the quotient of two keys under one coin
            // (GUARD-3).
            State::Raised(..) | State::Done => return Err(FirewallError::Order),
        };
        self.state = next;
        Ok(Message::key(raised))
    }
}

impl<G: Group, C: Coins<G>> Firewall<G> for DhFirewall<G, C> {
    fn change_outgoing(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        self.change_message(&message, true, rng)
    }

    fn change_incoming(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        self.change_message(&message, false, rng)
    }
}
