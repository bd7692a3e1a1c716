//! Leaving the mixnet: what becomes of what it serves is said before, and then done (MSG-97).

use mezza_messenger::view::ContactView;
use mezza_messenger::{CarrierId, MixnetInput};

use super::NodeShell;
use crate::api::{Refused, json};
use crate::clock::now;

impl NodeShell {
    /// What would become of notes and contacts.
    ///
    /// # Errors
    /// No mixnet was joined, or the vault is locked.
    pub fn leaving(&self) -> Result<json::NetworkLeaving, Refused> {
        let link = self.mixnet()?.link;
        let device = self.device()?;
        let view = device.without(CarrierId::MIXNET, now());
        let contact =
            |view: ContactView| json::LeftBehind { id: view.id.0.to_string(), name: view.name };
        let unreachable = view.unreachable.iter().filter_map(|id| device.contact(*id));
        Ok(json::NetworkLeaving {
            link,
            elsewhere: view.elsewhere,
            waiting: view.waiting,
            unreachable: unreachable.map(contact).collect(),
            guests: view.guests,
        })
    }

    /// Leaves the mixnet; what became of notes and contacts.
    ///
    /// # Errors
    /// As [`leaving`](Self::leaving), or what the device or the disk refuses.
    pub fn leave(&mut self) -> Result<json::NetworkLeaving, Refused> {
        let leaving = self.leaving()?;
        self.command(MixnetInput::Leave)?;
        Ok(leaving)
    }
}
