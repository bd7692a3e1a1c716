//! Incoming traffic, in three stages (messenger 5.5).
//!
//! ```text
//! Arrival -> Message -> 1. classify_sender -> Sender
//!                       2. open_message    -> Content | Outcome
//!                       3. apply_content   -> Outcome
//!         -> finish_arrival: counts the outcome, and decides whether the carrier may delete the arrival
//! ```
//!
//! The sender is classified first, because a message is opened with the keys of its sender, and the
//! message of an unknown sender uses up a prekey.

mod content;
mod message;
mod open;
mod sender;

use super::Turn;
use crate::carriers::Port;
use crate::io::{Arrival, By, CarrierId};

/// The outcome of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The content was applied.
    Applied,
    /// The message has no effect: its contact is blocked, or it is an invitation without room.
    Ignored,
    /// No session opened the message, or it was opened before. The sessions count failures.
    Unopened,
    /// The parcel is malformed or was withdrawn by its writer, or it is a knock that is not
    /// accepted.
    Rejected,
    /// A first message names no writer, or this device itself.
    Unnamed,
    /// The message opened, and its note is malformed or lacks the card of its writer.
    Malformed,
    /// A first message of an unknown sender opened without the card of its writer. Its prekeys are
    /// used up, and its session belongs to no contact.
    Nameless,
    /// There is no room for another unknown sender.
    NoRoom,
}

impl<P: Port> Turn<'_, P> {
    /// Handles a parcel that a carrier delivered.
    pub(super) fn receive_parcel(&mut self, arrival: &Arrival) {
        let by = By { carrier: arrival.carrier, level: arrival.level };
        let outcome = match self.device.read_message(arrival) {
            Some(message) => {
                let sender = self.device.classify_sender(&message, by.carrier, self.ctx.now);
                match self.open_message(message, sender, by) {
                    Ok(content) => self.apply_content(content, by),
                    Err(outcome) => outcome,
                }
            }
            None => Outcome::Rejected,
        };
        self.finish_arrival(arrival, outcome);
    }

    /// Counts the outcome of an arrival. The carrier may delete the arrival, unless there was no
    /// room.
    fn finish_arrival(&mut self, arrival: &Arrival, outcome: Outcome) {
        self.count_outcome(outcome, arrival.carrier);
        // The mail of an unknown sender stays at the relay until there is room (MSG-35).
        if outcome == Outcome::NoRoom {
            return;
        }
        if let Some(ack) = arrival.ack
            && let Some(one) = self.device.carriers.carrier_mut(ack.carrier)
        {
            one.acknowledge_arrival(ack);
        }
    }

    /// Counts an outcome at the component that reports it.
    fn count_outcome(&mut self, outcome: Outcome, carrier: CarrierId) {
        match outcome {
            Outcome::Applied | Outcome::Ignored | Outcome::Unopened | Outcome::NoRoom => {}
            Outcome::Rejected => {
                if let Some(one) = self.device.carriers.carrier_mut(carrier) {
                    one.count_rejected();
                }
            }
            Outcome::Unnamed => self.device.sessions.count_rejected(),
            Outcome::Malformed => self.device.threads.count_malformed(),
            Outcome::Nameless => {
                self.device.sessions.count_nameless(self.ctx.now);
                self.device.threads.count_malformed();
            }
        }
    }
}
