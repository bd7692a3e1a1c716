//! Runs the Bluetooth host on its controller: advertises this device, finds neighbours, carries
//! frames.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use bt_hci::cmd::controller_baseband::Reset;
use bt_hci::cmd::info::ReadBdAddr;
use bt_hci::cmd::le::{LeSetAdvEnable, LeSetScanEnable, LeSetScanParams};
use bt_hci::controller::{ControllerCmdSync, ExternalController};
use bt_hci::param::{AddrKind, BdAddr, LeAdvReportsIter, LeExtAdvReportsIter};
use bt_hci_transport::{ReadHciError, Transport};
use mezza_mesh::frame::Name;
use mezza_mesh::limits::STREAM_BYTES_MAX;
use mezza_mesh::node::{LinkKind, LinkNumber};
use rand_core::Rng as _;
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::time::{sleep, timeout};
use trouble_host::advertise::{Advertisement, AdvertisementParameters};
use trouble_host::connection::{ConnectConfig, Connection, RequestedConnParams, ScanConfig};
use trouble_host::l2cap::{
    L2capChannel, L2capChannelConfig, L2capChannelReader, L2capChannelWriter,
};
use trouble_host::prelude::EventHandler;
use trouble_host::scan::Scanner;
use trouble_host::{Address, Controller, HostResources, Stack};

use super::advert::{Advert, PSM};
use super::hci::{self, HciPlace};
use super::pool::FramePool;
use super::{BleIdentity, RadioState};
use crate::mesh::link::{FramePeer, LinkSender, MeshLinkEvent, StreamFrames, StreamLink};
use crate::mesh::links::RADIO;
use mezza_host::process::rng::OsRng;

/// Maximum number of neighbours connected at a time; each has one channel.
const CONTACTS_MAX: usize = 4;
/// How old a frame usually is when it arrives, µs: half of a connection's interval, and its queue.
const DELAY_US: u64 = 25_000;
/// How long a connection to a neighbour, and the opening of its channel, may take.
const REACH: Duration = Duration::from_secs(10);
/// Pause before a neighbour is tried again, and after an error of the radio.
const AGAIN: Duration = Duration::from_secs(10);
const REST: Duration = Duration::from_secs(1);
/// Interval of the scan, which is also the length of each listening window.
const SCAN: embassy_time::Duration = embassy_time::Duration::from_millis(100);

/// Bytes of a piece of a frame: with its header it fits the longest packet of Bluetooth LE.
const PIECE_BYTES: u16 = 247;
/// Pieces that a neighbour may send before any is read: more than the largest frame has.
const CREDITS: u16 = 64;
/// Pause before a channel is requested again from a neighbour that was not ready.
const SOON: Duration = Duration::from_millis(200);

type BleStack<'a, C> = Stack<'a, C, FramePool>;
type Names = watch::Receiver<Option<BleIdentity>>;

/// A neighbour with an open channel.
struct Contact<'a> {
    connection: Connection<'a, FramePool>,
    channel: L2capChannel<'a, FramePool>,
    /// The name that the neighbour advertised; `None` if the neighbour opened the connection.
    name: Option<Name>,
}

/// Runs the radio until the node drops the sender of `names`. A controller that goes away is opened
/// again each time (MESH-68).
pub(super) fn run_radio(
    place: &HciPlace,
    mut names: Names,
    sender: &LinkSender,
    state: &RadioState,
) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        state.is_down("no runtime");
        return;
    };
    runtime.block_on(async {
        let mut silent_before = None;
        while names.has_changed().is_ok() {
            let Some(identity) = *names.borrow_and_update() else {
                // Before the first name there is nothing to advertise.
                let _ = names.changed().await;
                continue;
            };
            // The radio is silent once after each change of the name, so that observers do not
            // connect the two names. Opening the controller again needs no pause.
            if silent_before != Some(identity) {
                tokio::select! {
                    () = sleep(Duration::from_millis(identity.silence_ms)) => (),
                    _ = names.changed() => continue,
                }
                silent_before = Some(identity);
            }
            if let Err(why) = serve_identity(place, identity, &mut names, sender, state).await {
                if state.is_down(&why) {
                    tracing::warn!(target: "mezza", "the Bluetooth controller: {why}; it is opened again");
                }
                sleep(REST).await;
            }
        }
    });
}

