use super::*;

fn limiter(
    connections: usize,
    handshakes: usize,
    per_address: u32,
    per_site: u32,
) -> Arc<ConnectionLimiter> {
    ConnectionLimiter::with_bounds(Bounds { connections, handshakes, per_address, per_site })
}

/// Tries to get a permit at once, without waiting.
fn enter(limiter: &Arc<ConnectionLimiter>, address: &str) -> Option<ConnectionPermit> {
    enter_at(limiter, address, Instant::now())
}

fn enter_at(
    limiter: &Arc<ConnectionLimiter>,
    address: &str,
    now: Instant,
) -> Option<ConnectionPermit> {
    match limiter.try_enter(ClientSource::from_address(address.parse().unwrap()), now) {
        Answer::In(permit) => Some(permit),
        Answer::Not(_) => None,
    }
}

/// Returns true if a connection was evicted.
async fn is_told(permit: &ConnectionPermit) -> bool {
    permit.run_while_held(tokio::task::yield_now()).await.is_none()
}

#[tokio::test]
async fn mix_28_an_address_has_its_part_and_a_site_its_own() {
    let limiter = limiter(100, 100, 2, 8);
    let inside: Vec<_> = (0..2).filter_map(|_| enter(&limiter, "127.0.0.1")).collect();
    assert_eq!(inside.len(), 2);
    assert!(enter(&limiter, "127.0.0.1").is_none());
    assert!(enter(&limiter, "::ffff:127.0.0.1").is_none(), "the same address");
    let block: Vec<_> = (2..20).filter_map(|n| enter(&limiter, &format!("127.0.0.{n}"))).collect();
    assert_eq!(block.len(), 7, "one of the two made room");
    assert!(is_told(&inside[1]).await && !is_told(&inside[0]).await);
    assert!(enter(&limiter, "127.0.1.1").is_some());
    drop(inside);
    assert!(enter(&limiter, "127.0.0.1").is_some());
}

#[tokio::test]
async fn mix_28_a_site_of_ipv6_is_a_48_and_an_address_a_64() {
    let limiter = limiter(100, 100, 1, 2);
    let _one = enter(&limiter, "2001:db8:1::1").unwrap();
    assert!(enter(&limiter, "2001:db8:1::2").is_none(), "the same /64");
    let _two = enter(&limiter, "2001:db8:1:ffff::1").unwrap();
    assert!(enter(&limiter, "2001:db8:1:2::3").is_none(), "the same /48");
    assert!(enter(&limiter, "2001:db8:2::1").is_some());
}

#[tokio::test]
async fn msg_71_a_full_server_hangs_up_on_the_greediest() {
    let limiter = limiter(4, 100, 100, 100);
    let greedy: Vec<_> = (0..4).map(|_| enter(&limiter, "192.0.2.1").unwrap()).collect();
    greedy.iter().for_each(ConnectionPermit::end_handshake);
    assert!(enter(&limiter, "192.0.2.1").is_none(), "nobody makes room for the greediest");
    let other = enter(&limiter, "203.0.113.1").unwrap();
    let another = enter(&limiter, "203.0.113.1").unwrap();
    assert!(enter(&limiter, "203.0.113.1").is_none(), "two and two are even");
    for (permit, told) in greedy.iter().zip([false, false, true, true]) {
        assert_eq!(is_told(permit).await, told);
    }
    assert!(!is_told(&other).await && !is_told(&another).await);
    assert_eq!(limiter.lock_inner().leaving, 2);
    drop((greedy, other, another));
    let inner = limiter.lock_inner();
    assert_eq!((inner.leaving, inner.members.len(), inner.all.is_full()), (0, 0, false));
}

