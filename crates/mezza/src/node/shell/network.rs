//! Requests for the mixnet: joining, inviters, continuing with a restored vault (MSG-63), and
//! leaving, with a preview of its effects on notes and contacts (MSG-97).

use mezza_messenger::io::NetworkAddress;
use mezza_messenger::view::ContactView;
use mezza_messenger::{CarrierId, ContactId, Input, MixnetInput};

use super::{NodeShell, restore};
use crate::carriers::MeshPlace;
use mezza_host::api::network_uri::NetworkUri;
use mezza_host::api::{Refused, json, views, words};
use mezza_host::store::witness::Witness;

/// The input that joins a network.
pub(super) fn join_input(network: NetworkAddress) -> Input {
    MixnetInput::Join(network).into()
}

impl NodeShell {
    /// Describes the joined mixnet.
    pub fn describe_mixnet(&self) -> Result<json::Mixnet, Refused> {
        let view = self.unlocked_device()?.carriers().network_view(self.date());
        Ok(views::describe_mixnet(&view.ok_or_else(words::mixnet::not_joined)?))
    }

    /// Returns the mesh of this node, if any, and whether our card has keys for it.
    ///
    /// # Errors
    /// The vault is locked.
    pub fn mesh_facts(&self) -> Result<(Option<MeshPlace>, bool), Refused> {
        self.unlocked_device()?;
        let has_keys = self.connections(CarrierId::MESH).iter().any(|mesh| mesh.own);
        Ok((self.options.mesh.clone(), has_keys))
    }

    /// Joins a network.
    ///
    /// # Errors
    /// The refusal of the device, or the fault of the disk.
    pub fn join_mixnet(&mut self, uri: NetworkUri) -> Result<json::Mixnet, Refused> {
        let link = NetworkAddress { pin: uri.genesis, address: uri.address };
        self.run_command(join_input(link))?;
        self.describe_mixnet()
    }

    /// Asks an inviter for the card.
    ///
    /// # Errors
    /// The refusal of the device, or the fault of the disk.
    pub fn ask_who(&mut self, invites: ContactId) -> Result<(), Refused> {
        self.run_command(MixnetInput::AskWho(invites))
    }

    /// Returns the effects of leaving on notes and contacts.
    ///
    /// # Errors
    /// No mixnet was joined, or the vault is locked.
    pub fn preview_leaving(&self) -> Result<json::NetworkLeaving, Refused> {
        let link = self.describe_mixnet()?.link;
        let device = self.unlocked_device()?;
        let view = device.preview_leaving(CarrierId::MIXNET, self.date());
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

    /// Leaves the mixnet. Returns the effects on notes and contacts.
    ///
    /// # Errors
    /// As [`leaving`](Self::leaving), or the refusal of device or disk.
    pub fn leave_mixnet(&mut self) -> Result<json::NetworkLeaving, Refused> {
        let leaving = self.preview_leaving()?;
        self.run_command(MixnetInput::Leave)?;
        Ok(leaving)
    }

    /// Continues with a restored vault, because the user decided so; the shown budget is the one
    /// that the vault stores. The carrier stays down while the witness cannot be written.
    ///
    /// # Errors
    /// No mixnet was joined, or the disk refuses.
    pub fn resume_restored(&mut self) -> Result<json::Mixnet, Refused> {
        self.describe_mixnet()?;
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        let mut batches = vec![restore::acceptance_batch()];
        batches.extend(open.witness.as_mut().map_or(Ok(None), Witness::accept_doubt)?);
        if let Err(fault) = open.vault.commit(&batches) {
            return Err(self.reload_device(fault));
        }
        open.settle_witness();
        open.put_back = false;
        self.adapters.resume_restored();
        self.describe_mixnet()
    }
}
