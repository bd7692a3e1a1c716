//! Reads QR codes in pictures. If one method finds nothing, others follow (CLI-11).
//!
//! | look | for |
//! |---|---|
//! | as it is, and inverted | paper, and screens in dark mode; both always, as one picture may hold both |
//! | twice as large | codes with less than 4 pixels a module, and codes seen from the side |
//! | compared with the paper around each place | shadows |

use rqrr::{BitGrid, Grid, PreparedImage};

use super::picture::GreyPicture;
use mezza_host::api::{Exit, Fault};

/// The first letters of the addresses that a code may hold.
const SCHEMES: [&str; 2] = ["MEZZAVOCE:", "MEZZA-NET:"];
/// Filter sizes as fractions of an edge, as wide as two to five modules, from large codes to small
/// ones.
const PAPER_PARTS: [usize; 3] = [24, 48, 96];

/// Returns the text of the code in grey pixels, row by row.
///
/// # Errors
/// If the sizes do not agree, no code can be read, or two addresses are shown.
pub(crate) fn read_grey(pixels: &[u8], width: usize, height: usize) -> Result<String, Fault> {
    the_one_in(&GreyPicture::new(width, height, pixels.to_vec())?)
}

/// Returns the text of the code in a PNG or a JPEG.
///
/// # Errors
/// As [`read_grey`]; and if the bytes are no such picture, or too large.
pub(crate) fn read_picture(bytes: &[u8]) -> Result<String, Fault> {
    the_one_in(&GreyPicture::decode(bytes)?)
}

fn the_one_in(picture: &GreyPicture) -> Result<String, Fault> {
    let mut texts = read_both(picture, find_codes);
    let doubled = if texts.is_empty() { picture.doubled() } else { None };
    for look in [find_codes, codes_in_shadow] {
        if texts.is_empty() {
            texts = read_both(picture, look);
        }
        if let Some(doubled) = doubled.as_ref().filter(|_| texts.is_empty()) {
            texts = read_both(doubled, look);
        }
    }
    the_one_of(texts)
}

/// Returns the only address, or the only other text. A picture with two addresses is refused,
/// because the user must choose.
fn the_one_of(mut texts: Vec<String>) -> Result<String, Fault> {
    let is_address = |text: &String| {
        let upper = text.to_ascii_uppercase();
        SCHEMES.iter().any(|scheme| upper.starts_with(scheme))
    };
    if texts.iter().any(is_address) {
        texts.retain(is_address);
    }
    texts.sort_by_key(|text| text.to_ascii_uppercase());
    texts.dedup_by(|one, other| one.eq_ignore_ascii_case(other));
    match texts.len() {
        0 => Err(Fault::new(
            Exit::Malformed,
            "no code found",
            "crop the picture to the code, take it from the front in even light, or use the text form",
        )),
        1 => Ok(texts.remove(0)),
        n => Err(Fault::new(
            Exit::Malformed,
            format!("the picture shows {n} different codes"),
            "crop it to the one that you mean",
        )),
    }
}

/// Reads the codes in a picture and in its inverse.
fn read_both(picture: &GreyPicture, look: fn(&GreyPicture) -> Vec<String>) -> Vec<String> {
    let mut texts = look(picture);
    texts.extend(look(&picture.inverted()));
    texts
}

/// Finds codes with the library's own threshold.
fn find_codes(picture: &GreyPicture) -> Vec<String> {
    let at = |x, y| picture.pixel_at(x, y);
    let mut image = PreparedImage::prepare_from_greyscale(picture.width, picture.height, at);
    decode_texts(&image.detect_grids())
}

/// Finds codes after comparing each pixel with the estimated brightness of the paper around it.
/// Several module sizes are tried.
fn codes_in_shadow(picture: &GreyPicture) -> Vec<String> {
    let edge = picture.width.min(picture.height);
    let mut found = Vec::new();
    for part in PAPER_PARTS {
        let paper = picture.close_gaps((edge / part).max(2));
        let is_dark =
            |x, y| 2 * u16::from(picture.pixel_at(x, y)) < u16::from(paper.pixel_at(x, y));
        let mut image = PreparedImage::prepare_from_bitmap(picture.width, picture.height, is_dark);
        found.extend(decode_texts(&image.detect_grids()));
    }
    found
}

fn decode_texts<G: BitGrid>(grids: &[Grid<G>]) -> Vec<String> {
    grids.iter().filter_map(|grid| grid.decode().ok()).map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests;
