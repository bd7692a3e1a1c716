//! Pictures as grey pixels: PNG (RFC 2083) and JPEG (ITU-T T.81).

use std::io::Cursor;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use mezza_host::api::{Exit, Fault};

/// Longest accepted edge of a picture, in pixels.
const EDGE_MAX: usize = 8_192;
/// Maximum number of pixels of a picture.
const PIXELS_MAX: usize = 1 << 24;
/// The first bytes of a PNG.
const PNG: &[u8] = b"\x89PNG";
/// The first bytes of a JPEG.
const JPEG: &[u8] = b"\xff\xd8\xff";

/// A picture in shades of grey, row by row.
#[derive(Clone, Debug)]
pub(super) struct GreyPicture {
    pub width: usize,
    pub height: usize,
    pixels: Vec<u8>,
}

/// Returns true if these are the first bytes of a supported picture.
pub(crate) fn is_picture(bytes: &[u8]) -> bool {
    bytes.starts_with(PNG) || bytes.starts_with(JPEG)
}

impl GreyPicture {
    /// Makes a picture of these pixels.
    ///
    /// # Errors
    /// If the sizes do not agree, or are above the limits.
    pub(super) fn new(width: usize, height: usize, pixels: Vec<u8>) -> Result<Self, Fault> {
        if !has_valid_size(width, height) || pixels.len() != width * height {
            return Err(no_picture());
        }
        Ok(Self { width, height, pixels })
    }

    /// Decodes a PNG or a JPEG.
    ///
    /// # Errors
    /// If the bytes are no PNG or JPEG, truncated, or too large.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        if bytes.starts_with(JPEG) { of_jpeg(bytes) } else { of_png(bytes) }
    }

    pub(super) fn pixel_at(&self, x: usize, y: usize) -> u8 {
        self.pixels[y * self.width + x]
    }

    /// Returns the inverse picture, as a code on a dark screen needs.
    pub(super) fn inverted(&self) -> Self {
        Self { pixels: self.pixels.iter().map(|grey| 255 - grey).collect(), ..*self }
    }

    /// Doubles width and height; new pixels are interpolated. Returns `None` above the limits.
    pub(super) fn doubled(&self) -> Option<Self> {
        let width = 2 * self.width;
        let height = 2 * self.height;
        if !has_valid_size(width, height) {
            return None;
        }
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                pixels.push(self.pixel_between(x, y));
            }
        }
        Some(Self { width, height, pixels })
    }

    /// Fills dark spots and lines up to `2 * half` pixels wide with the brightness around them;
    /// edges of larger areas stay (a morphological closing: maximum filter, then minimum filter).
    pub(super) fn close_gaps(&self, half: usize) -> Self {
        let brightest = self.filter_extreme(half, u8::max);
        brightest.filter_extreme(half, u8::min)
    }

    /// Returns the picture whose pixels are the extreme values of the squares around them, `half`
    /// pixels in each direction.
    fn filter_extreme(&self, half: usize, extreme: fn(u8, u8) -> u8) -> Self {
        let width = self.width;
        let height = self.height;
        let mut rows = vec![0; width * height];
        for (from, to) in self.pixels.chunks_exact(width).zip(rows.chunks_exact_mut(width)) {
            slide_window(from, half, extreme, |x, grey| to[x] = grey);
        }
        let mut pixels = vec![0; width * height];
        let mut column = vec![0; height];
        for x in 0..width {
            for y in 0..height {
                column[y] = rows[y * width + x];
            }
            slide_window(&column, half, extreme, |y, grey| pixels[y * width + x] = grey);
        }
        Self { width, height, pixels }
    }

    /// Returns the interpolated pixel at half of these coordinates.
    fn pixel_between(&self, x: usize, y: usize) -> u8 {
        let left = x / 2;
        let top = y / 2;
        let right = (left + x % 2).min(self.width - 1);
        let bottom = (top + y % 2).min(self.height - 1);
        let corners = [(left, top), (right, top), (left, bottom), (right, bottom)];
        let sum: u16 = corners.iter().map(|(x, y)| u16::from(self.pixel_at(*x, *y))).sum();
        (sum / 4) as u8
    }
}

