//! The device of one user as one machine: identity, contact card, contacts, conversations, note
//! states with evidence, persistent outbox, receipts, choice of carrier.
//!
//! A [`Device`] is a [`Machine`](mezza_core::Machine). The program at floor 3 passes commands of
//! the user and answers of the carriers to it. It stores and carries out the device's outputs in
//! the order of [`io`]. The device has no socket, file, clock or random source.
//!
//! | module | noun |
//! |---|---|
//! | [`device`], [`io`] | the machine; what goes in and what comes out |
//! | [`card`], [`uri`] | the contact card, and how it travels as text or QR code |
//! | [`note`], [`receipt`], [`envelope`] | what a person writes, what proves it, what wraps it |
//! | [`evidence`], [`policy`], [`carriers`] | states from facts; the pin; the ways, behind one port |
//! | [`relay_wire`] | frames between a node and a relay |
//! | [`view`], [`backup`] | what the person may look at; what goes into a backup |
#![no_std]

extern crate alloc;

pub mod backup;
pub mod card;
pub mod carriers;
pub mod device;
pub mod envelope;
pub mod error;
pub mod evidence;
pub mod io;
pub mod name;
pub mod note;
pub mod policy;
pub mod receipt;
pub mod relay_wire;
pub mod uri;
pub mod view;

mod contacts;
mod outbox;
mod profile;
mod sessions;
mod threads;

pub use carriers::link::{LinkInput, LinkOutput};
pub use carriers::mesh::{MeshInput, MeshOutput, MeshReport};
pub use carriers::mixnet::{MixnetInput, MixnetOutput};
pub use carriers::relay::{RelayInput, RelayOutput};
pub use carriers::{CarrierInput, CarrierOutput, CarrierSet, Port};
pub use device::{Device, DeviceOver};
pub use error::{CallerError, CarrierError, DeviceError, LoadError, PersonError};
pub use io::{
    CarrierCaps, CarrierId, Command, ContactId, DateStep, Event, MailboxId, NoteId, RecordChange,
    RecordKind, RelayConnectionId, RequestId, Retention, Unread, WriteBatch,
};

/// Inputs of a [`Device`].
pub type Input = io::Input<CarrierInput>;
/// Outputs of a [`Device`].
pub type Output = io::Output<CarrierOutput>;
