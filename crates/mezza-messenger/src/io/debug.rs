//! `Debug` of inputs and outputs for logs: names, numbers and sizes, no texts and no keys.

use core::fmt;

use super::{Command, Input, Output};

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add { .. } => "Add",
            Self::Send { .. } => "Send",
            Self::Cancel { .. } => "Cancel",
            Self::Forget { .. } => "Forget",
            Self::SendAgain { .. } => "SendAgain",
            Self::LowerLevel { .. } => "LowerLevel",
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
            Self::CorrectDate(_) => "CorrectDate",
            Self::Restored => "Restored",
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
            Self::Stored(carrier, number) => write!(f, "Stored({}, {number})", carrier.name()),
        }
    }
}

impl<C: fmt::Debug> fmt::Debug for Output<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(batch) => write!(f, "{batch:?}"),
            Self::Carrier(output) => write!(f, "{output:?}"),
            Self::Durable(carrier, number) => write!(f, "Durable({}, {number})", carrier.name()),
            Self::Notify(event) => write!(f, "{event:?}"),
        }
    }
}
