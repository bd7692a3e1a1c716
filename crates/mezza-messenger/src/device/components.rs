//! The components of a device, and the facts that carriers may know of a contact.

use mezza_core::{Backend, Time, snapshot};

use super::aside::Aside;
use crate::carriers::Port;
use crate::contacts::Contacts;
use crate::io::{ContactFacts, ContactId};
use crate::outbox::Outbox;
use crate::policy::NoteLife;
use crate::profile::Profile;
use crate::sessions::Sessions;
use crate::threads::{StoredNote, Threads};

/// The components of a device. Each of them alone changes its fields. Methods of this type only
/// read them, and changes are made by a [`Turn`](super::Turn).
pub(crate) struct Components<P: Port> {
    pub profile: Profile,
    pub contacts: Contacts,
    pub threads: Threads,
    pub sessions: Sessions<P::Backend>,
    pub outbox: Outbox,
    pub carriers: P,
    pub aside: Aside,
    /// Time of the last wake.
    pub seen: Time,
}

snapshot!(struct Components<P: Port> {
    profile, contacts, threads, sessions, outbox, carriers, aside, seen,
});

/// Returns the facts of a contact that carriers may know. It borrows single components, so that a
/// carrier can be changed meanwhile.
pub(super) fn collect_facts<'a, B: Backend>(
    contacts: &'a Contacts,
    profile: &'a Profile,
    sessions: &Sessions<B>,
    outbox: &Outbox,
    id: ContactId,
) -> Option<ContactFacts<'a>> {
    let contact = contacts.get(id)?;
    Some(ContactFacts {
        id,
        card: &contact.card,
        own: profile.card(),
        is_ours: contact.is_ours(),
        is_open: contact.is_open(),
        invited: outbox.has_invitation_to(id),
        trouble: contact.trouble,
        session: sessions.session_facts(id),
    })
}

impl<P: Port> Components<P> {
    /// Creates the components of a device without contacts.
    pub fn new(profile: Profile, carriers: P) -> Self {
        Self {
            contacts: Contacts::default(),
            threads: Threads::default(),
            sessions: Sessions::new(profile.identity()),
            outbox: Outbox::default(),
            aside: Aside::default(),
            seen: Time::default(),
            profile,
            carriers,
        }
    }

    /// Returns the facts of a contact that carriers may know.
    pub fn contact_facts(&self, id: ContactId) -> Option<ContactFacts<'_>> {
        collect_facts(&self.contacts, &self.profile, &self.sessions, &self.outbox, id)
    }

    /// Returns the life with which a note leaves: its own, or that of the conversation (MSG-150).
    pub fn note_life(&self, note: &StoredNote) -> Option<NoteLife> {
        note.life.or(self.contacts.get(note.contact)?.policy.life)
    }

    /// Returns the facts of a contact that carriers may know, together with the carriers.
    pub fn facts_for_carriers(&mut self, id: ContactId) -> Option<(ContactFacts<'_>, &mut P)> {
        let Self { profile, contacts, sessions, outbox, carriers, .. } = self;
        Some((collect_facts(contacts, profile, sessions, outbox, id)?, carriers))
    }
}
