//! Inputs and outputs as logs may show them: names, numbers and sizes, no texts and no keys.

use core::fmt;

use super::{Command, Input, Output};

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add { .. } => "Add",
            Self::Send { .. } => "Send",
            Self::Cancel { .. } => "Cancel",
            Self::Forget { .. } => "Forget",
            Self::Seen { .. } => "Seen",
            Self::Accept { .. } => "Accept",
            Self::See { .. } => "See",
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
            Self::Join(_) => "Join",
        })
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "Command({command:?})"),
            Self::Arrived { bytes, .. } => write!(f, "Arrived({} bytes)", bytes.len()),
            Self::Up { .. } => f.write_str("Up"),
            Self::Down { .. } => f.write_str("Down"),
            Self::Handed { ticket } => write!(f, "Handed({})", ticket.0),
            Self::Refused { ticket, code, .. } => write!(f, "Refused({}, {code})", ticket.0),
            Self::Bundle { ticket, .. } => write!(f, "Bundle({})", ticket.0),
            Self::Stock { n, .. } => write!(f, "Stock({n})"),
            Self::Net(input) => write!(f, "{input:?}"),
            Self::Durable(seq) => write!(f, "Durable({seq})"),
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(batch) => write!(f, "{batch:?}"),
            Self::Dial { .. } => f.write_str("Dial"),
            Self::Disconnect { .. } => f.write_str("Disconnect"),
            Self::Put { ticket, bytes, .. } => {
                write!(f, "Put({}, {} bytes)", ticket.0, bytes.len())
            }
            Self::Open { ticket, .. } => write!(f, "Open({})", ticket.0),
            Self::Close { ticket, .. } => write!(f, "Close({})", ticket.0),
            Self::Watch { ticket, .. } => write!(f, "Watch({})", ticket.0),
            Self::Publish { ticket, .. } => write!(f, "Publish({})", ticket.0),
            Self::Fetch { ticket, .. } => write!(f, "Fetch({})", ticket.0),
            Self::Acknowledge { .. } => f.write_str("Acknowledge"),
            Self::Net(output) => write!(f, "{output:?}"),
            Self::Durable(seq) => write!(f, "Durable({seq})"),
            Self::Notify(event) => write!(f, "{event:?}"),
        }
    }
}
