//! The requests of the interface to an unlocked shell.

use mezza_core::Time;
use mezza_messenger::card::{CardForm, OFFLINE_PART, RelayEntry};
use mezza_messenger::policy::{NoteLife, Policy};
use mezza_messenger::uri;
use mezza_messenger::view::{ConnectionView, ContactState, ContactView, InvitationView};
use mezza_messenger::{CarrierId, Command, ContactId, Device, Event, Input, NoteId};

use super::NodeShell;
use super::beside::{Change, DRAFT_BYTES_MAX, What};
use crate::carriers::mesh_keys_input;
use crate::node::event_log;
use crate::node::plan::CommitPlan;
use mezza_host::api::json::{self, EventKind};
use mezza_host::api::uri::read_card;
use mezza_host::api::{Exit, Fault, Refused, views, words};
use mezza_host::backend::AwsLc;

/// Maximum number of notes in one response.
const NOTES_MAX: usize = 500;
/// Maximum size of a note's text in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 8_192;

impl NodeShell {
    pub(super) fn unlocked_device(&self) -> Result<&Device<AwsLc>, Refused> {
        match &self.open {
            Some(open) => Ok(&open.device),
            None if self.state() == json::NodeStateJson::Empty => Err(Refused::empty()),
            None => Err(Refused::locked()),
        }
    }

    /// Returns our identity.
    pub fn own_identity(&self) -> Result<json::MeJson, Refused> {
        Ok(views::describe_identity(&self.unlocked_device()?.own_identity()))
    }

    /// Makes a new card; missing arguments keep their values.
    pub fn renew_card(
        &mut self,
        name: Option<String>,
        relays: Option<Vec<RelayEntry>>,
    ) -> Result<json::MeJson, Refused> {
        let me = self.unlocked_device()?.own_identity();
        let name = name.unwrap_or(me.name);
        let relays = relays.unwrap_or(me.relays);
        self.run_command(Command::Publish { name, relays })?;
        self.own_identity()
    }

    /// Makes keys for the mesh, if there are none. The card then has them.
    ///
    /// # Errors
    /// The node has no mesh, no source confirms the clock, or the card has no room.
    pub fn make_mesh_keys(&mut self, confirmed: bool) -> Result<json::MeJson, Refused> {
        self.unlocked_device()?;
        let made = self.run_command(Input::Carrier(mesh_keys_input(confirmed)));
        made.map_err(|refused| match refused.word {
            "not_now" => Refused::new("no_mesh", words::mesh::no_mesh()),
            _ => refused,
        })?;
        let card = self.unlocked_device()?.card(CardForm::Full);
        if card.is_ok_and(|card| card.part(OFFLINE_PART).is_none()) {
            let text = "the disk does not store the keys of the mesh, so that the card lacks them";
            return Err(Fault::new(Exit::CannotWrite, text, "make room, then try again").into());
        }
        // The card has everything in one code, or the keys are of no use.
        self.unlocked_device()?.card(CardForm::Offline).map_err(|_| words::mesh::no_room())?;
        self.own_identity()
    }

    /// Returns our card in the given form.
    pub fn card_text(&self, form: json::CardFormJson) -> Result<json::CardText, Refused> {
        let wanted = match form {
            json::CardFormJson::Full => CardForm::Full,
            json::CardFormJson::Poster => CardForm::Poster,
            json::CardFormJson::Offline => CardForm::Offline,
        };
        let card = self.unlocked_device()?.card(wanted).map_err(|error| {
            let text = format!("the card cannot be made in this form: {error}");
            Fault::new(Exit::No, text, "use the full form")
        })?;
        Ok(json::CardText { uri: uri::encode_card(&card, false), form, bytes: card.encode().len() })
    }

    /// Returns all contacts except unknown senders.
    pub fn list_contacts(&self) -> Result<Vec<json::ContactJson>, Refused> {
        let device = self.unlocked_device()?;
        let known = device.contacts().into_iter().filter(|c| c.standing != ContactState::Request);
        Ok(known.map(|view| describe_contact(device, &view, self.date())).collect())
    }

    /// Returns one contact.
    pub fn contact(&self, id: ContactId) -> Result<json::ContactJson, Refused> {
        let device = self.unlocked_device()?;
        let view = device.contact(id).ok_or_else(Refused::no_contact)?;
        Ok(describe_contact(device, &view, self.date()))
    }

