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

/// A contact to whom nothing can be sent once the mixnet is left.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct LeftBehind {
    /// Number of the contact.
    pub id: String,
    /// The name that the owner gave it.
    pub name: String,
}

/// The fate of notes and contacts on the mixnet after it is left.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct NetworkLeaving {
    /// The link of the mixnet.
    pub link: String,
    /// Own notes without a receipt that go by the next carrier of their conversation.
    pub elsewhere: usize,
    /// Own notes that wait, as their conversation allows no other carrier at their level.
    pub waiting: usize,
    /// Contacts whose conversation allows no other carrier.
    pub unreachable: Vec<LeftBehind>,
    /// Invitations of people without a name, which are dropped.
    pub guests: usize,
}

/// The promise of a network over one year of all services together, by Rényi accounting: a bound.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Promise {
    /// The highest likelihood, percent, that an observer can reach for a guess of 50 %.
    pub likely: f64,
    /// Probability that an observer exceeds `likely`, if the other story is that the user was idle.
    pub idle: f64,
    /// Probability that an observer exceeds `likely`, if the other story is that the user talked
    /// with somebody else at other times: twice as many rounds differ.
    pub other: f64,
    /// The same probability after two years whose budgets are used up: the losses of years add.
    pub two_years: f64,
}

/// The privacy budget of one service in this year.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Budget {
    /// conversation, call or invitation.
    pub service: String,
    /// Rounds used, in rounds of the noise that the network has now.
    pub used: u64,
    /// Rounds that the promise covers; none where the network promises nothing.
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
    /// How much the noise protects: nothing, weak or standard; absent before a config is known.
    pub noise_grade: Option<String>,
    /// Reason why no round comes back, as a sentence; absent while rounds come back or nothing is
    /// known.
    pub trouble: Option<String>,
    /// The conversation round that is open now.
    pub round: Option<u64>,
    /// Time from one round to the next, milliseconds.
    pub interval_ms: Option<u32>,
    /// Clients in the last round, as the entry server reports.
    pub users: u32,
    /// Servers in the chain.
    pub mixes: usize,
    /// Law of the noise of each mix: gauss or paper (Laplace).
    pub law: Option<String>,
    /// Mean and scale of the noise.
    pub noise: Option<[u32; 2]>,
    /// Conversation rounds of this period in which a person was served.
    pub rounds_used: u64,
    /// Number of conversation rounds that the promise covers; absent if the network promises
    /// nothing.
    pub rounds_max: Option<u64>,
    /// The promise of its noise over the rounds of all budgets.
    pub promise: Option<Promise>,
    /// The budgets of all services.
    pub budgets: Vec<Budget>,
    /// The probability that more than promised was lost by all rounds of all years so far.
    pub spent: Option<f64>,
    /// How often noise of a mix did not come back.
    pub alarms: u32,
    /// True if this clock and the network's differ too much.
    pub clock_off: bool,
}
