//! Contacts whose address changed: by a mailbox that they name, or by the relay on a newer card.

use alloc::vec::Vec;

use mezza_core::Backend;

use super::Relay;
use super::requests::Request;
use crate::card::RelayEntry;
use crate::io::{ContactFacts, Ctx, Effects, LostPlace, News, RelayConnectionId};
use crate::note::Item;
use crate::relay_wire::MailboxAddress;

impl<B: Backend> Relay<B> {
    /// Handles the mailbox that a contact names in a hello.
    pub(super) fn on_mailbox_named(
        &mut self,
        from: &ContactFacts<'_>,
        items: &[Item],
        ctx: &mut Ctx<'_>,
    ) {
        // Of several hellos in one note the last one counts.
        let place = items.iter().rev().find_map(|item| match item {
            Item::Hello { slot, .. } => slot.clone(),
            _ => None,
        });
        if let Some(place) = place {
            self.update_peer(from.id, ctx.effects, |peer| peer.theirs = Some(place));
            self.reached_elsewhere(from);
        }
    }

    /// Handles a new card of a contact. A relay with the same key at another host or port is the
    /// same relay with the same mailboxes. A different relay is used at once if the user entered
    /// the card, because a message about the move might only reach the old relay.
    pub(super) fn follow_card(
        &mut self,
        to: &ContactFacts<'_>,
        by_hand: bool,
        effects: &mut Effects,
    ) {
        let (Some(relay), Some(theirs)) = (to.card.relays().first(), self.remote_mailbox(to.id))
        else {
            return;
        };
        if theirs.relay.shares_connection(relay) {
            return;
        }
        if theirs.relay.key == relay.key {
            let place = RelayEntry { address: theirs.relay.address, ..relay.clone() };
            self.update_peer(to.id, effects, |peer| {
                peer.theirs.iter_mut().for_each(|theirs| theirs.relay = place.clone());
            });
        } else if by_hand {
            self.update_peer(to.id, effects, |peer| peer.theirs = None);
            self.news.push_back(News::Lost { contact: to.id, place: LostPlace::Current });
        }
    }

    /// Handles a new address of a contact. Parcels on their way to the old mailbox go to the new
    /// one, as the same bytes in another envelope. A relay that no contact uses any more is left at
    /// once. A contact that names another relay with every note thus keeps only one connection
    /// open.
    pub(super) fn reached_elsewhere(&mut self, to: &ContactFacts<'_>) {
        let theirs = self.remote_mailbox(to.id).map(|theirs| theirs.relay.clone());
        let intro = to.card.relays().first().cloned();
        let same =
            |relay: Option<&RelayEntry>, connection: RelayConnectionId, address: MailboxAddress| {
                relay.is_some_and(|relay| {
                    relay.connection_id() == connection && relay.address == address
                })
            };
        let stray = |connection, request: &Request| match request {
            Request::Put { contact, to: address, intro: first, .. } if *contact == to.id => {
                // A parcel to an address that is still valid must not be sent twice.
                let now = if *first { intro.as_ref() } else { theirs.as_ref() };
                !same(now, connection, *address)
            }
            _ => false,
        };
        let strays = self.requests.take_where(stray);
        self.return_parcels(strays);
        let kept = [&theirs, &intro].into_iter().flatten().map(RelayEntry::connection_id);
        for relay in self.connections.keep_only(to.id, &kept.collect::<Vec<_>>()) {
            self.leave_relay(&relay);
        }
    }
}
