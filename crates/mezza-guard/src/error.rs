//! Why bytes and messages are refused. The first level says who is at fault.

/// Bytes that are no value of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Not the canonical form of an element, not a member of the group, or its identity (GUARD-1).
    #[error("not the canonical form of an element of the group other than its identity")]
    Element,
    /// A scalar that is not below the order of the group (GUARD-2).
    #[error("a scalar is not below the order of the group")]
    Scalar,
    /// A message of another kind or size.
    #[error("not a message of this exchange")]
    Message,
}

/// The peer broke the rules of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// Bytes that are no value of the group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The opening does not fit the commitment, or opens it to the identity.
    #[error("the opening does not fit the commitment")]
    Opening,
    /// The identity of the group where an element of full order belongs.
    #[error("the peer's element is the identity")]
    Identity,
}

/// A firewall refuses a message; it is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FirewallError {
    /// The message does not come at this place of the exchange (GUARD-6).
    #[error("the message does not belong at this place of the exchange")]
    Order,
    /// An element is the identity: any power of it is the identity, so it would pass unchanged.
    #[error("an element is the identity, which no coin changes")]
    Identity,
    /// The opening does not fit the commitment that went out (GUARD-7).
    #[error("the opening does not fit the commitment that went out")]
    Opening,
}