    /// Returns the contents of a card, without adding it.
    pub fn read_card(&self, text: &str) -> Result<json::CardSummary, Refused> {
        let card = read_card(text)?;
        let device = self.unlocked_device()?;
        let known = device.contact_by_ik(card.ik().as_bytes()).and_then(|id| device.contact(id));
        Ok(json::CardSummary {
            name: card.name().into(),
            serial: card.serial(),
            relay: card.relays().first().map(views::describe_relay),
            has_address: card.has_address(),
            known_as: known.map(|contact| contact.name),
        })
    }

    /// Adds a contact from a card; a known contact gets the newer card.
    pub fn add_contact(
        &mut self,
        text: &str,
        name: Option<String>,
        in_person: bool,
    ) -> Result<json::ContactJson, Refused> {
        let card = read_card(text)?;
        let ik = *card.ik().as_bytes();
        self.unlocked_device()?;
        self.run_command(Command::Add { card, petname: name, in_person })?;
        let id = self.unlocked_device()?.contact_by_ik(&ik).ok_or_else(Refused::no_contact)?;
        self.contact(id)
    }

    /// Changes what `patch` names, in the order name, rules, block, verification.
    pub fn patch_contact(
        &mut self,
        contact: ContactId,
        patch: json::ContactPatch,
    ) -> Result<json::ContactJson, Refused> {
        self.contact(contact)?;
        let policy = patch.policy.as_ref().map(views::policy_of).transpose()?;
        if let Some(name) = patch.name {
            self.run_command(Command::Rename { contact, name })?;
        }
        if let Some(policy) = policy {
            self.run_command(Command::Policy { contact, policy })?;
        }
        if let Some(blocked) = patch.blocked {
            self.run_command(Command::Block { contact, blocked })?;
        }
        if let Some(equal) = patch.verified {
            self.run_command(Command::Verify { contact, equal })?;
        }
        self.contact(contact)
    }

    /// Deletes a contact with its thread.
    pub fn delete_contact(&mut self, contact: ContactId) -> Result<(), Refused> {
        self.unlocked_device()?;
        self.run_command(Command::Delete { contact })
    }

    /// Returns the safety number: 60 digits, and the bytes to scan.
    pub fn safety_number(&self, contact: ContactId) -> Result<(String, Vec<u8>), Refused> {
        self.unlocked_device()?.safety_number(contact).ok_or_else(Refused::no_contact)
    }

    /// Returns sessions and prekeys, without any key.
    pub fn ratchet(&self) -> Result<json::RatchetJson, Refused> {
        let device = self.unlocked_device()?;
        let sessions = device.contacts().into_iter();
        let sessions =
            sessions.filter_map(|c| Some(views::describe_session(c.id, &device.session(c.id)?)));
        Ok(json::RatchetJson {
            sessions: sessions.collect(),
            prekeys: views::describe_prekeys(&device.prekeys(self.date())),
        })
    }

    /// Returns a part of a thread, oldest first, and true if older notes exist.
    pub fn list_notes(
        &self,
        contact: ContactId,
        before: Option<NoteId>,
        limit: usize,
    ) -> Result<json::Notes, Refused> {
        let device = self.unlocked_device()?;
        device.contact(contact).ok_or_else(Refused::no_contact)?;
        let limit = limit.clamp(1, NOTES_MAX);
        let mut thread = device.thread(contact, before, limit + 1, self.date());
        let more = thread.len() > limit;
        if more {
            thread.remove(0);
        }
        Ok(json::Notes { notes: thread.iter().map(views::describe_note).collect(), more })
    }

    /// Returns the unfinished note to a contact.
    ///
    /// # Errors
    /// No such contact.
    pub fn draft(&self, contact: ContactId) -> Result<String, Refused> {
        self.contact(contact)?;
        Ok(self.open.as_ref().map_or_else(String::new, |open| open.beside.draft(contact).into()))
    }

    /// Stores a draft; it is durable when this returns.
    ///
    /// # Errors
    /// No such contact, more than 32 KiB, or a disk that refuses.
    pub fn set_draft(&mut self, contact: ContactId, text: &str) -> Result<(), Refused> {
        self.contact(contact)?;
        if text.len() > DRAFT_BYTES_MAX {
            return Err(words::too_long(text.len(), DRAFT_BYTES_MAX));
        }
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        let batch = open.beside.set_draft(contact, text);
        if batch.0.is_empty() { Ok(()) } else { self.commit_batches(Vec::new(), vec![batch]) }
    }