/// Runs the radio under one name until the name changes or the controller fails.
async fn serve_identity(
    place: &HciPlace,
    identity: BleIdentity,
    names: &mut Names,
    sender: &LinkSender,
    state: &RadioState,
) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    match place {
        HciPlace::User(number) => {
            let transport = bt_hci_linux::Transport::new(*number).map_err(said)?;
            Box::pin(run_host(transport, identity, names, sender, state)).await
        }
        HciPlace::Tcp(address) => {
            let transport = hci::open_tcp(address).await.map_err(said)?;
            Box::pin(run_host(transport, identity, names, sender, state)).await
        }
        HciPlace::Unix(path) => {
            let transport = hci::open_unix(path).await.map_err(said)?;
            Box::pin(run_host(transport, identity, names, sender, state)).await
        }
    }
}

/// Runs the host on an open transport until the name changes.
async fn run_host<T>(
    transport: T,
    identity: BleIdentity,
    names: &mut Names,
    sender: &LinkSender,
    state: &RadioState,
) -> Result<(), String>
where
    T: Transport,
    T::Error: From<ReadHciError<Infallible>> + std::fmt::Debug,
{
    let controller = ExternalController::<T, 10>::new(transport);
    let mut resources = HostResources::<FramePool, CONTACTS_MAX, CONTACTS_MAX>::new();
    let stack = trouble_host::new(controller, &mut resources)
        .set_random_address(fresh_address())
        .register_l2cap_spsm(PSM)
        .build();
    let mut runner = stack.runner();
    let near = Near::new(identity);
    let (ready, contacts) = mpsc::channel(CONTACTS_MAX);
    let contacts = Mutex::new(contacts);
    let slot = || carry_contacts(&stack, &contacts, &near, sender);
    let running = runner.run_with_handler(&near);
    tokio::pin!(running);
    let mut is_over = false;
    let is_up = async {
        if stack.command(ReadBdAddr::new()).await.is_ok() {
            state.is_up();
        }
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = &mut running => {
            is_over = true;
            Err(format!("{:?}", ended.err()))
        }
        () = is_up => Ok(()),
        () = advertise_self(&stack, identity, &ready) => Err("it does not advertise".to_owned()),
        () = find_neighbours(&stack, &near, &ready) => Err("it does not scan".to_owned()),
        _ = async { tokio::join!(slot(), slot(), slot(), slot()) } => Ok(()),
        _ = names.changed() => Ok(()),
    };
    // The old name must not be advertised any longer, even if the controller fails here. A runner
    // that has ended is not run again: its controller is gone.
    if !is_over {
        tokio::select! {
            _ = &mut running => (),
            _ = timeout(REST, silence_controller(&stack)) => (),
        }
    }
    ended
}

/// Stops advertising and scanning, and resets the controller.
async fn silence_controller<C: Controller>(stack: &BleStack<'_, C>) {
    let _ = stack.command(LeSetAdvEnable::new(false)).await;
    let _ = stack.command(LeSetScanEnable::new(false, false)).await;
    let _ = stack.command(Reset::new()).await;
}

/// Draws a static random address for the lifetime of a name.
fn fresh_address() -> Address {
    let mut bytes = OsRng.next_u64().to_be_bytes();
    // The two highest bits mark a static random address.
    bytes[5] |= 0xc0;
    let [a, b, c, d, e, f, ..] = bytes;
    Address::random([a, b, c, d, e, f])
}

