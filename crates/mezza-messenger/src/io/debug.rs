//! Inputs and outputs as logs may show them: names, numbers and sizes, no texts and no keys.

use core::fmt;

use super::{Command, Input, Output};
use crate::carriers::mixnet::MixnetInput;
use crate::carriers::relay::{RelayInput, RelayOutput};
use crate::carriers::{CarrierInput, CarrierOutput};

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add { .. } => "Add",
            Self::Send { .. } => "Send",
            Self::Cancel { .. } => "Cancel",
            Self::Forget { .. } => "Forget",
            Self::Seen { .. } => "Seen",
            Self::Accept { .. } => "Accept",
            Self::Refuse { .. } => "Refuse",
            Self::Rename { .. } => "Rename",
            Self::Verify { .. } => "Verify",
            Self::Policy { .. } => "Policy",
            Self::Block { .. } => "Block",
            Self::Delete { .. } => "Delete",
            Self::Publish { .. } => "Publish",
            Self::Reset { .. } => "Reset",
            Self::Rotate => "Rotate",
            Self::Refill => "Refill",
        })
    }
}

impl<C: fmt::Debug> fmt::Debug for Input<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "Command({command:?})"),
            Self::Carrier(input) => write!(f, "{input:?}"),
        }
    }
}

impl fmt::Debug for CarrierInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(input) => write!(f, "{input:?}"),
            Self::Mixnet(input) => write!(f, "{input:?}"),
        }
    }
}

impl fmt::Debug for RelayInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mail { envelope, .. } => write!(f, "Mail({} bytes)", envelope.len()),
            Self::Up { .. } => f.write_str("Up"),
            Self::Down { .. } => f.write_str("Down"),
            Self::Done { ticket } => write!(f, "Done({})", ticket.0),
            Self::Refused { ticket, code, .. } => write!(f, "Refused({}, {code})", ticket.0),
            Self::Bundle { ticket, .. } => write!(f, "Bundle({})", ticket.0),
            Self::Stock { left, .. } => write!(f, "Stock({left})"),
        }
    }
}

impl fmt::Debug for MixnetInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join(_) => f.write_str("Join"),
            Self::AskWho(contact) => write!(f, "AskWho({})", contact.0),
            Self::Up { trusted } => write!(f, "Up({trusted})"),
            Self::Down => f.write_str("Down"),
            Self::Frame(frame) => write!(f, "{frame:?}"),
            Self::Done(job, _) => write!(f, "Done({job:?})"),
            Self::Lost(round) => write!(f, "Lost({round:?})"),
            Self::Stored(seq) => write!(f, "Stored({seq})"),
        }
    }
}

impl<C: fmt::Debug> fmt::Debug for Output<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(batch) => write!(f, "{batch:?}"),
            Self::Carrier(output) => write!(f, "{output:?}"),
            Self::Notify(event) => write!(f, "{event:?}"),
        }
    }
}

impl fmt::Debug for CarrierOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(output) => write!(f, "{output:?}"),
            Self::Mixnet(output) => write!(f, "{output:?}"),
        }
    }
}

impl fmt::Debug for RelayOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { .. } => f.write_str("Connect"),
            Self::Disconnect { .. } => f.write_str("Disconnect"),
            Self::Put { ticket, envelope, .. } => {
                write!(f, "Put({}, {} bytes)", ticket.0, envelope.len())
            }
            Self::Open { ticket, .. } => write!(f, "Open({})", ticket.0),
            Self::Close { ticket, .. } => write!(f, "Close({})", ticket.0),
            Self::Watch { ticket, .. } => write!(f, "Watch({})", ticket.0),
            Self::Publish { ticket, .. } => write!(f, "Publish({})", ticket.0),
            Self::Fetch { ticket, .. } => write!(f, "Fetch({})", ticket.0),
            Self::Acknowledge { .. } => f.write_str("Acknowledge"),
        }
    }
}
