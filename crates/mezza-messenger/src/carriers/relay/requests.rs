//! What was asked of relays and is not answered.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::Writer;

use crate::io::{ContactId, FetchPurpose, MailboxId, ParcelId, RelayConnectionId, RequestId};
use crate::relay_wire::MailboxAddress;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A parcel for a mailbox of a contact; `intro`: for that where strangers write.
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

/// The requests in flight, each with the connection that it is on.
pub(crate) struct Requests {
    all: BTreeMap<RequestId, (RelayConnectionId, Request)>,
    next: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self { all: BTreeMap::new(), next: 1 }
    }
}

impl Requests {
    /// A request goes out.
    pub fn ask(&mut self, connection: RelayConnectionId, request: Request) -> RequestId {
        let ticket = RequestId(self.next);
        self.next += 1;
        self.all.insert(ticket, (connection, request));
        ticket
    }

    /// One of them.
    pub fn get(&self, ticket: RequestId) -> Option<Request> {
        self.all.get(&ticket).map(|(_, request)| *request)
    }

    /// It was answered.
    pub fn take(&mut self, ticket: RequestId) -> Option<(RelayConnectionId, Request)> {
        self.all.remove(&ticket)
    }

    /// Whether the same is out already.
    pub fn holds(&self, request: Request) -> bool {
        self.all.values().any(|(_, other)| *other == request)
    }

    /// An answer to these means nothing any more; they come back.
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

    /// The requests, as bytes.
    pub fn snapshot(&self, w: &mut Writer) {
        w.u64(self.next);
        for (ticket, (connection, request)) in &self.all {
            let (kind, of) = match request {
                Request::Put { parcel, .. } => (1, parcel.0),
                Request::Open(mailbox) => (2, u64::from(mailbox.0)),
                Request::Close(mailbox) => (3, u64::from(mailbox.0)),
                Request::Watch(mailbox) => (4, u64::from(mailbox.0)),
                Request::Publish => (5, 0),
                Request::Fetch(contact, FetchPurpose::Begin) => (6, u64::from(contact.0)),
                Request::Fetch(contact, FetchPurpose::Hold) => (7, u64::from(contact.0)),
            };
            w.u64(ticket.0).bytes(&connection.0).u8(kind).u64(of);
        }
    }
}