#[tokio::test]
async fn msg_70_a_handshake_that_had_its_time_makes_room() {
    let limiter = limiter(100, 2, 100, 100);
    let now = Instant::now();
    let silent: Vec<_> = (0..2).map(|_| enter_at(&limiter, "192.0.2.1", now).unwrap()).collect();
    assert!(enter_at(&limiter, "203.0.113.1", now).is_none(), "each has a second for itself");
    let other = limiter.await_place("203.0.113.1".parse().unwrap()).await.unwrap();
    assert!(now.elapsed() >= GRACE);
    assert!(is_told(&silent[0]).await && !is_told(&silent[1]).await);
    // A settled connection is no handshake any more, so the next one evicts nothing.
    other.end_handshake();
    let _third = limiter.await_place("203.0.113.1".parse().unwrap()).await.unwrap();
    assert!(!is_told(&silent[1]).await && !is_told(&other).await);
}

/// Waits after a handshake whose grace ends in an hour, so that only the effect of `end` can wake
/// the waiting connection.
async fn comes_in_after<T>(end: impl FnOnce(ConnectionPermit) -> T) -> T {
    let limiter = limiter(100, 1, 100, 100);
    let late = Instant::now() + Duration::from_secs(3_600);
    let silent = enter_at(&limiter, "203.0.113.1", late).unwrap();
    let doors_too = Arc::clone(&limiter);
    let waiting =
        tokio::spawn(async move { doors_too.await_place("198.51.100.1".parse().unwrap()).await });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    let left = end(silent);
    assert!(timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap().is_some());
    left
}

#[tokio::test]
async fn msg_70_who_waits_comes_in_as_soon_as_a_handshake_ends() {
    comes_in_after(drop).await;
}

#[tokio::test]
async fn msg_70_who_waits_comes_in_as_soon_as_a_handshake_is_done() {
    let settled = comes_in_after(|silent| {
        silent.end_handshake();
        silent
    });
    assert!(!is_told(&settled.await).await);
}

#[tokio::test]
async fn msg_70_of_a_crowded_address_a_silent_one_makes_room_for_the_next() {
    let limiter = limiter(100, 100, 2, 2);
    let silent = enter(&limiter, "192.0.2.1").unwrap();
    let settled = enter(&limiter, "192.0.2.1").unwrap();
    settled.end_handshake();
    assert!(enter(&limiter, "192.0.2.1").is_none());
    let later = Instant::now() + GRACE;
    let next = enter_at(&limiter, "192.0.2.1", later).unwrap();
    assert!(is_told(&silent).await && !is_told(&settled).await);
    next.end_handshake();
    assert!(enter_at(&limiter, "192.0.2.1", later + GRACE).is_none(), "who is settled stays");
}

