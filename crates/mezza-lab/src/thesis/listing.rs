//! The listings of the thesis as straight-line code, for counting and timing: every exponentiation
//! of the listing and no other. h^s is computed twice and h^-s as a power, as in listing 4.3.

use std::hint::black_box;

use mezza_core::CryptoRng;
use mezza_guard::Group;

/// A function that draws a party's key.
pub type DrawKey<G> = fn(&G, &mut dyn CryptoRng) -> <G as Group>::Scalar;

/// One run of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Listing 4.1.
    Dh,
    /// Listing 4.2, with this number of firewalls.
    DhFirewall(u32),
    /// Listing 4.3.
    DhComm,
    /// Equations 4.1 to 4.5.
    CommBasic,
    /// Equations 4.6 to 4.9.
    CommFull,
    /// Equations 4.6 to 4.9, with the check of GUARD-7.
    CommChecked,
    /// Listing 4.5.
    Eg,
    /// Listing 4.6.
    EgRerand,
    /// Listing 4.7.
    EgMaul,
    /// Listing 4.8, in the order that decrypts.
    EgReMaul,
}

impl Listing {
    /// Returns the exponentiations of a run, as the thesis counts them.
    pub const fn count_powers(self) -> u32 {
        match self {
            Self::Dh | Self::Eg => 4,
            Self::DhFirewall(count) => 4 + 2 * count,
            Self::DhComm => 10,
            Self::CommBasic => 13,
            Self::CommFull => 16,
            Self::CommChecked => 18,
            Self::EgRerand => 6,
            Self::EgMaul => 7,
            Self::EgReMaul => 9,
        }
    }

    /// Returns the same listing without a firewall.
    pub const fn base(self) -> Self {
        match self {
            Self::Dh | Self::DhFirewall(_) => Self::Dh,
            Self::DhComm | Self::CommBasic | Self::CommFull | Self::CommChecked => Self::DhComm,
            Self::Eg | Self::EgRerand | Self::EgMaul | Self::EgReMaul => Self::Eg,
        }
    }

    /// Returns the counted overhead of the firewall, in percent of the base.
    pub fn overhead_percent(self) -> f64 {
        100.0 * (f64::from(self.count_powers()) / f64::from(self.base().count_powers()) - 1.0)
    }

    /// Runs the listing once. Returns true if both ends agree, or the owner decrypts the text.
    pub fn run_once<G: Group>(self, group: &G, key: DrawKey<G>, rng: &mut dyn CryptoRng) -> bool {
        match self {
            Self::Dh => run_dh(group, key, 0, rng),
            Self::DhFirewall(count) => run_dh(group, key, count, rng),
            Self::DhComm => run_comm(group, Wall::None, rng),
            Self::CommBasic => run_comm(group, Wall::Basic, rng),
            Self::CommFull => run_comm(group, Wall::Full, rng),
            Self::CommChecked => run_comm(group, Wall::Checked, rng),
            Self::Eg => run_eg(group, [false; 2], rng),
            Self::EgRerand => run_eg(group, [true, false], rng),
            Self::EgMaul => run_eg(group, [false, true], rng),
            Self::EgReMaul => run_eg(group, [true; 2], rng),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wall {
    None,
    Basic,
    Full,
    Checked,
}

fn run_dh<G: Group>(group: &G, key: DrawKey<G>, walls: u32, rng: &mut dyn CryptoRng) -> bool {
    let a = key(group, rng);
    let b = key(group, rng);
    let mut ga = group.power_g(&a);
    let mut gb = group.power_g(&b);
    for _ in 0..walls {
        let w = group.draw_nonzero(rng);
        (ga, gb) = (group.power(&ga, &w), group.power(&gb, &w));
    }
    black_box(group.power(&gb, &a)) == black_box(group.power(&ga, &b))
}

fn run_comm<G: Group>(group: &G, wall: Wall, rng: &mut dyn CryptoRng) -> bool {
    let mut draw = || group.draw_nonzero(rng);
    let [a, b, mut r, mut s] = [draw(), draw(), draw(), draw()];
    let mut c1 = group.multiply(&group.power_g(&r), &group.power_h(&s));
    let mut c2 = group.multiply(&group.power_h(&s), &group.power_g(&b));
    let mut ga = group.power_g(&a);
    if wall != Wall::None {
        let [u, v] = [draw(), draw()];
        let shift = group.multiply(&group.power_g(&u), &group.power_h(&v));
        (c1, c2) = (group.multiply(&c1, &shift), group.multiply(&c2, &group.power_h(&v)));
        (r, s) = (group.add_scalars(&r, &u), group.add_scalars(&s, &v));
    }
    if matches!(wall, Wall::Full | Wall::Checked) {
        let alpha = draw();
        (c1, c2) = (group.power(&c1, &alpha), group.power(&c2, &alpha));
        ga = group.power(&ga, &alpha);
        (r, s) = (group.multiply_scalars(&r, &alpha), group.multiply_scalars(&s, &alpha));
    }
    let fits = || group.multiply(&group.power_g(&r), &group.power_h(&s)) == c1;
    if wall == Wall::Checked && !black_box(fits()) {
        return false;
    }
    let is_right = fits();
    let gb = group.multiply(&c2, &group.invert(&group.power_h(&s)));
    is_right && black_box(group.power(&gb, &a)) == black_box(group.power(&ga, &b))
}

fn run_eg<G: Group>(group: &G, [rerandomises, mauls]: [bool; 2], rng: &mut dyn CryptoRng) -> bool {
    let mut draw = || group.draw_nonzero(rng);
    let a = draw();
    let b = draw();
    let mut g = group.g();
    let mut h = group.power_g(&a);
    // Any text will do: g times h needs no power.
    let text = group.multiply(&g, &h);
    let mut back = None;
    if mauls {
        let (alpha, inverse) = loop {
            let alpha = draw();
            if let Some(inverse) = group.invert_scalar(&alpha) {
                break (alpha, inverse);
            }
        };
        let beta = draw();
        (g, h) = (group.power(&g, &alpha), group.power(&h, &beta));
        back = Some(group.multiply_scalars(&beta, &inverse));
    }
    let power_g = |x: &G::Scalar| if mauls { group.power(&g, x) } else { group.power_g(x) };
    let mut c0 = power_g(&b);
    let mut c1 = group.multiply(&group.power(&h, &b), &text);
    if rerandomises {
        let r = draw();
        (c0, c1) = (group.multiply(&c0, &power_g(&r)), group.multiply(&c1, &group.power(&h, &r)));
    }
    if let Some(back) = back {
        c0 = group.power(&c0, &back);
    }
    black_box(group.multiply(&c1, &group.invert(&group.power(&c0, &a)))) == text
}