/// Advertises this device, and accepts connections.
async fn advertise_self<'a, C: Controller>(
    stack: &'a BleStack<'_, C>,
    BleIdentity { name, net, .. }: BleIdentity,
    ready: &mpsc::Sender<Contact<'a>>,
) {
    let mut peripheral = stack.peripheral();
    let advert = Advert { net, name, psm: PSM }.encode();
    loop {
        let data =
            Advertisement::ConnectableScannableUndirected { adv_data: &advert, scan_data: &[] };
        let advertiser = peripheral.advertise(&AdvertisementParameters::default(), data).await;
        let Ok(advertiser) = advertiser else {
            sleep(REST).await;
            continue;
        };
        let Ok(connection) = advertiser.accept().await else { continue };
        let listener = L2capChannel::listen(stack, &connection);
        let channel = timeout(REACH, listener.accept(&channel_config())).await;
        drop(listener);
        if let Ok(Ok(channel)) = channel
            && ready.send(Contact { connection, channel, name: None }).await.is_err()
        {
            return;
        }
    }
}

/// Scans for devices with a higher name, and connects to them.
async fn find_neighbours<'a, C>(
    stack: &'a BleStack<'_, C>,
    near: &Near,
    ready: &mpsc::Sender<Contact<'a>>,
) where
    C: Controller + ControllerCmdSync<LeSetScanParams>,
{
    let mut central = stack.central();
    loop {
        let scan =
            ScanConfig { active: false, interval: SCAN, window: SCAN, ..ScanConfig::default() };
        let Ok(session) = Scanner::new(&mut central).scan(&scan).await else {
            sleep(REST).await;
            continue;
        };
        let (address, advert) = near.next_device().await;
        session.stop().await;
        let config = ConnectConfig {
            scan_config: ScanConfig {
                filter_accept_list: &[address],
                interval: SCAN,
                window: SCAN,
                ..ScanConfig::default()
            },
            connect_params: RequestedConnParams::default(),
        };
        let reached = timeout(REACH, async {
            let connection = central.connect(&config).await.ok()?;
            let config = channel_config();
            while connection.is_connected() {
                match L2capChannel::create(stack, &connection, advert.psm, &config).await {
                    Ok(channel) => {
                        return Some(Contact { connection, channel, name: Some(advert.name) });
                    }
                    Err(_) => sleep(SOON).await,
                }
            }
            None
        });
        match reached.await {
            Ok(Some(contact)) => {
                near.mark_connected(advert.name);
                if ready.send(contact).await.is_err() {
                    return;
                }
            }
            _ => sleep(REST).await,
        }
    }
}

fn channel_config() -> L2capChannelConfig {
    L2capChannelConfig {
        mtu: Some(STREAM_BYTES_MAX as u16),
        mps: Some(PIECE_BYTES),
        initial_credits: Some(CREDITS),
        ..L2capChannelConfig::default()
    }
}

/// Carries the frames of the contacts, one contact at a time.
async fn carry_contacts<'a, C: Controller>(
    stack: &'a BleStack<'_, C>,
    contacts: &Mutex<mpsc::Receiver<Contact<'a>>>,
    near: &Near,
    sender: &LinkSender,
) {
    loop {
        let Some(Contact { connection, channel, name }) = contacts.lock().await.recv().await else {
            return;
        };
        let address = connection.peer_address().addr.into_inner();
        let link = sender.next_number();
        let peer = FramePeer::Ble(address);
        let words = format!("{RADIO}, one neighbour");
        let (frames, outgoing) = StreamLink::new(LinkKind::StreamAlone, DELAY_US, words);
        let up = MeshLinkEvent::Up { link, peer, frames: Box::new(frames) };
        if sender.send_event(up).await {
            let (writer, reader) = channel.split();
            tokio::select! {
                () = write_frames(stack, writer, outgoing) => (),
                () = read_frames(stack, reader, link, peer, sender) => (),
            }
            sender.send_event(MeshLinkEvent::Down { link }).await;
        }
        connection.disconnect();
        if let Some(name) = name {
            near.mark_disconnected(name);
        }
    }
}

