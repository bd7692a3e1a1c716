//! Error types. A failure that depends on a secret is always reported as "not for me", which is a
//! result and not an error.

use mezza_core::DecodeError;

use crate::shape::Epoch;

/// The reason why bytes are not a card block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardBlockError {
    /// The number of bytes is not the one that the suite needs.
    #[error("card has {bytes} bytes, suite 1 needs {expected}")]
    Length {
        /// The actual number of bytes.
        bytes: usize,
        /// The required number of bytes.
        expected: usize,
    },
    /// The suite is unknown, or experimental and not allowed by the caller (HIBE-72).
    #[error("the suite of this card is not known")]
    Suite,
    /// The tree is unknown, or a test tree that the caller does not allow.
    #[error("the tree of this card is not known")]
    Tree,
    /// The length of an epoch is not 1, 5 or 60 ticks.
    #[error("the length of an epoch in this card is not 1, 5 or 60 ticks")]
    Profile,
    /// The origin is not a multiple of the epoch length, or the life of the card ends after the
    /// last tick.
    #[error("the first tick of this card is not one that a card can have")]
    Origin,
    /// A point is not canonical, infinite, off the curve or outside the subgroup. The value is the
    /// index of the point, from 0.
    #[error("point {0} of this card is not a point of G1")]
    Point(usize),
}

/// The reason why nothing was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncapsulateError {
    /// The life of the card, or the epoch of the key, has not begun.
    #[error("it begins later")]
    NotYet,
    /// The life of the card, or the epoch of the key, is over.
    #[error("it is over")]
    Over,
    /// The card has no keys of the requested life.
    #[error("this card has no keys of that life")]
    NoLife,
    /// The payload does not fit in the largest bucket.
    #[error("the payload is longer than 3,830 bytes")]
    TooLong,
}

/// The reason why an operation on a key tree failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The keys of the epoch are erased.
    #[error("the keys of that epoch are erased")]
    Erased,
    /// The life of the tree ends before the epoch.
    #[error("the life of this tree ends before")]
    Over,
    /// The life of the tree begins after the tick.
    #[error("this tree begins later")]
    NotYet,
    /// No node is left from which the key could be derived.
    #[error("the node above that epoch is expanded already")]
    Leaf,
    /// The tree has no keys of the requested life.
    #[error("this tree has no keys of that life")]
    NoLife,
    /// The points of a record are invalid, although its authentication succeeded.
    #[error("a record of this tree holds no key")]
    Damaged,
}

/// The reason why a stored tree was not loaded. Damaged data is never repaired by guessing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The bytes are not a keyring.
    #[error("the keyring is damaged")]
    Keyring(#[from] DecodeError),
    /// The keyring belongs to a tree of another card.
    #[error("the keyring belongs to another card")]
    Card,
    /// The keyring is older than a keyring that was stored later (HIBE-31).
    #[error("the keyring is older than one that was stored before")]
    Older,
    /// There is no record for this entry of the keyring.
    #[error("record {} is missing", .0.0)]
    Missing(Epoch),
    /// The record of this entry cannot be decrypted with its key.
    #[error("record {} is damaged", .0.0)]
    Unsealed(Epoch),
    /// The entries do not cover every epoch from the floor to the last one.
    #[error("the keyring has a gap")]
    Gap,
}
