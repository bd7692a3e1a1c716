use super::*;

fn doors(connections: usize, handshakes: usize, per_address: u32, per_site: u32) -> Arc<Doors> {
    Doors::with(Bounds { connections, handshakes, per_address, per_site })
}

/// Comes in now or not at all.
fn enter(doors: &Arc<Doors>, address: &str) -> Option<Ticket> {
    enter_at(doors, address, Instant::now())
}

fn enter_at(doors: &Arc<Doors>, address: &str, now: Instant) -> Option<Ticket> {
    match doors.enter(Source::of(address.parse().unwrap()), now) {
        Answer::In(ticket) => Some(ticket),
        Answer::TooMany | Answer::Later(_) => None,
    }
}

/// Whether a connection was told to go.
async fn is_told(ticket: &Ticket) -> bool {
    ticket.hold(tokio::task::yield_now()).await.is_none()
}

#[tokio::test]
async fn mix_28_an_address_has_its_part_and_a_site_its_own() {
    let doors = doors(100, 100, 2, 8);
    let inside: Vec<_> = (0..2).filter_map(|_| enter(&doors, "127.0.0.1")).collect();
    assert_eq!(inside.len(), 2);
    assert!(enter(&doors, "127.0.0.1").is_none());
    assert!(enter(&doors, "::ffff:127.0.0.1").is_none(), "the same address");
    let block: Vec<_> = (2..20).filter_map(|n| enter(&doors, &format!("127.0.0.{n}"))).collect();
    assert_eq!(block.len(), 6);
    assert!(enter(&doors, "127.0.1.1").is_some());
    drop(inside);
    assert!(enter(&doors, "127.0.0.1").is_some());
}

#[tokio::test]
async fn mix_28_a_site_of_ipv6_is_a_48_and_an_address_a_64() {
    let doors = doors(100, 100, 1, 2);
    let _one = enter(&doors, "2001:db8:1::1").unwrap();
    assert!(enter(&doors, "2001:db8:1::2").is_none(), "the same /64");
    let _two = enter(&doors, "2001:db8:1:ffff::1").unwrap();
    assert!(enter(&doors, "2001:db8:1:2::3").is_none(), "the same /48");
    assert!(enter(&doors, "2001:db8:2::1").is_some());
}

#[tokio::test]
async fn msg_71_a_full_server_hangs_up_on_the_greediest() {
    let doors = doors(4, 100, 100, 100);
    let greedy: Vec<_> = (0..4).map(|_| enter(&doors, "192.0.2.1").unwrap()).collect();
    greedy.iter().for_each(Ticket::settle);
    assert!(enter(&doors, "192.0.2.1").is_none(), "nobody makes room for the greediest");
    let other = enter(&doors, "203.0.113.1").unwrap();
    let another = enter(&doors, "203.0.113.1").unwrap();
    assert!(enter(&doors, "203.0.113.1").is_none(), "two and two are even");
    for (ticket, told) in greedy.iter().zip([false, false, true, true]) {
        assert_eq!(is_told(ticket).await, told);
    }
    assert!(!is_told(&other).await && !is_told(&another).await);
    assert_eq!(doors.lock().leaving, 2);
    drop((greedy, other, another));
    let inner = doors.lock();
    assert_eq!((inner.leaving, inner.members.len(), inner.all.is_full()), (0, 0, false));
}

#[tokio::test]
async fn msg_70_a_handshake_that_had_its_time_makes_room() {
    let doors = doors(100, 2, 100, 100);
    let silent: Vec<_> = (0..2).map(|_| enter(&doors, "192.0.2.1").unwrap()).collect();
    assert!(enter(&doors, "203.0.113.1").is_none(), "each has a second for itself");
    let began = Instant::now();
    let other = doors.seat("203.0.113.1".parse().unwrap()).await.unwrap();
    assert!(began.elapsed() >= GRACE / 2);
    assert!(is_told(&silent[0]).await && !is_told(&silent[1]).await);
    // What is settled is no handshake any more, and nobody has to go for the next one.
    other.settle();
    let third = doors.seat("203.0.113.1".parse().unwrap()).await.unwrap();
    assert!(!is_told(&silent[1]).await && !is_told(&other).await);
    // One that waits comes in as soon as a handshake ends.
    let doors_too = Arc::clone(&doors);
    let began = Instant::now();
    let waiting =
        tokio::spawn(async move { doors_too.seat("198.51.100.1".parse().unwrap()).await });
    tokio::task::yield_now().await;
    drop(third);
    assert!(waiting.await.unwrap().is_some() && began.elapsed() < GRACE);
}

#[tokio::test]
async fn msg_70_of_a_crowded_address_a_silent_one_makes_room_for_the_next() {
    let doors = doors(100, 100, 2, 2);
    let silent = enter(&doors, "192.0.2.1").unwrap();
    let settled = enter(&doors, "192.0.2.1").unwrap();
    settled.settle();
    assert!(enter(&doors, "192.0.2.1").is_none());
    let later = Instant::now() + GRACE;
    let next = enter_at(&doors, "192.0.2.1", later).unwrap();
    assert!(is_told(&silent).await && !is_told(&settled).await);
    next.settle();
    assert!(enter_at(&doors, "192.0.2.1", later + GRACE).is_none(), "who is settled stays");
}

#[tokio::test]
async fn msg_71_without_a_descriptor_the_greediest_makes_room() {
    let doors = doors(100, 100, 100, 100);
    let greedy: Vec<_> = (0..3).map(|_| enter(&doors, "192.0.2.1").unwrap()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    assert!(files::are_gone(&io::Error::from_raw_os_error(nix::errno::Errno::EMFILE as i32)));
    assert!(!files::are_gone(&io::ErrorKind::ConnectionAborted.into()));
    doors.shed(&listener).await;
    let read = tokio::io::AsyncReadExt::read(&mut client, &mut [0]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "it was taken from the system, and closed");
    assert!(is_told(&greedy[2]).await && !is_told(&greedy[1]).await);
}
