//! Unanswered requests to relays.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::snapshot;

use crate::io::{ContactId, FetchPurpose, MailboxId, ParcelId, RelayConnectionId, RequestId};
use crate::relay_wire::MailboxAddress;

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A parcel for a mailbox of a contact; `intro` is true for its intro mailbox.
    Put {
        parcel: ParcelId,
        contact: ContactId,
        to: MailboxAddress,
        intro: bool,
    },
    Open(MailboxId),
    Close(MailboxId),
    Watch(MailboxId),
    Publish,
    Fetch(ContactId, FetchPurpose),
}

snapshot!(enum Request [
    Put { parcel, contact, to, intro }, Open(a), Close(a), Watch(a), Publish, Fetch(a, b),
]);

/// The requests in flight, each with its connection.
pub(crate) struct Requests {
    all: BTreeMap<RequestId, (RelayConnectionId, Request)>,
    next: u64,
}

snapshot!(struct Requests { all, next });

impl Default for Requests {
    fn default() -> Self {
        Self { all: BTreeMap::new(), next: 1 }
    }
}

impl Requests {
    /// Registers a request and returns its ticket.
    pub fn issue_ticket(&mut self, connection: RelayConnectionId, request: Request) -> RequestId {
        let ticket = RequestId(self.next);
        self.next += 1;
        self.all.insert(ticket, (connection, request));
        ticket
    }

    /// Returns one request, or `None` if the ticket is unknown.
    pub fn get(&self, ticket: RequestId) -> Option<Request> {
        self.all.get(&ticket).map(|(_, request)| *request)
    }

    /// Removes an answered request.
    pub fn take(&mut self, ticket: RequestId) -> Option<(RelayConnectionId, Request)> {
        self.all.remove(&ticket)
    }

    /// Returns true if an equal request is in flight.
    pub fn is_in_flight(&self, request: Request) -> bool {
        self.all.values().any(|(_, other)| *other == request)
    }

    /// Removes and returns the requests that match `which`; later answers to them are ignored.
    pub fn take_where(
        &mut self,
        which: impl Fn(RelayConnectionId, &Request) -> bool,
    ) -> Vec<(RequestId, RelayConnectionId, Request)> {
        let mut gone = Vec::new();
        self.all.retain(|ticket, (connection, request)| {
            let stays = !which(*connection, request);
            if !stays {
                gone.push((*ticket, *connection, *request));
            }
            stays
        });
        gone
    }
}
