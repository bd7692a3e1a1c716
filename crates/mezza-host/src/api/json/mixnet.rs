//! The mixnet part of the interface.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::silent;

silent!(Mixnet Promise Budget JoinRequest NetworkLeaving LeftBehind);

/// A network to join.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct JoinRequest {
    /// `mezza-net:1:HASH@host:port`.
    pub link: String,
}

/// A contact that cannot be reached once the mixnet is left.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct LeftBehind {
    /// Number of the contact.
    pub id: String,
    /// The user's name for the contact.
    pub name: String,
}

/// The effects of leaving the mixnet on notes and contacts.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct NetworkLeaving {
    /// The link of the mixnet.
    pub link: String,
    /// Number of our notes without a receipt that leave by the next carrier of their conversation.
    pub elsewhere: usize,
    /// Number of our notes that wait, because their conversation allows no other carrier at their
    /// level.
    pub waiting: usize,
    /// Contacts whose conversation allows no other carrier.
    pub unreachable: Vec<LeftBehind>,
    /// Number of inviters without a card. Their invitations are dropped.
    pub guests: usize,
}

/// The privacy promise of a network over one year of all services together: an upper bound by Rényi
/// accounting.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Promise {
    /// The highest likelihood, percent, that an observer can reach for a guess of 50 %.
    pub likely: f64,
    /// Probability that an observer exceeds `likely`, if the other story is that the user was idle.
    pub idle: f64,
    /// Probability that an observer exceeds `likely`, if the other story is that the user talked
    /// with somebody else at other times: twice as many rounds differ.
    pub other: f64,
    /// Probability that an observer exceeds `likely` after two years whose budgets are used up: the
    /// losses of years add up.
    pub two_years: f64,
}

/// The privacy budget of one service in this year.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Budget {
    /// conversation, call or invitation.
    pub service: String,
    /// Number of rounds used, converted to rounds with the present noise of the network.
    pub used: u64,
    /// Number of rounds that the promise covers; absent if the network promises nothing.
    pub max: Option<u64>,
}

/// The network that was joined.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Mixnet {
    /// The link that was opened.
    pub link: String,
    /// Name of the network, 32 hexadecimal digits, once a config is known.
    pub network: Option<String>,
    /// True if this device takes part in rounds.
    pub up: bool,
    /// The protection level now, 4 or 1.
    pub level: u8,
    /// Protection by the noise: nothing, weak or standard; absent before a config is known.
    pub noise_grade: Option<String>,
    /// Reason why no round returns, as a sentence; absent while rounds return or if the reason is
    /// unknown.
    pub trouble: Option<String>,
    /// The conversation round that is open now.
    pub round: Option<u64>,
    /// Time from one round to the next, milliseconds.
    pub interval_ms: Option<u32>,
    /// Clients in the last round, as the entry server reports.
    pub users: u32,
    /// Number of mixes in the chain.
    pub mixes: usize,
    /// Distribution of the noise of each mix: gauss or paper (Laplace).
    pub law: Option<String>,
    /// Mean and scale of the noise.
    pub noise: Option<[u32; 2]>,
    /// Number of conversation rounds in this period that served a contact.
    pub rounds_used: u64,
    /// Number of conversation rounds that the promise covers; absent if the network promises
    /// nothing.
    pub rounds_max: Option<u64>,
    /// The privacy promise of the noise over the rounds of all budgets.
    pub promise: Option<Promise>,
    /// The budgets of all services.
    pub budgets: Vec<Budget>,
    /// The probability that the rounds of all years so far have revealed more than promised.
    pub spent: Option<f64>,
    /// Number of times that noise of a mix did not return.
    pub alarms: u32,
    /// True if our clock and the network's clock differ too much.
    pub clock_off: bool,
}
