//! Requests in flight on one connection: requests by their number, mailboxes and mail by theirs.
//!
//! Pure bookkeeping: orders become frames, frames become inputs. A new connection starts with an
//! empty table, so that nothing of an older connection can be confirmed or TAKEN by mistake
//! (RELAY-5).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use mezza_core::PublicKey;
use mezza_messenger::relay_wire::{ClientFrame, DoneCode, RawOneTimePrekey, RelayFrame};
use mezza_messenger::{MailboxId, RelayConnectionId, RelayInput, RelayOutput, RequestId};
use mezza_ratchet::OneTimePrekey;

/// Maximum number of requests in flight on one connection; the device has far fewer.
const REQUESTS_MAX: usize = 8_192;
/// Maximum number of mails passed to the device and not TAKEN yet; the relay's own limit is 64 per
/// box.
const MAILS_MAX: usize = 131_072;

/// One of the two connections to a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RelayChannel {
    /// Our own mailboxes.
    Control,
    /// Requests for mailboxes of others.
    Put,
}

/// Bookkeeping of one connection.
pub(super) struct InFlight {
    connection: RelayConnectionId,
    next_req: u16,
    tickets: BTreeMap<(RelayChannel, u16), RequestId>,
    next_box: u16,
    boxes: BTreeMap<u16, MailboxId>,
    mails: BTreeMap<u64, (u16, u32)>,
}

/// Mail numbers are unique in the process, so that a late `Take` of an older connection matches no
/// mail.
static NEXT_MAIL: AtomicU64 = AtomicU64::new(1);

impl InFlight {
    /// Makes an empty table.
    pub(super) fn new(connection: RelayConnectionId) -> Self {
        let tickets = BTreeMap::new();
        let boxes = BTreeMap::new();
        let mails = BTreeMap::new();
        Self { connection, next_req: 1, tickets, next_box: 1, boxes, mails }
    }

    /// Translates an order into a frame and its channel. Returns `None` if the order does not apply
    /// to this connection.
    pub(super) fn send_off(&mut self, order: RelayOutput) -> Option<(RelayChannel, ClientFrame)> {
        let frame = match order {
            RelayOutput::Put { ticket, address, ttl_h, envelope: bytes, .. } => {
                let req = self.next_request(RelayChannel::Put, ticket)?;
                return Some((
                    RelayChannel::Put,
                    ClientFrame::Put { req, address, ttl_h, envelope: bytes },
                ));
            }
            RelayOutput::Fetch { ticket, address, .. } => {
                let req = self.next_request(RelayChannel::Put, ticket)?;
                return Some((RelayChannel::Put, ClientFrame::BundleGet { req, address }));
            }
            RelayOutput::Open { ticket, token, kind, .. } => ClientFrame::Open {
                req: self.next_request(RelayChannel::Control, ticket)?,
                token,
                kind,
            },
            RelayOutput::Close { ticket, token, .. } => {
                ClientFrame::Close { req: self.next_request(RelayChannel::Control, ticket)?, token }
            }
            RelayOutput::Watch { ticket, mailbox: slot, token, .. } => {
                let req = self.next_request(RelayChannel::Control, ticket)?;
                ClientFrame::Watch { req, number: self.number_mailbox(slot)?, token }
            }
            RelayOutput::Publish { ticket, token, bundle, one_time, replace, .. } => {
                let req = self.next_request(RelayChannel::Control, ticket)?;
                let keys =
                    one_time.iter().map(|key| RawOneTimePrekey { id: key.id, key: key.key.0 });
                ClientFrame::BundleSet { req, token, fresh: replace, bundle, keys: keys.collect() }
            }
            RelayOutput::Acknowledge { mail, .. } => {
                let (number, nr) = self.mails.remove(&mail)?;
                ClientFrame::Taken { number, mails: vec![nr] }
            }
            RelayOutput::Connect { .. } | RelayOutput::Disconnect { .. } => return None,
        };
        Some((RelayChannel::Control, frame))
    }

