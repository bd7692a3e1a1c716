//! Why something was refused. What depends on a secret has one form only: not for me, which is an
//! answer and no error.

use mezza_core::DecodeError;

use crate::shape::Epoch;

/// Why bytes are no card block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardBlockError {
    /// It has not as many bytes as its suite needs.
    #[error("card has {bytes} bytes, suite 1 needs {expected}")]
    Length {
        /// Bytes there are.
        bytes: usize,
        /// Bytes there must be.
        expected: usize,
    },
    /// A suite that is unknown, or experimental and not asked for (HIBE-72).
    #[error("the suite of this card is not known")]
    Suite,
    /// A tree that is unknown, or for tests and not asked for.
    #[error("the tree of this card is not known")]
    Tree,
    /// An epoch is neither 1 nor 5 nor 60 ticks.
    #[error("the length of an epoch in this card is not 1, 5 or 60 ticks")]
    Profile,
    /// The origin is no multiple of the epoch, or the life ends behind the last tick.
    #[error("the first tick of this card is not one that a card can have")]
    Origin,
    /// A point is not canonical, infinite, off the curve or outside the subgroup; its place from 0.
    #[error("point {0} of this card is not a point of G1")]
    Point(usize),
}

/// Why nothing was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncapsulateError {
    /// The card, or the epoch of the key, begins later.
    #[error("it begins later")]
    NotYet,
    /// The life of the card, or the epoch of the key, is over.
    #[error("it is over")]
    Over,
    /// The card has no keys of that life.
    #[error("this card has no keys of that life")]
    NoLife,
    /// The payload does not fit into the largest bucket.
    #[error("the payload is longer than 3,830 bytes")]
    TooLong,
}

/// Why a tree does not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The keys of that epoch are erased.
    #[error("the keys of that epoch are erased")]
    Erased,
    /// The life of the tree ends before.
    #[error("the life of this tree ends before")]
    Over,
    /// The tree begins later.
    #[error("this tree begins later")]
    NotYet,
    /// There is no node left from which this could be derived.
    #[error("the node above that epoch is expanded already")]
    Leaf,
    /// The tree has no keys of that life.
    #[error("this tree has no keys of that life")]
    NoLife,
    /// A record holds bytes that are no key, although its seal was right.
    #[error("a record of this tree holds no key")]
    Damaged,
}

/// Why a stored tree does not load. Nothing is repaired by guessing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The bytes of the keyring are none.
    #[error("the keyring is damaged")]
    Keyring(#[from] DecodeError),
    /// The keyring belongs to a tree of another card.
    #[error("the keyring belongs to another card")]
    Card,
    /// The keyring is older than one that was stored before (HIBE-31).
    #[error("the keyring is older than one that was stored before")]
    Older,
    /// No record for this entry of the keyring.
    #[error("record {} is missing", .0.0)]
    Missing(Epoch),
    /// The record of this entry does not open under its key.
    #[error("record {} is damaged", .0.0)]
    Unsealed(Epoch),
    /// The entries do not cover every epoch from the floor to the last one.
    #[error("the keyring has a gap")]
    Gap,
}
