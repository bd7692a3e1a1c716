//! Sizes, times and bounds (docs/protocols/mesh.md, "Limits").

/// One millisecond in the microseconds of the engine.
pub const MS: u64 = 1_000;
/// One second in the microseconds of the engine.
pub const SECOND: u64 = 1_000 * MS;
/// A time that is never reached.
pub const NEVER: u64 = u64::MAX;

/// Length of a tick of network time, ms.
pub const TICK_MS: u64 = 30_000;

/// Size classes of cells: 512 bytes times two to the power of the class.
pub const CLASSES: usize = 4;

/// Largest frame on a cast link, bytes: it fits the smallest path of IPv6.
pub const CAST_BYTES_MAX: usize = 1_200;
/// Largest frame on a stream, bytes: the largest cell and its header.
pub const STREAM_BYTES_MAX: usize = 4_160;
/// Maximum number of short ids (8 bytes each) in one frame.
pub const SHORTS_PER_FRAME: usize = 144;
/// Maximum number of cast links (broadcast or multicast) of a node.
pub const CASTS_MAX: usize = 16;
/// Maximum number of streams of a node.
pub const STREAMS_MAX: usize = 8;
/// Maximum number of streams to devices without a cast link: Bluetooth LE.
pub const RADIOS_MAX: usize = 4;
/// Maximum number of links of a node. Each kind has its own slots (MESH-70).
pub const LINKS_MAX: usize = CASTS_MAX + STREAMS_MAX + RADIOS_MAX;
/// Maximum number of neighbours of one link.
pub const NEIGHBOURS_MAX: usize = 64;
/// Maximum number of announced cells that are missing.
pub const MISSING_MAX: usize = 4_096;
/// Bytes of cells in the store of a node.
pub const STORE_BYTES_MAX: usize = 8 << 20;
/// Bytes of cells that are carried for hours, unless the settings name another size.
pub const CARRIED_BYTES: usize = 64 << 20;
/// Maximum number of cells in a part of the store for long-lived cells: 64 slices of a SYNC
/// describe all of them in datagrams.
pub const CARRIED_CELLS_MAX: usize = 20_480;
/// Cells sent in response to one SYNC; the rest is announced.
pub const SYNC_CELLS_MAX: u32 = 64;
/// A sketch describes so many slices that one slice differs by about this number of cells.
pub const SLICE_CELLS: u32 = 750;
/// Number of symbols of the first frame of a comparison.
pub const SYMBOLS_FIRST: usize = 24;
/// Up to this number of symbols one device searches for the difference on behalf of both.
pub const SYMBOLS_SHARED: usize = 1_696;
/// Maximum number of comparisons of a neighbour that begin in 10 s.
pub const COMPARES_AT_ONCE: u32 = 4;
/// Maximum number of comparisons of a node that wait for further symbols.
pub const COMPARES_MAX: usize = 32;
/// Maximum number of our sketches from which neighbours may request further symbols.
pub const SKETCHES_MAX: usize = 16;
/// How long a sketch serves neighbours that are compared with after the first one.
pub const SKETCH_FRESH: u64 = SECOND;
/// How long further symbols of a sketch may be requested.
pub const SKETCH_LIFE: u64 = 20 * SECOND;
/// How long requested symbols may take.
pub const MORE_PATIENCE: u64 = 300 * MS;
/// How long the device with the higher name leaves the request for symbols to the other one.
pub const MORE_DEFER: u64 = SECOND;
/// Number of requests for symbols without any answer after which a comparison ends.
pub const MORE_ROW: u8 = 3;
/// Number of cells per second that comparisons send to a neighbour first met less than [`NEWCOMER`]
/// ago.
pub const NEWCOMER_PER_SECOND: u64 = 8;
/// How long a neighbour is a newcomer.
pub const NEWCOMER: u64 = 60 * SECOND;

/// Time between two beacons.
pub const BEACON: u64 = SECOND;
/// Time between two beacons when the clock is agreed and nothing is new.
pub const BEACON_QUIET: u64 = 5 * SECOND;
/// Least time between two announcements.
pub const HAVE: u64 = 200 * MS;
/// Maximum random wait before a request.
pub const ASK: u64 = 80 * MS;
/// How long another device's request delays our own.
pub const HOLD: u64 = 300 * MS;
/// How long a neighbour may take to deliver a requested cell.
pub const PATIENCE: u64 = 1_500 * MS;
/// How long requests are gathered before cells are sent.
pub const GATHER: u64 = 5 * MS;
/// A cell is sent on a link at most once in this time.
pub const REPEAT: u64 = 200 * MS;
/// How long cells in response to a comparison are accepted.
pub const SYNC_OPEN: u64 = 10 * SECOND;
/// Least time between two comparisons with a neighbour whose sum differs.
pub const SYNC_DIFFERS: u64 = 30 * SECOND;
/// Time between two comparisons with any neighbour.
pub const SYNC_ALWAYS: u64 = 120 * SECOND;
/// Minimum time between two comparisons with a neighbour that holds or announced unknown cells.
pub const SYNC_NEWS: u64 = 5 * SECOND;
/// A neighbour without frames for this time gets no requests.
pub const SILENT: u64 = 10 * SECOND;
/// A neighbour without frames for this time is removed.
pub const GONE: u64 = 60 * SECOND;
/// How long announcements of a neighbour are ignored after eight of eight failed requests.
pub const IGNORED: u64 = 60 * SECOND;

/// If a cell was announced longer ago than this when it is requested, the neighbour need not have
/// it any more.
pub const PROMISE: u64 = 10 * SECOND;
/// An announcement is dropped if its cell could not be requested in this time.
pub const STALE: u64 = 30 * SECOND;

/// New cells per second that are requested from one neighbour.
pub const NEW_PER_SECOND: u64 = 40;
/// New cells that are requested from one neighbour at once.
pub const NEW_AT_ONCE: u64 = 200;
/// Maximum number of announced and still missing cells of a neighbour that has delivered fewer than
/// [`TRUSTED_AFTER`] cells.
pub const OPEN_FIRST: u32 = 64;
/// Maximum number of announced and still missing cells of a neighbour that has delivered at least
/// [`TRUSTED_AFTER`] cells.
pub const OPEN_LATER: u32 = 1_024;
/// Number of cells that a neighbour may request per minute in addition to twice the live ones.
pub const DRAWN_FIRST: u32 = 256;
/// Number of owed cells on a link above which neighbours that requested more than their share must
/// wait.
pub const OWED_BUSY: u32 = 256;
/// A BUSY counts as a reply only within this time after the request.
pub const BUSY_SOON: u64 = 600 * MS;
/// Number of consecutive BUSY frames without a cell that are free; each further one counts as a
/// failure.
pub const BUSY_ROW: u32 = 3;
/// Minimum and maximum time in a BUSY, ms.
pub const BUSY_MS: (u16, u16) = (100, 5_000);
/// Number of cells that a neighbour must deliver before more of its announcements may be open.
pub const TRUSTED_AFTER: u32 = 8;