#[tokio::test]
async fn msg_71_without_a_descriptor_the_greediest_makes_room() {
    let limiter = limiter(100, 100, 100, 100);
    let greedy: Vec<_> = (0..3).map(|_| enter(&limiter, "192.0.2.1").unwrap()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    assert!(files::are_gone(&io::Error::from_raw_os_error(nix::errno::Errno::EMFILE as i32)));
    assert!(!files::are_gone(&io::ErrorKind::ConnectionAborted.into()));
    limiter.shed_connection(&listener).await;
    let read = tokio::io::AsyncReadExt::read(&mut client, &mut [0]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "it was taken from the system, and closed");
    assert!(is_told(&greedy[2]).await && !is_told(&greedy[1]).await);
}

/// Returns when a refused connection may be tried again, if at all.
fn due(limiter: &Arc<ConnectionLimiter>, address: &str, now: Instant) -> Option<Instant> {
    match limiter.try_enter(ClientSource::from_address(address.parse().unwrap()), now) {
        Answer::Not(Why::Later(due)) => Some(due),
        Answer::Not(Why::TooMany) => None,
        Answer::In(_) => panic!("{address} came in"),
    }
}

#[tokio::test]
async fn msg_70_a_48_of_silent_64s_does_not_make_others_wait() {
    const PLACES: u32 = 64;
    let limiter = limiter(1_000, PLACES as usize, 16, 100);
    let start = Instant::now();
    let at = |ms: u32| start + Duration::from_millis(ms.into());
    let silent = |nr: u32| format!("2001:db8:7:{nr:x}::1");
    let mut held: Vec<_> =
        (0..PLACES).map(|nr| enter_at(&limiter, &silent(nr), at(nr * 10)).unwrap()).collect();
    // The attacker's next connections do not block the head of the queue.
    assert_eq!(due(&limiter, &silent(PLACES), at(900)), None);
    assert_eq!(due(&limiter, "192.0.2.1", at(900)), Some(start + GRACE), "the oldest is due first");
    // Every 10 ms one newcomer of the attacker, each followed by one client.
    for nr in 0..PLACES / 2 {
        let now = at(1_000 + nr * 20);
        held.push(enter_at(&limiter, &silent(PLACES + nr), now).unwrap());
        let client = enter_at(&limiter, &format!("192.0.{nr}.1"), now + Duration::from_millis(10));
        client.unwrap().end_handshake();
    }
}

#[tokio::test]
async fn msg_70_where_a_site_may_have_any_number_its_newcomers_wait() {
    let limiter = limiter(100, 1, u32::MAX, u32::MAX);
    let now = Instant::now();
    let _silent = enter_at(&limiter, "127.0.0.1", now).unwrap();
    assert_eq!(due(&limiter, "127.0.0.1", now), Some(now + GRACE));
}

#[tokio::test]
async fn msg_71_four_addresses_do_not_keep_the_others_of_their_site_out() {
    let limiter = limiter(100, 100, 4, 16);
    let now = Instant::now();
    let held: Vec<_> = (0..16)
        .map(|nr| enter_at(&limiter, &format!("192.0.2.{}", nr / 4), now).unwrap())
        .collect();
    held.iter().for_each(ConnectionPermit::end_handshake);
    assert_eq!(due(&limiter, "192.0.2.3", now), None, "an address has four");
    let others: Vec<_> =
        (4..9).map_while(|nr| enter_at(&limiter, &format!("192.0.2.{nr}"), now)).collect();
    assert_eq!(others.len(), 5);
    // First the newest connection of the sources with four slots is evicted, then that of those
    // with three.
    for (nr, permit) in (0..).zip(&held) {
        assert_eq!(is_told(permit).await, [3, 7, 11, 15, 14].contains(&nr), "{nr}");
    }
    // No connection of another site was evicted for them.
    assert!(!is_told(&others[0]).await);
    assert_eq!(limiter.lock_inner().all.count_places(&others[0].source()), (1, 16));
}

#[tokio::test]
async fn msg_71_nobody_goes_for_a_newcomer_who_does_not_come_in() {
    let limiter = limiter(3, 1, 100, 100);
    let now = Instant::now();
    let settled: Vec<_> = (0..2)
        .map(|_| enter_at(&limiter, "192.0.2.1", now).unwrap())
        .inspect(ConnectionPermit::end_handshake)
        .collect();
    let silent = enter_at(&limiter, "198.51.100.1", now).unwrap();
    assert_eq!(due(&limiter, "203.0.113.1", now), Some(now + GRACE));
    for permit in settled.iter().chain([&silent]) {
        assert!(!is_told(permit).await);
    }
    // All slots and all handshakes are taken: one of each is evicted.
    assert!(enter_at(&limiter, "203.0.113.1", now + GRACE).is_some());
    assert!(is_told(&settled[1]).await && is_told(&silent).await);
}

#[tokio::test]
async fn msg_70_a_handshake_that_makes_room_for_a_connection_leaves_its_own_place_too() {
    let limiter = limiter(2, 2, 100, 100);
    let now = Instant::now();
    let silent: Vec<_> = (0..2).map(|_| enter_at(&limiter, "192.0.2.1", now).unwrap()).collect();
    // Only the newest connection of the largest source is evicted, at once.
    let _other = enter_at(&limiter, "203.0.113.1", now).unwrap();
    assert!(is_told(&silent[1]).await && !is_told(&silent[0]).await);
    let inner = limiter.lock_inner();
    assert!(inner.is_fresh(0) && !inner.is_fresh(1) && inner.is_fresh(2));
}