    /// Returns the changes of a conversation.
    ///
    /// # Errors
    /// No such contact.
    pub fn changes(&self, contact: ContactId) -> Result<json::ChangesJson, Refused> {
        self.contact(contact)?;
        let changes = self.open.iter().flat_map(|open| open.beside.changes(contact));
        Ok(json::ChangesJson { changes: changes.map(describe_change).collect() })
    }

    /// Writes a note with the life of its conversation. Repeating a client id returns the same note.
    pub fn send_note(
        &mut self,
        contact: ContactId,
        client: [u8; 16],
        text: String,
    ) -> Result<json::NoteJson, Refused> {
        self.send_note_for(contact, client, text, None)
    }

    /// Writes a note with a life of its own. Repeating a client id returns the same note. A draft
    /// with this text is deleted in the same commit.
    pub fn send_note_for(
        &mut self,
        contact: ContactId,
        client: [u8; 16],
        text: String,
        life: Option<NoteLife>,
    ) -> Result<json::NoteJson, Refused> {
        self.unlocked_device()?.contact(contact).ok_or_else(Refused::no_contact)?;
        if text.len() > TEXT_BYTES_MAX {
            return Err(words::too_long(text.len(), TEXT_BYTES_MAX));
        }
        let draft = text.clone();
        let mut turn = self.apply_input(Command::Send { contact, client, text, life }.into())?;
        if let Some(open) = self.open.as_mut().filter(|open| open.beside.draft(contact) == draft) {
            turn.batches.push(open.beside.set_draft(contact, ""));
        }
        self.finish_plan(CommitPlan { own: true, ..turn })?;
        let device = self.unlocked_device()?;
        let sent = device.find_sent(&client).and_then(|id| device.note(id, self.date()));
        sent.map(|view| views::describe_note(&view)).ok_or_else(Refused::no_note)
    }

    /// Estimates the cost of sending a text, by carrier.
    pub fn preview_note(&self, contact: ContactId, text: &str) -> Result<json::Preview, Refused> {
        let device = self.unlocked_device()?;
        device.contact(contact).ok_or_else(Refused::no_contact)?;
        let offers = device
            .estimate_carriers(contact, text.len(), self.date())
            .iter()
            .map(views::describe_offer)
            .collect();
        Ok(json::Preview { bytes: text.len(), bytes_max: TEXT_BYTES_MAX, offers })
    }

    /// Returns our notes that are not delivered yet.
    pub fn list_outbox(&self) -> Result<Vec<json::NoteJson>, Refused> {
        let device = self.unlocked_device()?;
        Ok(device.outbox(self.date()).iter().map(views::describe_note).collect())
    }

    /// Returns unknown senders with their notes, and inviters.
    pub fn list_requests(&self) -> Result<json::RequestsJson, Refused> {
        let device = self.unlocked_device()?;
        let strangers =
            device.contacts().into_iter().filter(|c| c.standing == ContactState::Request);
        let one = |view: ContactView| json::StrangerRequest {
            notes: device
                .thread(view.id, None, 8, self.date())
                .iter()
                .map(views::describe_note)
                .collect(),
            contact: describe_contact(device, &view, self.date()),
        };
        let requests = strangers.map(one).collect();
        let guests = device.inviters().iter().map(views::describe_invitation).collect();
        Ok(json::RequestsJson { requests, guests })
    }

    /// Returns an inviter by its number, if any.
    pub fn invitation(&self, id: ContactId) -> Result<Option<InvitationView>, Refused> {
        Ok(self.unlocked_device()?.inviters().into_iter().find(|guest| guest.id == id))
    }

    /// Returns all carriers.
    pub fn list_carriers(&self) -> Result<Vec<json::CarrierJson>, Refused> {
        let roads = self.unlocked_device()?.connections(self.date());
        Ok(roads.iter().map(views::describe_carrier).collect())
    }

    /// Returns the open connections of a carrier.
    pub(super) fn connections(&self, carrier: CarrierId) -> Vec<ConnectionView> {
        let all = self
            .unlocked_device()
            .map(|device| device.connections(self.date()))
            .unwrap_or_default();
        all.into_iter().filter(|road| road.carrier == carrier).collect()
    }

    /// Returns true if unknown senders can write to us: a carrier is up and has our mailbox and
    /// prekeys.
    pub fn is_reachable(&self) -> bool {
        self.adapters.are_reachable()
    }