    /// Translates a frame of the relay into an input of the device.
    pub(super) fn take_in(&mut self, way: RelayChannel, frame: RelayFrame) -> Option<RelayInput> {
        match frame {
            RelayFrame::Done { req, code, retry_s } => {
                let ticket = self.tickets.remove(&(way, req))?;
                Some(match code {
                    DoneCode::Done => RelayInput::Done { ticket },
                    code => RelayInput::Refused { ticket, code: code as u8, retry_s },
                })
            }
            RelayFrame::Bundle { req, bundle, key } => {
                let ticket = self.tickets.remove(&(way, req))?;
                let one_time = key.map(|key| OneTimePrekey { id: key.id, key: PublicKey(key.key) });
                Some(RelayInput::Bundle { ticket, bytes: bundle, one_time })
            }
            RelayFrame::Mail { number, nr, envelope } => {
                let slot = *self.boxes.get(&number)?;
                if self.mails.len() >= MAILS_MAX {
                    return None;
                }
                let mail = NEXT_MAIL.fetch_add(1, Ordering::Relaxed);
                self.mails.insert(mail, (number, nr));
                Some(RelayInput::Mail { mailbox: slot, mail, envelope })
            }
            RelayFrame::Displaced { number, over } => {
                Some(RelayInput::Displaced { mailbox: *self.boxes.get(&number)?, over })
            }
            RelayFrame::Stock { left, .. } => {
                Some(RelayInput::Stock { connection: self.connection, left })
            }
            RelayFrame::Hello { .. } | RelayFrame::Ping => None,
        }
    }

    /// Returns a free request number, 1 or above, or `None` if too many requests are in flight.
    fn next_request(&mut self, way: RelayChannel, ticket: RequestId) -> Option<u16> {
        if self.tickets.len() >= REQUESTS_MAX {
            return None;
        }
        while self.next_req == 0 || self.tickets.contains_key(&(way, self.next_req)) {
            self.next_req = self.next_req.wrapping_add(1);
        }
        let req = self.next_req;
        self.next_req = self.next_req.wrapping_add(1);
        self.tickets.insert((way, req), ticket);
        Some(req)
    }

    /// Returns the number of a mailbox on this connection, or the one it already has.
    fn number_mailbox(&mut self, slot: MailboxId) -> Option<u16> {
        if let Some((number, _)) = self.boxes.iter().find(|(_, at)| **at == slot) {
            return Some(*number);
        }
        let number = self.next_box;
        self.next_box = number.checked_add(1)?;
        self.boxes.insert(number, slot);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_core::Secret;
    use mezza_messenger::relay_wire::MailboxAddress;

    const LINE: RelayConnectionId = RelayConnectionId([0; 16]);

    fn carry(ticket: u64) -> RelayOutput {
        let connection = LINE;
        let address = MailboxAddress([0; 16]);
        RelayOutput::Put {
            ticket: RequestId(ticket),
            connection,
            address,
            ttl_h: 720,
            envelope: vec![0; 512],
        }
    }

    fn done(req: u16, code: DoneCode) -> RelayFrame {
        RelayFrame::Done { req, code, retry_s: 0 }
    }

    #[test]
    fn answers_find_their_tickets_once() {
        let mut flight = InFlight::new(LINE);
        let (way, frame) = flight.send_off(carry(7)).unwrap();
        let ClientFrame::Put { req, .. } = frame else { panic!("not a PUT") };
        assert_eq!((way, req), (RelayChannel::Put, 1));
        assert!(flight.take_in(RelayChannel::Control, done(1, DoneCode::Done)).is_none());
        let input = flight.take_in(RelayChannel::Put, done(1, DoneCode::Done));
        assert!(matches!(input, Some(RelayInput::Done { ticket: RequestId(7) })));
        assert!(flight.take_in(RelayChannel::Put, done(1, DoneCode::Done)).is_none());
    }

    #[test]
    fn mail_is_taken_once_and_only_from_this_line() {
        let mut flight = InFlight::new(LINE);
        let watch = || RelayOutput::Watch {
            ticket: RequestId(1),
            mailbox: MailboxId(5),
            connection: LINE,
            token: Secret::init_with(|_| {}),
        };
        assert!(flight.send_off(watch()).is_some());
        let mail = RelayFrame::Mail { number: 1, nr: 9, envelope: vec![1; 512] };
        let Some(RelayInput::Mail { mailbox: slot, mail, .. }) =
            flight.take_in(RelayChannel::Control, mail)
        else {
            panic!("no mail")
        };
        let take = || RelayOutput::Acknowledge { mailbox: slot, mail };
        assert!(InFlight::new(LINE).send_off(take()).is_none());
        let taken = flight.send_off(take());
        assert!(
            matches!(taken, Some((RelayChannel::Control, ClientFrame::Taken { number: 1, mails })) if mails == [9])
        );
        assert!(flight.send_off(take()).is_none());
        let foreign = RelayFrame::Mail { number: 2, nr: 1, envelope: vec![] };
        assert!(flight.take_in(RelayChannel::Control, foreign).is_none());
    }

    #[test]
    fn request_numbers_wrap_around_what_is_in_flight() {
        let mut flight = InFlight::new(LINE);
        assert!(flight.send_off(carry(0)).is_some());
        flight.next_req = u16::MAX;
        let reqs: Vec<u16> =
            (0..2).map(|n| flight.next_request(RelayChannel::Put, RequestId(n)).unwrap()).collect();
        assert_eq!(reqs, [u16::MAX, 2]);
    }
}
