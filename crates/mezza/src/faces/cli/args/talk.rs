//! `mezza contacts`, `mezza send`, `mezza log` and `mezza outbox`.

use clap::{Args, Subcommand, ValueEnum};
use mezza_host::api::json::MeshLifeJson;

/// `mezza contacts`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ContactsArgs {
    /// Remove one
    #[command(subcommand)]
    pub what: Option<ContactsCommand>,
    /// Name or #number
    pub name: Option<String>,
}

/// Commands for contacts.
#[derive(Subcommand)]
pub enum ContactsCommand {
    /// Remove a contact and the notes of its thread from this device; it is not told
    Remove {
        /// Name or #number
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

impl ContactsArgs {
    /// Returns the contact that the command names.
    pub(crate) fn contact_name(&self) -> Option<&str> {
        match &self.what {
            Some(ContactsCommand::Remove { name, .. }) => Some(name),
            None => self.name.as_deref(),
        }
    }
}

/// `mezza send`.
#[derive(Args)]
pub struct SendArgs {
    /// Name or #number
    pub name: String,
    /// The text; `-` or nothing reads it from standard input. One that begins with a dash stands behind
    /// `--`: mezza send bob -- "-5 degrees"
    pub text: Option<String>,
    /// Only if it leaves by this carrier
    #[arg(long, value_name = "CARRIER")]
    pub carrier: Option<String>,
    /// How long devices of the mesh carry this note, and a thief of their device can open it
    #[arg(long, value_enum, value_name = "LIFE")]
    pub mesh_life: Option<MeshLifeJson>,
    /// Wait until the note is that far
    #[arg(long, value_enum)]
    pub wait: Option<WaitName>,
    /// How long to wait, seconds
    #[arg(long, value_name = "S", default_value_t = 30, requires = "wait")]
    pub timeout: u64,
}

/// How far a note shall be.
#[derive(Clone, Copy, ValueEnum)]
pub enum WaitName {
    /// A carrier took it
    Handed,
    /// It is on their device
    Delivered,
}

/// `mezza outbox`.
#[derive(Subcommand)]
pub enum OutboxCommand {
    /// Give a note up
    Cancel {
        /// The number in the list
        id: u64,
    },
    /// Let a waiting note leave at the lowest level that its conversation allows now
    ///
    /// A note keeps the level of the moment at which you wrote it. First lower that of the conversation:
    /// `mezza set NAME --level-min N`.
    Lower {
        /// The number in the list
        id: u64,
    },
    /// Send a note that a restore has left open: it may have been sent since the backup, or they lost it
    Send {
        /// The number of the note, in this list or as `id` in `mezza log NAME --json`
        id: u64,
    },
}

/// `mezza log`.
#[derive(Args)]
pub struct LogArgs {
    /// Name or #number
    pub name: String,
    /// How many notes
    #[arg(short, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub n: u16,
    /// Only notes older than the one of this number
    #[arg(long, value_name = "ID", conflicts_with = "follow")]
    pub before: Option<u64>,
    /// Leave unread what is unread
    #[arg(long)]
    pub peek: bool,
    /// Go on as notes and states come
    #[arg(short, long)]
    pub follow: bool,
}
