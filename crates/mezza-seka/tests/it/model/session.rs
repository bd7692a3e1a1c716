//! Sessions as Table 1 of the paper has them, and what they tell the attacker.

/// Which protocol a session runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Bootstrap,
    Exchange,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Active,
    Accepted,
    Aborted,
}

/// Chance of one session.
pub struct Tape {
    pub scalar: [u8; 32],
    pub point: [u8; 32],
    /// The attacker has read it, or written it.
    pub revealed: bool,
}

/// A run of one party.
pub struct Session {
    pub party: usize,
    pub phase: Phase,
    pub status: Status,
    /// Its messages in order.
    pub talk: Vec<Vec<u8>>,
    /// The number of its tape.
    pub tape: usize,
    /// True if `randomness` was asked of it, or `cr-create` made it.
    pub tape_asked: bool,
    /// The peer's tape; `None` for a share that no honest party made.
    pub share: Option<usize>,
    /// The state before it; none for Bootstrap.
    pub input: Option<[u8; 32]>,
    /// The state behind it, once it is derived.
    pub output: Option<[u8; 32]>,
    /// A name of its key, once it is accepted: what the session exports.
    pub key: Option<[u8; 32]>,
    pub key_asked: bool,
    /// When it was created, and when it ended, by the count of questions.
    pub created: u32,
    pub ended: Option<u32>,
    /// True if the state before it was unknown when it was accepted.
    pub blind: bool,
}

impl Session {
    pub fn new(party: usize, phase: Phase, tape: usize, created: u32) -> Self {
        Self {
            party,
            phase,
            status: Status::Active,
            talk: Vec::new(),
            tape,
            tape_asked: false,
            share: None,
            input: None,
            output: None,
            key: None,
            key_asked: false,
            created,
            ended: None,
            blind: false,
        }
    }

    /// Returns true if both saw the same messages but for the last one.
    pub fn matches(&self, other: &Self) -> bool {
        let longer = self.talk.len().max(other.talk.len());
        let same = self.talk.iter().zip(&other.talk).take_while(|(one, two)| one == two).count();
        let messages = match self.phase {
            Phase::Bootstrap => longer,
            Phase::Exchange => longer.saturating_sub(1).max(1),
        };
        self.party != other.party && self.phase == other.phase && same >= messages
    }

    pub fn end(&mut self, status: Status, at: u32) {
        if self.status == Status::Active {
            (self.status, self.ended) = (status, Some(at));
        }
    }
}