    /// Returns true if a carrier is up.
    pub fn is_up(&self, carrier: CarrierId) -> bool {
        self.connections(carrier).iter().any(|road| road.up)
    }

    /// Returns true if a note to a contact would leave now if only this carrier were allowed, see
    /// [`mezza_messenger::view::CarrierEstimate::waits`].
    ///
    /// # Errors
    /// The vault is locked.
    pub fn would_leave(&self, contact: ContactId, carrier: CarrierId) -> Result<bool, Refused> {
        let estimates = self.unlocked_device()?.estimate_carriers(contact, 0, self.date());
        Ok(estimates.iter().any(|one| one.carrier == carrier && one.waits.is_none()))
    }

    /// Returns the carriers of a conversation, best first.
    ///
    /// # Errors
    /// If there is no such contact.
    pub fn carriers_of(&self, contact: ContactId) -> Result<Vec<CarrierId>, Refused> {
        let view = self.unlocked_device()?.contact(contact).ok_or_else(Refused::no_contact)?;
        Ok(view.policy.carriers)
    }

    /// Restricts a conversation to these carriers.
    ///
    /// # Errors
    /// The refusal of the device.
    pub fn go_by(&mut self, contact: ContactId, carriers: &[CarrierId]) -> Result<(), Refused> {
        let view = self.unlocked_device()?.contact(contact).ok_or_else(Refused::no_contact)?;
        if view.policy.carriers == carriers {
            return Ok(());
        }
        let policy = Policy { carriers: carriers.to_vec(), ..view.policy };
        self.run_command(Command::Policy { contact, policy })
    }
}

/// Converts a change for the interface.
fn describe_change(change: &Change) -> json::ChangeJson {
    let (what, number, names) = match &change.what {
        What::Timer(s) => (json::ChangeWhat::Timer, Some(*s), Vec::new()),
        What::Carriers(list) => {
            let names = list.iter().map(|carrier| carrier.name().into()).collect();
            (json::ChangeWhat::Carriers, None, names)
        }
        What::Fallback(listed) => {
            (json::ChangeWhat::Fallback, Some(u32::from(*listed)), Vec::new())
        }
        What::Level(level) => (json::ChangeWhat::Level, Some(u32::from(*level)), Vec::new()),
        What::Name(name) => (json::ChangeWhat::Name, None, vec![name.clone()]),
        What::Life(life) => {
            let names = life.iter().map(|life| words::mesh::name_life(*life).into()).collect();
            (json::ChangeWhat::Life, None, names)
        }
    };
    json::ChangeJson { at_ms: change.at.as_ms(), own: change.own, what, number, names }
}

fn describe_contact(device: &Device<AwsLc>, view: &ContactView, now: Time) -> json::ContactJson {
    let last = view.last.and_then(|id| device.note(id, now));
    views::describe_contact(view, last.map(|last| views::describe_note(&last)))
}

/// Converts an event for the interface.
pub(crate) fn describe_event(device: &Device<AwsLc>, event: Event, now: Time) -> json::EventJson {
    let told = |kind, id: ContactId| json::EventJson {
        contact: Some(id.0.to_string()),
        ..event_log::plain_event(kind)
    };
    let whole = |kind, id, n| json::EventJson {
        note: device.note(n, now).map(|view| views::describe_note(&view)),
        ..told(kind, id)
    };
    let text = |kind, id, text: &str| json::EventJson { text: Some(text.into()), ..told(kind, id) };
    match event {
        Event::Note(id, n) => whole(EventKind::Note, id, n),
        Event::State(id, n) => whole(EventKind::State, id, n),
        Event::Gone(id, n) => text(EventKind::Gone, id, &n.0.to_string()),
        Event::Contact(id) => told(EventKind::Contact, id),
        Event::ContactGone(id) => told(EventKind::ContactGone, id),
        Event::Request(id) => told(EventKind::Request, id),
        Event::Anew(id, cause) => text(EventKind::Anew, id, words::cause_words(cause)),
        Event::Trouble(id, trouble) => {
            let name = device.contact(id).map(|contact| contact.name).unwrap_or_default();
            text(EventKind::Trouble, id, &words::trouble_words(trouble, &name))
        }
        Event::Carrier(carrier) => json::EventJson {
            text: Some(carrier.name().into()),
            ..event_log::plain_event(EventKind::Carrier)
        },
        Event::Card => event_log::plain_event(EventKind::Card),
        Event::Low => event_log::plain_event(EventKind::Low),
    }
}
