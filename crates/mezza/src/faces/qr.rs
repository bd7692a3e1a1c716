//! QR codes (ISO/IEC 18004): drawn for terminals, pages and paper, read from pictures.

mod picture;
mod read;

use fast_qr::{ECL, QRBuilder, QRCode};

pub(crate) use picture::is_picture;
pub(crate) use read::{read_grey, read_picture};

use mezza_host::api::{Exit, Fault};

/// Width of the light border around a code, in modules.
const BORDER: usize = 4;
/// Pixels per module of a PNG: readable from paper and by any reader of files.
const PNG_SCALE: usize = 8;

/// Where a code is shown, which decides its error correction level.
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

    /// Returns the modules along one edge, border included.
    pub fn size(&self) -> usize {
        self.size
    }

    fn is_dark(&self, x: usize, y: usize) -> bool {
        y < self.size && x < self.size && self.dark[y * self.size + x]
    }

    /// Draws the code as half blocks for a terminal, two rows of modules per line. Both colours are
    /// set, so the code is readable on light and dark terminals.
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

    /// Draws the code as SVG: one path on a white square.
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

    /// Draws the code as a grey PNG, 8 pixels per module.
    ///
    /// # Errors
    /// None in practice: the encoder writes to memory.
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
            assert_eq!(read_picture(&png).unwrap(), text);
        }
    }

    #[test]
    fn the_largest_card_is_version_24() {
        // 1,024 bytes and their checksum are 1,644 base32 digits; 121 modules with the border.
        let text = format!("MEZZAVOCE:C1/{}", "A".repeat(1_644));
        assert_eq!(QrImage::draw(&text, Medium::Screen).unwrap().size(), 121);
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
