//! Firewalls of the thesis that leave a channel open. Only the lab has them: the published crate
//! has none (GUARD-10).

use mezza_core::CryptoRng;
use mezza_guard::coins::{Coin, CoinRole, Uniform};
use mezza_guard::{Firewall, FirewallError, Group, Message};

/// `DH_Comm_FW` in its basic form (equations 4.1 to 4.5). It hides r and s, but g^b leaves the
/// opened commitment as the device chose it.
pub struct BasicFirewall<G: Group> {
    group: G,
    coins: Option<[Coin<G>; 2]>,
    is_answered: bool,
}

impl<G: Group> BasicFirewall<G> {
    /// Makes a firewall for one session.
    pub const fn new(group: G) -> Self {
        Self { group, coins: None, is_answered: false }
    }
}

impl<G: Group> Firewall<G> for BasicFirewall<G> {
    fn change_outgoing(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let group = &self.group;
        match (&message, &self.coins) {
            (Message::Commitment([c1, c2]), None) => {
                let mut draw = || Coin::draw(group, CoinRole::Shift, &mut Uniform, rng);
                let [u, v] = [draw(), draw()];
                let hv = group.power_h(v.scalar());
                let c1 = group.multiply(c1.seen(), &group.power_g(u.scalar()));
                let c1 = group.multiply(&c1, &hv);
                let c2 = group.multiply(c2.seen(), &hv);
                self.coins = Some([u, v]);
                Ok(Message::commitment(c1, c2))
            }
            (Message::Opening([r, s]), Some([u, v])) if self.is_answered => {
                let r = group.add_scalars(r.seen(), u.scalar());
                let s = group.add_scalars(s.seen(), v.scalar());
                self.coins = None;
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
        let (Message::Key(_), Some(_), false) = (&message, &self.coins, self.is_answered) else {
            return Err(FirewallError::Order);
        };
        self.is_answered = true;
        Ok(message)
    }
}

/// `EG_Maul` at the encryptor (listing 4.7). It changes c0, and passes c1 as the device chose it.
pub struct MaulFirewall<G: Group> {
    group: G,
    back: Option<G::Scalar>,
}

impl<G: Group> MaulFirewall<G> {
    /// Makes a firewall for one public key.
    pub const fn new(group: G) -> Self {
        Self { group, back: None }
    }
}

impl<G: Group> Firewall<G> for MaulFirewall<G> {
    fn change_outgoing(
        &mut self,
        message: Message<G>,
        _: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let (Message::Ciphertext([c0, c1]), Some(back)) = (&message, &self.back) else {
            return Err(FirewallError::Order);
        };
        Ok(Message::ciphertext(self.group.power(c0.seen(), back), c1.seen().clone()))
    }

    fn change_incoming(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let (Message::EncryptionKey(h), None) = (&message, &self.back) else {
            return Err(FirewallError::Order);
        };
        let group = &self.group;
        // A coin without an inverse is drawn again: the thesis divides by it, and a fraction is no
        // exponent.
        let (alpha, inverse) = loop {
            let alpha = group.draw_nonzero(rng);
            if let Some(inverse) = group.invert_scalar(&alpha) {
                break (alpha, inverse);
            }
        };
        let beta = group.draw_nonzero(rng);
        let mauled = Message::mauled_key(group.power_g(&alpha), group.power(h.seen(), &beta));
        self.back = Some(group.multiply_scalars(&beta, &inverse));
        Ok(mauled)
    }
}
