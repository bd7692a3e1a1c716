//! Pairings with the devices of contacts.

use mezza_core::Secret;
use mezza_messenger::card::CardForm;
use mezza_messenger::{ContactId, Input};
use mezza_ratchet::IdentityKey;

use super::NodeShell;
use crate::carriers::{Listening, PairRequest, PairingStep};
use mezza_host::api::{Fault, Refused, json};

impl NodeShell {
    /// Returns what the listener for paired devices has done, or `None` while it starts.
    ///
    /// # Errors
    /// The vault is locked.
    pub(crate) fn listening(&self) -> Result<Option<Listening>, Refused> {
        self.unlocked_device()?;
        Ok(self.adapters.listening())
    }

    /// Returns true if the device of this contact is paired.
    ///
    /// # Errors
    /// The vault is locked.
    pub(crate) fn is_paired(&self, contact: ContactId) -> Result<bool, Refused> {
        Ok(self.unlocked_device()?.carriers().is_paired(contact))
    }

    /// Begins a pairing with the device of a contact.
    ///
    /// # Errors
    /// The contact is unknown, the refusal of the device, or the fault of the disk.
    pub fn begin_pairing(
        &mut self,
        contact: ContactId,
        address: Option<String>,
    ) -> Result<(), Refused> {
        let device = self.unlocked_device()?;
        let ik = device.contact(contact).ok_or_else(Refused::no_contact)?.ik;
        let ik = IdentityKey::decode(&ik).map_err(|_| Fault::bug("a card without a key"))?;
        let own = device.card(CardForm::Full).map_err(|_| Fault::bug("no card of our own"))?;
        let request = PairRequest { contact, own_ik: *own.ik(), ik, address };
        let input = self.adapters.begin_pairing(request);
        self.run_command(Input::Carrier(input))
    }

    /// Passes on the user's decision about the digits.
    ///
    /// # Errors
    /// No digits wait for a decision, or the fault of the disk.
    pub fn confirm_pairing(&mut self, equal: bool) -> Result<(), Refused> {
        self.unlocked_device()?;
        let input = self.adapters.confirm_pairing(equal);
        self.run_command(Input::Carrier(input))
    }

    /// Ends the pairing in progress, if there is one.
    ///
    /// # Errors
    /// The vault is locked.
    pub fn cancel_pairing(&mut self) -> Result<(), Refused> {
        self.unlocked_device()?;
        let input = self.adapters.cancel_pairing();
        self.run_command(Input::Carrier(input))
    }

    /// Sets the address of a paired device.
    ///
    /// # Errors
    /// The contact is not paired, the address is too long, or the fault of the disk.
    pub fn set_link_address(&mut self, contact: ContactId, address: String) -> Result<(), Refused> {
        self.unlocked_device()?;
        let input = self.adapters.set_link_address(contact, address);
        self.run_command(Input::Carrier(input))
    }

    /// Joins a guard with its pairing key.
    ///
    /// # Errors
    /// The address is empty or too long, or the fault of the disk.
    pub fn join_guard(&mut self, address: String, key: Secret<32>) -> Result<(), Refused> {
        self.unlocked_device()?;
        let input = self.adapters.join_guard(address, key);
        self.run_command(Input::Carrier(input))
    }

    /// Leaves the guard.
    ///
    /// # Errors
    /// No guard is joined, or the fault of the disk.
    pub fn leave_guard(&mut self) -> Result<(), Refused> {
        self.unlocked_device()?;
        let input = self.adapters.leave_guard();
        self.run_command(Input::Carrier(input))
    }

    /// Leads the link to a contact through the guard's destination `dest`, or without a guard.
    ///
    /// # Errors
    /// The contact is not paired or not dialled by this device, no guard is joined, or the fault of
    /// the disk.
    pub fn set_guard_dest(&mut self, contact: ContactId, dest: Option<u16>) -> Result<(), Refused> {
        self.unlocked_device()?;
        let input = self.adapters.set_guard_dest(contact, dest);
        self.run_command(Input::Carrier(input))
    }

    /// Describes the pairing in progress, or the last one.
    ///
    /// # Errors
    /// The vault is locked.
    pub fn describe_pairing(&self) -> Result<json::LinkPairingJson, Refused> {
        self.unlocked_device()?;
        let pairing = self.adapters.pairing();
        let (state, digits, trouble) = match pairing.map(|pairing| &pairing.step) {
            None => (json::LinkPairingState::None, None, None),
            Some(None) => (json::LinkPairingState::Waiting, None, None),
            Some(Some(PairingStep::Digits(digits))) => {
                (json::LinkPairingState::Digits, Some(digits.clone()), None)
            }
            Some(Some(PairingStep::Paired)) => (json::LinkPairingState::Paired, None, None),
            Some(Some(PairingStep::Failed(trouble))) => {
                (json::LinkPairingState::Failed, None, Some(trouble.to_string()))
            }
        };
        let contact = pairing.map(|pairing| pairing.contact.0.to_string());
        Ok(json::LinkPairingJson { contact, state, digits, trouble })
    }
}
