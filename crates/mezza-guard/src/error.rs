//! Errors of bytes and messages. The type shows which party is at fault.

/// Bytes that do not encode a value of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The bytes are not canonical, are outside the group, or encode its identity (GUARD-1).
    #[error("not the canonical form of an element of the group other than its identity")]
    Element,
    /// The scalar is not below the order of the group (GUARD-2).
    #[error("a scalar is not below the order of the group")]
    Scalar,
    /// The message has another kind or size.
    #[error("not a message of this exchange")]
    Message,
}

/// The peer violated the rules of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The bytes do not encode a value of the group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The opening does not match the commitment, or opens it to the identity.
    #[error("the opening does not fit the commitment")]
    Opening,
    /// An element is the identity instead of one of full order.
    #[error("the peer's element is the identity")]
    Identity,
}

/// A firewall refused a message; the firewall is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FirewallError {
    /// The message is out of order in the exchange (GUARD-6).
    #[error("the message does not belong at this place of the exchange")]
    Order,
    /// An element is the identity. All its powers are the identity, so it would pass unchanged.
    #[error("an element is the identity, which no coin changes")]
    Identity,
    /// The opening does not match the commitment that was sent (GUARD-7).
    #[error("the opening does not fit the commitment that went out")]
    Opening,
}
