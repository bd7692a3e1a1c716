//! QR codes (ISO/IEC 18004): drawn for terminals, pages and paper, read from pictures.

use std::io::Read;

use fast_qr::{ECL, QRBuilder, QRCode};
use rqrr::PreparedImage;

use crate::api::{Exit, Fault};

/// Light modules that must stand around a code.
const BORDER: usize = 4;
/// Pixels per module of a PNG: readable from paper and by any reader of files.
const PNG_SCALE: usize = 8;
/// Longest edge of a picture that is read, in pixels.
const EDGE_MAX: usize = 8_192;
/// Most pixels of a picture that is read.
const PIXELS_MAX: usize = 1 << 24;

/// Where a code will be seen: decides how much of it may be dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Error level L.
    Screen,
    /// Error level M.
    Paper,
}

/// A drawn code: a square of dark and light modules with its border.
pub struct QrImage {
    size: usize,
    dark: Vec<bool>,
}

impl QrImage {
    /// Draws `text`. Upper-case URIs take the alphanumeric mode, which is a third denser.
    ///
    /// # Errors
    /// If the text does not fit into the largest code.
    pub fn draw(text: &str, medium: Medium) -> Result<Self, Fault> {
        let level = match medium {
            Medium::Screen => ECL::L,
            Medium::Paper => ECL::M,
        };
        let code = QRBuilder::new(text.to_ascii_uppercase()).ecl(level).build();
        let code = code.map_err(|_| {
            Fault::new(
                Exit::Malformed,
                "this is too long for a QR code",
                "use the text form instead",
            )
        })?;
        Ok(Self::with_border(&code))
    }

    fn with_border(code: &QRCode) -> Self {
        let size = code.size + 2 * BORDER;
        let mut dark = vec![false; size * size];
        for y in 0..code.size {
            for x in 0..code.size {
                dark[(y + BORDER) * size + x + BORDER] = code[y][x].value();
            }
        }
        Self { size, dark }
    }

    /// Modules along one edge, the border included.
    pub fn size(&self) -> usize {
        self.size
    }

    fn is_dark(&self, x: usize, y: usize) -> bool {
        y < self.size && x < self.size && self.dark[y * self.size + x]
    }

    /// Half blocks for a terminal, two rows of modules a line, light on dark and dark on light
    /// alike because both colours are set.
    pub fn to_terminal(&self) -> String {
        let mut out = String::new();
        for y in (0..self.size).step_by(2) {
            out.push_str("\x1b[30;107m");
            for x in 0..self.size {
                out.push(match (self.is_dark(x, y), self.is_dark(x, y + 1)) {
                    (true, true) => '█',
                    (true, false) => '▀',
                    (false, true) => '▄',
                    (false, false) => ' ',
                });
            }
            out.push_str("\x1b[0m\n");
        }
        out
    }

    /// One path on a white square.
    pub fn to_svg(&self) -> String {
        use std::fmt::Write;
        let size = self.size;
        let mut path = String::new();
        for y in 0..size {
            for x in (0..size).filter(|x| self.is_dark(*x, y)) {
                let _ = write!(path, "M{x} {y}h1v1h-1z");
            }
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {size}\" \
             shape-rendering=\"crispEdges\"><path fill=\"#fff\" d=\"M0 0h{size}v{size}H0z\"/>\
             <path fill=\"#000\" d=\"{path}\"/></svg>"
        )
    }

    /// A grey PNG, 8 pixels a module.
    ///
    /// # Errors
    /// None that the input can cause: the encoder writes to memory.
    pub fn to_png(&self) -> Result<Vec<u8>, Fault> {
        let edge = self.size * PNG_SCALE;
        let mut pixels = Vec::with_capacity(edge * edge);
        for y in 0..edge {
            for x in 0..edge {
                let dark = self.is_dark(x / PNG_SCALE, y / PNG_SCALE);
                pixels.push(if dark { 0 } else { 255 });
            }
        }
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, edge as u32, edge as u32);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Eight);
        let written = encoder.write_header().and_then(|mut w| w.write_image_data(&pixels));
        written.map_err(|_| {
            Fault::new(Exit::Bug, "the picture could not be written", "tell us how it came about")
        })?;
        Ok(out)
    }
}

