//! Sizes, times and bounds (docs/protocols/mesh.md, "Limits").

/// One millisecond in the microseconds of the engine.
pub const MS: u64 = 1_000;
/// One second in the microseconds of the engine.
pub const SECOND: u64 = 1_000 * MS;
/// A point in time that never comes.
pub const NEVER: u64 = u64::MAX;

/// Length of a tick of network time, ms.
pub const TICK_MS: u64 = 30_000;

/// Size classes of cells: 512 bytes times two to the power of the class.
pub const CLASSES: usize = 4;

/// Largest frame on a cast link, bytes: it fits the smallest path of IPv6.
pub const CAST_BYTES_MAX: usize = 1_200;
/// Largest frame on a stream, bytes: the largest cell and its header.
pub const STREAM_BYTES_MAX: usize = 4_160;
/// Most ids in one frame.
pub const SHORTS_PER_FRAME: usize = 144;
/// Cast links of a node.
pub const CASTS_MAX: usize = 16;
/// Streams of a node.
pub const STREAMS_MAX: usize = 8;
/// Streams of a node to devices without a cast link: those of Bluetooth LE.
pub const RADIOS_MAX: usize = 4;
/// Links of a node. Each kind has places of its own (MESH-70).
pub const LINKS_MAX: usize = CASTS_MAX + STREAMS_MAX + RADIOS_MAX;
/// Neighbours of one link.
pub const NEIGHBOURS_MAX: usize = 64;
/// Cells that were announced and are not here.
pub const MISSING_MAX: usize = 4_096;
/// Bytes of cells in the store of a node.
pub const STORE_BYTES_MAX: usize = 8 << 20;
/// Cells that one SYNC is answered with; the rest is announced.
pub const SYNC_CELLS_MAX: u32 = 64;
/// Cells a second that comparisons give to a neighbour that was met less than [`NEWCOMER`] ago.
pub const NEWCOMER_PER_SECOND: u64 = 8;
/// How long a neighbour is a newcomer.
pub const NEWCOMER: u64 = 60 * SECOND;

/// Time between two beacons.
pub const BEACON: u64 = SECOND;
/// Time between two beacons when the clock is agreed and nothing is new.
pub const BEACON_QUIET: u64 = 5 * SECOND;
/// Least time between two announcements.
pub const HAVE: u64 = 200 * MS;
/// Longest wait before asking, drawn at random.
pub const ASK: u64 = 80 * MS;
/// How long somebody else's request delays one's own.
pub const HOLD: u64 = 300 * MS;
/// How long an announcer has to give what was asked for.
pub const PATIENCE: u64 = 1_500 * MS;
/// How long requests are gathered before cells go out.
pub const GATHER: u64 = 5 * MS;
/// A cell goes out on a link at most once in this time.
pub const REPEAT: u64 = 200 * MS;
/// How long a comparison of sets allows its answers.
pub const SYNC_OPEN: u64 = 10 * SECOND;
/// Least time between two comparisons with a neighbour whose sum differs.
pub const SYNC_DIFFERS: u64 = 30 * SECOND;
/// Time between two comparisons with any neighbour.
pub const SYNC_ALWAYS: u64 = 120 * SECOND;
/// Least time between two comparisons with a neighbour that holds, or announced, what is not known here.
pub const SYNC_NEWS: u64 = 5 * SECOND;
/// A neighbour that was not heard for so long is asked for nothing.
pub const SILENT: u64 = 10 * SECOND;
/// A neighbour that was not heard for so long is forgotten.
pub const GONE: u64 = 60 * SECOND;
/// An announcer that failed eight times of eight is not believed for so long.
pub const IGNORED: u64 = 60 * SECOND;

/// A neighbour that does not give what it announced longer before the asking has broken no promise.
pub const PROMISE: u64 = 10 * SECOND;
/// An announcement is forgotten if nobody could be asked for its cell in this time.
pub const STALE: u64 = 30 * SECOND;

/// New cells a second that one neighbour is asked for.
pub const NEW_PER_SECOND: u64 = 40;
/// New cells that one neighbour is asked for at once.
pub const NEW_AT_ONCE: u64 = 200;
/// Open announcements of a neighbour that has given fewer than [`TRUSTED_AFTER`] cells.
pub const OPEN_FIRST: u32 = 64;
/// Open announcements of a neighbour that has given that many.
pub const OPEN_LATER: u32 = 1_024;
/// Cells that a neighbour may draw a minute beside twice the live ones.
pub const DRAWN_FIRST: u32 = 256;
/// Cells that are owed on a link before neighbours who asked for more than their share are told to wait.
pub const OWED_BUSY: u32 = 256;
/// A BUSY is believed if it comes so soon after the asking.
pub const BUSY_SOON: u64 = 600 * MS;
/// Times in a row that a neighbour may be busy and give nothing, before each further one is a failure.
pub const BUSY_ROW: u32 = 3;
/// The shortest and the longest time that a busy device names, ms.
pub const BUSY_MS: (u16, u16) = (100, 5_000);
/// Cells that make a neighbour's announcements worth more room.
pub const TRUSTED_AFTER: u32 = 8;
