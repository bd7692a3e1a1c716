//! The open links by peer: only the newest of each peer is used.

use std::collections::BTreeMap;

use mezza_mixnet::wire::Frame;

use super::{FrameBytes, FrameSender, LinkEvent, make_parcel};

/// The consequence of a link event for the machine.
#[derive(Debug)]
pub enum LinkChange {
    /// No change: the event belongs to a link that was replaced, or the link is up for the first
    /// time.
    None,
    /// A frame from the peer.
    Frame(Frame),
    /// The link was lost; a newer one may be up already.
    Lost,
}

/// Links by peer.
#[derive(Debug)]
pub struct LinkTable<P>(BTreeMap<P, (u64, FrameSender)>);

impl<P> Default for LinkTable<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P: Ord + Copy> LinkTable<P> {
    /// Handles an event of link number `link` with `peer`. Numbers are never reused.
    pub fn handle_event(&mut self, peer: P, link: u64, news: LinkEvent) -> LinkChange {
        let current = self.0.get(&peer).map(|(number, _)| *number);
        match news {
            LinkEvent::Up(outbox) => {
                let old = self.0.insert(peer, (link, outbox));
                if old.is_some() { LinkChange::Lost } else { LinkChange::None }
            }
            LinkEvent::Frame(frame) if current == Some(link) => LinkChange::Frame(frame),
            LinkEvent::Down if current == Some(link) => {
                self.0.remove(&peer);
                LinkChange::Lost
            }
            LinkEvent::Frame(_) | LinkEvent::Down => LinkChange::None,
        }
    }

    /// Sends a frame. Returns false if the link is lost.
    #[must_use]
    pub fn send_frame(&mut self, peer: P, frame: Frame) -> bool {
        make_parcel(frame).is_none_or(|parcel| self.send_parcel(peer, parcel))
    }

    /// Sends encoded bytes. Returns false if the link is lost.
    #[must_use]
    pub fn send_parcel(&mut self, peer: P, parcel: FrameBytes) -> bool {
        let sent = self.0.get(&peer).is_some_and(|(_, outbox)| outbox.try_send(parcel).is_ok());
        if !sent {
            self.0.remove(&peer);
        }
        sent
    }

    /// Closes the link of a peer.
    pub fn drop_link(&mut self, peer: P) {
        self.0.remove(&peer);
    }

    /// Returns the peers whose link is up.
    pub fn peers(&self) -> impl Iterator<Item = P> {
        self.0.keys().copied()
    }

    /// Returns the number of links.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[test]
    fn the_newest_link_counts_and_one_that_is_not_read_is_lost() {
        let mut table = LinkTable::default();
        let frame = Frame::FetchConfig { from: [7; 32] };
        let (first, mut read) = mpsc::channel(1);
        assert!(matches!(table.handle_event('a', 1, LinkEvent::Up(first)), LinkChange::None));
        assert!(table.send_frame('a', frame.clone()) && !table.send_frame('b', frame.clone()));
        assert!(read.try_recv().is_ok());
        let (second, _unread) = mpsc::channel(1);
        assert!(matches!(table.handle_event('a', 2, LinkEvent::Up(second)), LinkChange::Lost));
        assert!(matches!(
            table.handle_event('a', 1, LinkEvent::Frame(frame.clone())),
            LinkChange::None
        ));
        assert!(matches!(table.handle_event('a', 1, LinkEvent::Down), LinkChange::None));
        assert!(matches!(
            table.handle_event('a', 2, LinkEvent::Frame(frame.clone())),
            LinkChange::Frame(_)
        ));
        let sent = [0; 2].map(|_| table.send_frame('a', frame.clone()));
        assert_eq!(sent, [true, false], "one may wait, not two");
        assert!(table.count() == 0);
        assert!(matches!(table.handle_event('a', 2, LinkEvent::Down), LinkChange::None));
    }
}
