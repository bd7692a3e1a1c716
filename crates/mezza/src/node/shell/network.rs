//! Requests for the mixnet alone: joining it, its inviters, going on with a vault that was
//! put back (MSG-63), and leaving, of which is said before what becomes of what it serves (MSG-97).

use mezza_messenger::io::NetworkAddress;
use mezza_messenger::view::ContactView;
use mezza_messenger::{CarrierId, ContactId, Input, MixnetInput};

use super::{NodeShell, restore};
use mezza_host::api::network_uri::NetworkUri;
use mezza_host::api::{Refused, json, views, words};
use mezza_host::store::witness::Witness;

/// The input that joins a network.
pub(super) fn join_input(network: NetworkAddress) -> Input {
    MixnetInput::Join(network).into()
}

impl NodeShell {
    /// The mixnet that was joined.
    pub fn mixnet(&self) -> Result<json::Mixnet, Refused> {
        let view = self.device()?.carriers().network(self.date());
        Ok(views::mixnet(&view.ok_or_else(words::mixnet::none)?))
    }

    /// Joins a network.
    ///
    /// # Errors
    /// The refusal of the device, or the fault of the disk.
    pub fn join(&mut self, uri: NetworkUri) -> Result<json::Mixnet, Refused> {
        let link = NetworkAddress { pin: uri.genesis, address: uri.address };
        self.command(join_input(link))?;
        self.mixnet()
    }

    /// Asks who it is that invites.
    ///
    /// # Errors
    /// The refusal of the device, or the fault of the disk.
    pub fn ask_who(&mut self, invites: ContactId) -> Result<(), Refused> {
        self.command(MixnetInput::AskWho(invites))
    }

    /// Returns the effects of leaving on notes and contacts.
    ///
    /// # Errors
    /// No mixnet was joined, or the vault is locked.
    pub fn leaving(&self) -> Result<json::NetworkLeaving, Refused> {
        let link = self.mixnet()?.link;
        let device = self.device()?;
        let view = device.without(CarrierId::MIXNET, self.date());
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

    /// The person goes on with a vault that was put back; the budget shown is what it remembers.
    /// As long as its witness cannot be written the carrier stays down.
    ///
    /// # Errors
    /// No mixnet, or a disk that refuses.
    pub fn resume(&mut self) -> Result<json::Mixnet, Refused> {
        self.mixnet()?;
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        let mut batches = vec![restore::accepted()];
        batches.extend(open.witness.as_mut().map_or(Ok(None), Witness::accept)?);
        if let Err(fault) = open.vault.commit(&batches) {
            return Err(self.crashed(fault));
        }
        open.settled();
        open.put_back = false;
        self.adapters.resume();
        self.mixnet()
    }
}
