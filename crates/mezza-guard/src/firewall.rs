//! Reverse firewalls: a firewall is between a party and the wire, holds no key, and changes every
//! coin that the party has drawn.
//!
//! ```text
//! party --- outgoing ---> W1 ---> W2 ---> .. ---> Wk --- wire
//!       <-- incoming ---  W1 <--- W2 <--- .. <--- Wk ---
//! ```

mod answering;
mod committing;
mod dh;
mod elgamal;

pub use answering::AnsweringFirewall;
pub(crate) use committing::CommittingCoins;
pub use committing::CommittingFirewall;
pub use dh::DhFirewall;
pub use elgamal::{KeyMaulFirewall, ReMaulFirewall, RerandFirewall};

use alloc::boxed::Box;
use alloc::vec::Vec;

use mezza_core::CryptoRng;

use crate::error::FirewallError;
use crate::group::Group;
use crate::message::Message;

/// Most firewalls of a stack, which is the tested bound.
pub const STACK_MAX: usize = 8;

/// One firewall for one session. A refused message leaves the firewall unchanged (GUARD-6).
pub trait Firewall<G: Group> {
    /// Changes a message of the party on its way to the wire.
    ///
    /// # Errors
    /// [`FirewallError`] if the message is out of order, contains an identity, or is an opening
    /// that does not match.
    fn change_outgoing(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError>;

    /// Changes a message of the wire on its way to the party.
    ///
    /// # Errors
    /// As for [`change_outgoing`](Self::change_outgoing).
    fn change_incoming(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError>;
}

/// A firewall whose kind is chosen at run time.
pub type AnyFirewall<G> = Box<dyn Firewall<G>>;

/// Firewalls in series, starting with the one next to the party; at most [`STACK_MAX`].
pub struct Stack<G: Group>(Vec<AnyFirewall<G>>);

impl<G: Group> Stack<G> {
    /// Creates a stack; firewalls above [`STACK_MAX`] are left out.
    pub fn new(firewalls: impl IntoIterator<Item = AnyFirewall<G>>) -> Self {
        // Eight is the tested bound (GUARD-8). Fewer firewalls still protect.
        Self(firewalls.into_iter().take(STACK_MAX).collect())
    }
}

impl<G: Group> Firewall<G> for Stack<G> {
    fn change_outgoing(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        self.0.iter_mut().try_fold(message, |message, w| w.change_outgoing(message, rng))
    }

    fn change_incoming(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        // Incoming messages pass the firewalls in reverse order.
        self.0.iter_mut().rev().try_fold(message, |message, w| w.change_incoming(message, rng))
    }
}

impl<G: Group> core::fmt::Debug for Stack<G> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Stack of {}", self.0.len())
    }
}

/// Refuses the identity, which no coin can change.
pub(crate) fn check_proper<G: Group>(
    group: &G,
    elements: &[&G::Element],
) -> Result<(), FirewallError> {
    if elements.iter().any(|element| group.is_identity(element)) {
        return Err(FirewallError::Identity);
    }
    Ok(())
}
