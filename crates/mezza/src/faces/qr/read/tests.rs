//! Pictures as users take them. Each is drawn by the test, so that its defect is known.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "places in pictures of a few hundred pixels"
)]

use super::*;
use crate::faces::qr::{Medium, QrImage};

/// The length of a usual card.
const LETTERS: usize = 480;

/// A scene: the brightness of each point of a plane, 0 to 255.
type Scene = Box<dyn Fn(f64, f64) -> f64>;

fn link(letter: &str) -> String {
    format!("MEZZAVOCE:C1/{}", letter.repeat(LETTERS / letter.len()))
}

/// Returns a code on white, with its border at the origin and one unit per module; and its size.
fn code(text: &str) -> (Scene, f64) {
    let code = QrImage::draw(text, Medium::Screen).unwrap();
    let size = code.size() as f64;
    let scene = move |x: f64, y: f64| {
        let inside = x >= 0.0 && y >= 0.0;
        if inside && code.is_dark(x as usize, y as usize) { 20.0 } else { 235.0 }
    };
    (Box::new(scene), size)
}

/// Takes a picture: each pixel is the mean of nine points of the scene.
fn taken(width: usize, height: usize, scene: impl Fn(f64, f64) -> f64) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(width * height);
    for y in 0..height {
        for x in 0..width {
            let parts = (0..9).map(|part| {
                let at = |pixel: usize, third: usize| pixel as f64 + (third as f64 + 0.5) / 3.0;
                scene(at(x, part % 3), at(y, part / 3))
            });
            pixels.push((parts.sum::<f64>() / 9.0) as u8);
        }
    }
    pixels
}

/// Takes a picture of a code with `scale` pixels per module, seen through `light`.
fn picture(text: &str, scale: f64, light: impl Fn(f64, f64, f64) -> f64) -> (Vec<u8>, usize) {
    let (scene, size) = code(text);
    let edge = (size * scale) as usize;
    (taken(edge, edge, |x, y| light(scene(x / scale, y / scale), x, y)), edge)
}

fn read(pixels: &[u8], edge: usize) -> Result<String, Fault> {
    read_grey(pixels, edge, edge)
}

#[test]
fn cli_11_a_screen_in_dark_mode_is_read() {
    let text = link("A7");
    let (pixels, edge) = picture(&text, 5.0, |grey, _, _| 255.0 - grey);
    assert_eq!(read(&pixels, edge).unwrap(), text);
}

#[test]
fn cli_11_a_small_picture_is_read() {
    let text = link("A7");
    for scale in [3.0, 3.3, 2.7] {
        let (pixels, edge) = picture(&text, scale, |grey, _, _| grey);
        assert_eq!(read(&pixels, edge).unwrap(), text, "{scale} pixels a module");
    }
}

#[test]
fn cli_11_a_shadow_over_half_is_read() {
    let text = link("A7");
    let (pixels, edge) =
        picture(&text, 5.0, |grey, x, y| if x + y < 380.0 { grey * 0.3 } else { grey });
    assert_eq!(read(&pixels, edge).unwrap(), text);
}

#[test]
fn cli_11_a_code_seen_from_the_side_is_read() {
    let text = link("A7");
    let (scene, size) = code(&text);
    let edge = 520;
    // Perspective: parallel lines of the paper meet far to the right.
    let pixels = taken(edge, edge, |x, y| {
        let u = x / 520.0;
        let v = y / 520.0;
        let depth = 1.0 - 0.18 * u;
        scene(size * u * 0.82 / depth, size * ((v - 0.5) * 1.05 / depth + 0.5))
    });
    assert_eq!(read(&pixels, edge).unwrap(), text);
}

/// Reads two codes side by side; the second one is shown through `light`.
fn pair(one: &str, other: &str, light: fn(f64) -> f64) -> Result<String, Fault> {
    let ((one, size), (other, _)) = (code(one), code(other));
    let scale = 4.0;
    let gap = 8.0;
    let width = (2.0 * size + gap) * scale;
    let height = size * scale;
    let pixels = taken(width as usize, height as usize, |x, y| {
        let x = x / scale;
        let y = y / scale;
        if x < size + gap / 2.0 { one(x, y) } else { light(other(x - size - gap, y)) }
    });
    read_grey(&pixels, width as usize, height as usize)
}

#[test]
fn cli_11_two_addresses_are_refused_and_another_code_is_passed_over() {
    let ann = link("A7");
    let ben = link("B6");
    for light in [|grey| grey, |grey| 255.0 - grey] {
        let fault = pair(&ann, &ben, light).unwrap_err();
        assert_eq!(fault.text, "the picture shows 2 different codes");
        assert_eq!(pair(&ann, &ann, light).unwrap(), ann);
    }
    let advert = "HTTPS://EXAMPLE.INVALID/".repeat(20);
    assert_eq!(pair(&advert, &ann, |grey| grey).unwrap(), ann);
    assert_eq!(pair(&advert, &advert, |grey| grey).unwrap(), advert);
}

#[test]
fn pictures_without_code_say_so() {
    let white = vec![255; 200 * 200];
    assert_eq!(read_grey(&white, 200, 200).unwrap_err().text, "no code found");
    assert!(read_grey(&white, 200, 201).is_err());
    assert!(read_grey(&[], 0, 0).is_err());
    assert!(read_picture(b"not a picture").is_err());
}

#[test]
fn cli_11_a_jpeg_is_read_and_whatever_was_done_to_it_ends() {
    let jpeg = include_bytes!("../../../../tests/cmd/alone/pictures.in/good.jpg");
    assert!(read_picture(jpeg).unwrap().to_ascii_uppercase().starts_with("MEZZAVOCE:C1/"));
    for cut in [3, 20, 200] {
        assert!(read_picture(&jpeg[..cut]).is_err(), "{cut}");
    }
    let mut state = 7_u32;
    for _ in 0..100 {
        let mut bytes = jpeg.to_vec();
        for _ in 0..8 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = state as usize % bytes.len();
            bytes[at] ^= (state >> 24) as u8;
        }
        bytes.truncate(bytes.len() - state as usize % 40);
        let _ = super::super::picture::GreyPicture::decode(&bytes);
    }
}