async fn write_frames<C: Controller>(
    stack: &BleStack<'_, C>,
    mut writer: L2capChannelWriter<'_, FramePool>,
    mut outgoing: StreamFrames,
) {
    while let Some(frame) = outgoing.next_frame().await {
        // A peer may have a smaller MTU. A frame above it is skipped; the peer can get the cell
        // from other neighbours.
        if frame.len() > usize::from(writer.peer_mtu()) {
            outgoing.mark_written();
            continue;
        }
        match timeout(3 * REACH, writer.send(stack, &frame)).await {
            Ok(Ok(())) => outgoing.mark_written(),
            _ => return,
        }
    }
}

async fn read_frames<C: Controller>(
    stack: &BleStack<'_, C>,
    mut reader: L2capChannelReader<'_, FramePool>,
    link: LinkNumber,
    from: FramePeer,
    sender: &LinkSender,
) {
    let mut buffer = vec![0; STREAM_BYTES_MAX];
    // Neighbours send beacons every few seconds, so a longer silence means that the neighbour is
    // gone.
    while let Ok(Ok(size)) = timeout(3 * REACH, reader.receive(stack, &mut buffer)).await {
        let bytes = buffer[..size].to_vec();
        if size > 0 && !sender.send_event(MeshLinkEvent::Frame { link, from, bytes }).await {
            return;
        }
    }
}

/// The devices in range that this device may connect to.
struct Near {
    own: BleIdentity,
    found: RefCell<Option<(Address, Advert)>>,
    /// Names of connected devices (`None`), and of devices tried recently with the end of their
    /// pause.
    known: RefCell<BTreeMap<Name, Option<Instant>>>,
    news: Notify,
}

/// Maximum number of remembered device names.
const KNOWN_MAX: usize = 256;

impl Near {
    fn new(own: BleIdentity) -> Self {
        Self { own, found: RefCell::default(), known: RefCell::default(), news: Notify::new() }
    }

    /// Returns true if the device behind an advertisement must be connected now.
    fn is_wanted(&self, advert: Advert) -> bool {
        let known = self.known.borrow();
        let connected = known.values().filter(|until| until.is_none()).count();
        let rests = match known.get(&advert.name) {
            None => false,
            Some(None) => true,
            Some(Some(until)) => *until > Instant::now(),
        };
        advert.net == self.own.net
            && self.own.name < advert.name
            && connected < CONTACTS_MAX
            && !rests
    }

    /// Waits for the next device to connect to.
    async fn next_device(&self) -> (Address, Advert) {
        loop {
            self.news.notified().await;
            if let Some((address, advert)) = self.found.take() {
                let mut known = self.known.borrow_mut();
                let now = Instant::now();
                known.retain(|_, until| until.is_none_or(|until| until > now));
                if known.len() < KNOWN_MAX {
                    known.insert(advert.name, Some(now + AGAIN));
                    return (address, advert);
                }
            }
        }
    }

    /// Stores the sender of an advertisement as the next device to connect to, unless another one
    /// waits.
    fn note_advert(&self, kind: AddrKind, addr: BdAddr, data: &[u8]) {
        let wanted = Advert::decode(data).filter(|advert| self.is_wanted(*advert));
        if let Some(advert) = wanted
            && self.found.borrow().is_none()
        {
            *self.found.borrow_mut() = Some((Address { kind, addr }, advert));
            self.news.notify_one();
        }
    }

    fn mark_connected(&self, name: Name) {
        self.known.borrow_mut().insert(name, None);
    }

    fn mark_disconnected(&self, name: Name) {
        self.known.borrow_mut().insert(name, Some(Instant::now() + AGAIN));
    }
}

impl EventHandler for Near {
    fn on_adv_reports(&self, reports: LeAdvReportsIter<'_>) {
        for report in reports.filter_map(Result::ok) {
            self.note_advert(report.addr_kind, report.addr, report.data);
        }
    }

    // A controller that knows extended advertisements may report legacy advertisements in this
    // event too.
    fn on_ext_adv_reports(&self, reports: LeExtAdvReportsIter<'_>) {
        for report in reports.filter_map(Result::ok) {
            self.note_advert(report.addr_kind, report.addr, report.data);
        }
    }
}
