//! Definition 3: which sessions may be tested.

use mezza_seka::suite::LinkSuite;

use super::oracles::Model;
use super::session::{Session, Status};

/// A clause of the definition, to leave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// `session-key` of the session itself.
    OwnKey,
    /// `session-key` of a partner.
    PartnerKey,
    /// `corrupt` of the own party between clean session and end.
    OwnState,
    /// `corrupt` of the peer between clean session and end.
    PeerState,
    /// `corrupt` of the peer at any time, if no partner accepted.
    PeerStateUnaccepted,
    /// The clean session's chance.
    CleanTape,
    /// The clean session has a partner.
    CleanPartner,
    /// Corruption is counted from the creation of the clean session on. The definition has its
    /// completion; the text below it has "between the start of the clean session" and the end.
    FromCreation,
}

impl Clause {
    pub const ALL: [Self; 8] = [
        Self::OwnKey,
        Self::PartnerKey,
        Self::OwnState,
        Self::PeerState,
        Self::PeerStateUnaccepted,
        Self::CleanTape,
        Self::CleanPartner,
        Self::FromCreation,
    ];
}

impl<S: LinkSuite> Model<S> {
    pub fn partners<'a>(&'a self, of: &'a Session) -> impl Iterator<Item = &'a Session> {
        self.sessions.iter().filter(|other| of.matches(other))
    }

    /// Returns true if a session is test-fresh; `without` leaves a clause out.
    pub fn is_fresh(&self, test: &Session, without: Option<Clause>) -> bool {
        let holds = |clause: Clause, found: bool| without == Some(clause) || found;
        let Some(clean) = self.clean(test, without) else { return false };
        let keys = holds(Clause::OwnKey, !test.key_asked)
            && holds(Clause::PartnerKey, self.partners(test).all(|other| !other.key_asked));
        let whole = || self.partners(clean).chain([clean]);
        let begins = whole().map(|session| session.created).min().unwrap_or(0);
        let completed = whole().filter_map(|session| session.ended).max().unwrap_or(0);
        let from = if without == Some(Clause::FromCreation) { completed } else { begins };
        let ends = self.partners(test).chain([test]).map(|session| session.ended);
        let until = ends.map(|ended| ended.unwrap_or(u32::MAX)).max().unwrap_or(u32::MAX);
        let stolen = |party: usize, until: u32| {
            self.corrupted.iter().any(|(who, at)| *who == party && (from..=until).contains(at))
        };
        let accepted = self.partners(test).any(|other| other.status == Status::Accepted);
        keys && holds(Clause::OwnState, !stolen(test.party, until))
            && holds(Clause::PeerState, !stolen(1 - test.party, until))
            && holds(Clause::PeerStateUnaccepted, accepted || !stolen(1 - test.party, u32::MAX))
    }

    /// The last clean session before a test session, or that session itself.
    fn clean(&self, test: &Session, without: Option<Clause>) -> Option<&Session> {
        let begins = self.partners(test).chain([test]).map(|session| session.created).min();
        let before = |session: &Session| session.ended.is_some_and(|ended| Some(ended) < begins);
        let is_test = |session: &Session| std::ptr::eq(session, test);
        let accepted = |session: &&Session| session.status == Status::Accepted;
        let candidates = self.sessions.iter().filter(accepted).filter(|session| {
            if without == Some(Clause::CleanPartner) {
                return !session.tape_asked && (is_test(session) || before(session));
            }
            let mut partners = self.partners(session).filter(accepted);
            partners.any(|other| {
                let fresh = !session.tape_asked && !other.tape_asked;
                let early = is_test(session) || (before(session) && before(other));
                early && (fresh || without == Some(Clause::CleanTape))
            })
        });
        candidates.max_by_key(|session| session.ended)
    }
}