/// The text of the first code found in grey pixels, row by row.
///
/// # Errors
/// If the sizes do not agree, or no code is found that can be read.
pub(crate) fn read_grey(pixels: &[u8], width: usize, height: usize) -> Result<String, Fault> {
    let sound = (1..=EDGE_MAX).contains(&width) && (1..=EDGE_MAX).contains(&height);
    if !sound || width * height > PIXELS_MAX || pixels.len() != width * height {
        return Err(no_picture());
    }
    let at = |x, y| pixels[y * width + x];
    let mut image = PreparedImage::prepare_from_greyscale(width, height, at);
    let found = image.detect_grids().into_iter().find_map(|grid| grid.decode().ok());
    found.map(|(_, text)| text).ok_or_else(no_code)
}

/// The text of the first code found in a PNG.
///
/// # Errors
/// If it is no PNG, too large, or without a code that can be read.
pub(crate) fn read_png(source: impl Read) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    source.take(PIXELS_MAX as u64).read_to_end(&mut bytes).map_err(|_| no_picture())?;
    let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    decoder.set_ignore_text_chunk(true);
    let mut reader = decoder.read_info().map_err(|_| no_picture())?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    if width > EDGE_MAX || height > EDGE_MAX || width * height > PIXELS_MAX {
        return Err(no_picture());
    }
    let size = reader.output_buffer_size().ok_or_else(no_picture)?;
    let mut raw = vec![0; size];
    let frame = reader.next_frame(&mut raw).map_err(|_| no_picture())?;
    let channels = frame.color_type.samples();
    let grey: Vec<u8> = raw[..frame.buffer_size()].chunks_exact(channels).map(grey_of).collect();
    read_grey(&grey, width, height)
}

/// Brightness of one pixel on white: grey, grey + alpha, RGB or RGBA.
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

fn no_code() -> Fault {
    Fault::new(Exit::Malformed, "no code found", "crop or use a larger picture")
}

fn no_picture() -> Fault {
    Fault::new(
        Exit::Malformed,
        "this is no picture that can be read",
        "use a PNG of at most 16 million pixels",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "MEZZAVOCE:C1/ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

    #[test]
    fn what_is_drawn_can_be_read() {
        for (length, medium) in
            [(20, Medium::Screen), (800, Medium::Paper), (1_600, Medium::Screen)]
        {
            let text = format!("{LINK}{}", "A7".repeat(length / 2));
            let png = QrImage::draw(&text, medium).unwrap().to_png().unwrap();
            assert_eq!(read_png(png.as_slice()).unwrap(), text);
        }
    }

    #[test]
    fn the_largest_card_is_version_24() {
        // 1,024 bytes and their check are 1,644 base32 digits; 121 modules with the border.
        let text = format!("MEZZAVOCE:C1/{}", "A".repeat(1_644));
        assert_eq!(QrImage::draw(&text, Medium::Screen).unwrap().size(), 121);
    }

    #[test]
    fn pictures_without_code_say_so() {
        let white = vec![255; 200 * 200];
        assert_eq!(read_grey(&white, 200, 200).unwrap_err().text, "no code found");
        assert!(read_grey(&white, 200, 201).is_err());
        assert!(read_grey(&[], 0, 0).is_err());
        assert!(read_png(b"not a picture".as_slice()).is_err());
    }

    #[test]
    fn terminal_and_svg_show_the_same_modules() {
        let code = QrImage::draw(LINK, Medium::Screen).unwrap();
        let dark = code.dark.iter().filter(|dark| **dark).count();
        assert_eq!(code.to_svg().matches("h1v1h-1z").count(), dark);
        let drawn = code.to_terminal();
        let halves = drawn.matches(['▀', '▄']).count() + 2 * drawn.matches('█').count();
        assert_eq!(halves, dark);
    }
}
