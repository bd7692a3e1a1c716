//! The variants of the thesis, their firewalls and groups by name, for the command line and all
//! parts of the lab that measure reverse firewalls.

use anyhow::{Result, bail};
use mezza::testing::api::{Exit, Fault};
use mezza_guard::firewall::{
    AnyFirewall, CommittingFirewall, DhFirewall, ReMaulFirewall, RerandFirewall,
};
use mezza_guard::{Group, Ristretto};

use crate::modp::{Modp, Profile};
use crate::thesis::curve::FullCurve;
use crate::thesis::weak::{BasicFirewall, MaulFirewall};

/// A protocol between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Diffie-Hellman.
    Dh,
    /// Diffie-Hellman with a commitment of the initiator.
    DhComm,
    /// One El-Gamal ciphertext.
    Eg,
}

/// The direction of a message, from the initiator's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the initiator to the wire.
    Out,
    /// From the wire to the initiator.
    In,
}

impl Variant {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Dh, Self::DhComm, Self::Eg];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dh => "dh",
            Self::DhComm => "dh-comm",
            Self::Eg => "eg",
        }
    }

    /// Returns the messages of one handshake, in order.
    pub const fn script(self) -> &'static [Way] {
        match self {
            Self::Dh => &[Way::Out, Way::In],
            Self::DhComm => &[Way::Out, Way::In, Way::Out],
            Self::Eg => &[Way::In, Way::Out],
        }
    }

    /// Returns the firewalls of the initiator, `none` first.
    pub const fn firewalls(self) -> &'static [&'static str] {
        match self {
            Self::Dh => &["none", "fw"],
            Self::DhComm => &["none", "basic", "full"],
            Self::Eg => &["none", "rerand", "maul", "remaul"],
        }
    }

    /// Returns the firewall that closes every element.
    pub const fn right_firewall(self) -> &'static str {
        match self {
            Self::Dh => "fw",
            Self::DhComm => "full",
            Self::Eg => "remaul",
        }
    }

    /// Returns the variant of this name.
    ///
    /// # Errors
    /// If there is none; the text lists the names.
    pub fn find_named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|variant| variant.name() == name);
        found.ok_or_else(|| unknown_name("variant", name, &Self::ALL.map(Self::name)))
    }
}

/// Makes a firewall of a variant by name; `None` for the name `none`.
///
/// # Errors
/// If there is none of this name; the text lists the names.
pub fn make_firewall<G: Group + 'static>(
    variant: Variant,
    name: &str,
    group: &G,
) -> Result<Option<AnyFirewall<G>>> {
    let group = group.clone();
    let firewall: AnyFirewall<G> = match (variant, name) {
        (_, "none") => return Ok(None),
        (Variant::Dh, "fw") => Box::new(DhFirewall::new(group)),
        (Variant::DhComm, "basic") => Box::new(BasicFirewall::new(group)),
        (Variant::DhComm, "full") => Box::new(CommittingFirewall::new(group)),
        (Variant::Eg, "rerand") => Box::new(RerandFirewall::new(group)),
        (Variant::Eg, "maul") => Box::new(MaulFirewall::new(group)),
        (Variant::Eg, "remaul") => Box::new(ReMaulFirewall::new(group)),
        _ => {
            let what = format!("firewall of {}", variant.name());
            return Err(unknown_name(&what, name, variant.firewalls()));
        }
    };
    Ok(Some(firewall))
}

/// A task over a group that is chosen by name at run time.
pub trait GroupTask {
    /// The result of the task.
    type Given;
    /// Runs the task.
    ///
    /// # Errors
    /// The error of the task.
    fn run_with<G: Group + 'static>(self, group: G) -> Result<Self::Given>;
}

/// The names of the groups.
pub const GROUPS: [&str; 4] = ["ristretto255", "modp3072", "modp3072-thesis", "curve25519-full"];

/// Runs a task over the group of this name.
///
/// # Errors
/// If there is no group of this name, or the error of the task.
pub fn with_group<T: GroupTask>(name: &str, task: T) -> Result<T::Given> {
    match name {
        "ristretto255" => task.run_with(Ristretto::new()),
        "modp3072" => task.run_with(Modp::new(Profile::Safe, true)),
        "modp3072-thesis" => task.run_with(Modp::new(Profile::Thesis, true)),
        "curve25519-full" => task.run_with(FullCurve::new()),
        _ => Err(unknown_name("group", name, &GROUPS)),
    }
}

/// Makes the error of an unknown name, which lists the known names.
pub fn unknown_name(what: &str, name: &str, there_are: &[&str]) -> anyhow::Error {
    let text = format!("there is no {what} {name}");
    Fault::new(Exit::Usage, text, format!("there are: {}", there_are.join(", "))).into()
}

/// Refuses a firewall that the variant does not have.
///
/// # Errors
/// If the variant does not have it; the text lists the names.
pub fn check_firewall(variant: Variant, name: &str) -> Result<()> {
    if variant.firewalls().contains(&name) {
        return Ok(());
    }
    let what = format!("firewall of {}", variant.name());
    bail!(unknown_name(&what, name, variant.firewalls()))
}