/// Computes the extreme value of each position of a line and its `half` neighbours on each side.
/// Each block of window length is scanned from both ends; a window is the end of one block and the
/// beginning of the next.
fn slide_window(
    line: &[u8],
    half: usize,
    extreme: fn(u8, u8) -> u8,
    mut put: impl FnMut(usize, u8),
) {
    let window = 2 * half + 1;
    let mut forth = line.to_vec();
    let mut back = line.to_vec();
    for block in forth.chunks_mut(window) {
        for at in 1..block.len() {
            block[at] = extreme(block[at], block[at - 1]);
        }
    }
    for block in back.chunks_mut(window) {
        for at in (1..block.len()).rev() {
            block[at - 1] = extreme(block[at], block[at - 1]);
        }
    }
    let last = line.len() - 1;
    for at in 0..line.len() {
        let first = at.saturating_sub(half);
        let end = (at + half).min(last);
        let same_block = first / window == end / window;
        let edge = if same_block && first % window == 0 { forth[end] } else { back[first] };
        put(at, if same_block { edge } else { extreme(edge, forth[end]) });
    }
}

fn has_valid_size(width: usize, height: usize) -> bool {
    let edges = [width, height].iter().all(|edge| (1..=EDGE_MAX).contains(edge));
    edges && width * height <= PIXELS_MAX
}

fn of_png(bytes: &[u8]) -> Result<GreyPicture, Fault> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    decoder.set_ignore_text_chunk(true);
    let mut reader = decoder.read_info().map_err(|_| no_picture())?;
    let width = reader.info().width as usize;
    let height = reader.info().height as usize;
    if !has_valid_size(width, height) {
        return Err(no_picture());
    }
    let size = reader.output_buffer_size().ok_or_else(no_picture)?;
    let mut raw = vec![0; size];
    let frame = reader.next_frame(&mut raw).map_err(|_| no_picture())?;
    let channels = frame.color_type.samples();
    let grey = raw[..frame.buffer_size()].chunks_exact(channels).map(grey_of).collect();
    GreyPicture::new(width, height, grey)
}

fn of_jpeg(bytes: &[u8]) -> Result<GreyPicture, Fault> {
    let options = DecoderOptions::default()
        .set_max_width(EDGE_MAX)
        .set_max_height(EDGE_MAX)
        .jpeg_set_out_colorspace(ColorSpace::Luma);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|_| no_picture())?;
    let (width, height) = decoder.dimensions().ok_or_else(no_picture)?;
    if !has_valid_size(width, height) {
        return Err(no_picture());
    }
    let grey = decoder.decode().map_err(|_| no_picture())?;
    GreyPicture::new(width, height, grey)
}

/// Returns the brightness of a pixel on white: grey, grey + alpha, RGB or RGBA.
fn grey_of(pixel: &[u8]) -> u8 {
    let sum = |rgb: &[u8]| rgb.iter().map(|c| u16::from(*c)).sum::<u16>() / 3;
    let on_white = |grey: u16, alpha: u8| {
        let alpha = u16::from(alpha);
        ((grey * alpha + 255 * (255 - alpha)) / 255) as u8
    };
    match pixel {
        [grey] => *grey,
        [grey, alpha] => on_white(u16::from(*grey), *alpha),
        [r, g, b] => sum(&[*r, *g, *b]) as u8,
        [r, g, b, alpha, ..] => on_white(sum(&[*r, *g, *b]), *alpha),
        [] => 255,
    }
}

fn no_picture() -> Fault {
    Fault::new(
        Exit::Malformed,
        "this is no picture that can be read",
        "use a PNG or a JPEG of at most 16 million pixels",
    )
}
