//! Plots as SVG. No other module of the lab writes SVG.

/// Size of the picture, and its margins left, right, above and below, in pixels.
const SIZE: [f64; 2] = [720.0, 440.0];
const MARGINS: [f64; 4] = [80.0, 20.0, 40.0, 60.0];
/// Colours that colour-blind people can distinguish (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#000000"];
/// Pixels reserved for the name of a curve.
const NAME_WIDTH: f64 = 140.0;
/// The approximate number of grid lines on an axis.
const TICKS: f64 = 5.0;

/// The name of a curve and its points.
type Curve = (String, Vec<[f64; 2]>);

/// Curves over one axis.
pub struct Plot {
    title: &'static str,
    axes: [&'static str; 2],
    curves: Vec<Curve>,
}

impl Plot {
    /// Makes a plot without curves; `axes` are the axis labels with units, x first.
    pub fn new(title: &'static str, axes: [&'static str; 2]) -> Self {
        Self { title, axes, curves: Vec::new() }
    }

    /// Adds a curve. Points with NaN or infinite values are omitted.
    pub fn add_curve(&mut self, name: impl Into<String>, points: impl Iterator<Item = [f64; 2]>) {
        let points = points.filter(|point| point.iter().all(|value| value.is_finite()));
        self.curves.push((name.into(), points.collect()));
    }

    /// Renders the whole file.
    pub fn to_svg(&self) -> String {
        let [left, right, above, below] = MARGINS;
        let values =
            |at: usize| self.curves.iter().flat_map(move |(_, c)| c.iter().map(move |p| p[at]));
        let x = Axis::from_values(values(0), [left, SIZE[0] - right]);
        let y = Axis::from_values(values(1), [SIZE[1] - below, above]);
        let ([x0, x1], [y0, y1]) = (x.pixels, y.pixels);
        let columns = x.ticks().map(|value| {
            let at = x.pixel_of_value(value);
            draw_segment([at, y0], [at, y1])
                + &draw_text([at, y0 + 18.0], "middle", &x.label(value))
        });
        let rows = y.ticks().map(|value| {
            let at = y.pixel_of_value(value);
            draw_segment([x0, at], [x1, at])
                + &draw_text([x0 - 8.0, at + 4.0], "end", &y.label(value))
        });
        let names = [
            draw_text([left, above - 24.0], "start", self.title),
            draw_text([left, above - 8.0], "start", self.axes[1]),
            draw_text([x1, y0 + 40.0], "end", self.axes[0]),
        ];
        let curves = self.curves.iter().zip(COLOURS.iter().cycle()).zip(0_u8..);
        let curves = curves.map(|((curve, colour), at)| {
            draw_group(curve, colour, [&x, &y], left + NAME_WIDTH * f64::from(at))
        });
        let body: String = columns.chain(rows).chain(names).chain(curves).collect();
        let [wide, high] = SIZE;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n{body}</svg>\n"
        )
    }
}

/// An axis from 0, or from the minimum if that is negative, to a multiple of its step.
struct Axis {
    low: f64,
    high: f64,
    step: f64,
    pixels: [f64; 2],
}

impl Axis {
    fn from_values(values: impl Iterator<Item = f64>, pixels: [f64; 2]) -> Self {
        let (low, high) = values.fold((0.0_f64, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
        let rough = if high > low { (high - low) / TICKS } else { 1.0 };
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0].map(|m| m * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let low = (low / step).floor() * step;
        let high = (high / step).ceil().max(1.0) * step;
        Self { low, high, step, pixels }
    }

    fn pixel_of_value(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        self.pixels[0] + share * (self.pixels[1] - self.pixels[0])
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let Self { low, high, step, .. } = *self;
        let ticks = (0_u32..).map(move |n| low + f64::from(n) * step);
        ticks.take_while(move |tick| *tick < high + step / 2.0)
    }

    /// Formats a value with as many decimals as the step has.
    fn label(&self, value: f64) -> String {
        let decimals = (0..9).find(|n| self.step * 10_f64.powi(*n) > 0.99).unwrap_or_default();
        format!("{value:.*}", usize::try_from(decimals).unwrap_or_default())
    }
}

/// Draws a curve with its points, and its name below the plot.
fn draw_group((name, points): &Curve, colour: &str, [x, y]: [&Axis; 2], at: f64) -> String {
    let places: Vec<_> = points
        .iter()
        .map(|point| [x.pixel_of_value(point[0]), y.pixel_of_value(point[1])])
        .collect();
    let line: Vec<_> = places.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    let dot = |[x, y]: &[f64; 2]| format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
    let dots: Vec<_> = places.iter().map(dot).collect();
    format!(
        "<g fill=\"{colour}\"><polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>{}{}</g>\n",
        line.join(" "),
        dots.concat(),
        draw_text([at, SIZE[1] - 8.0], "start", name)
    )
}

fn draw_segment([x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) -> String {
    format!("<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"#ccc\"/>\n")
}

fn draw_text([x, y]: [f64; 2], anchor: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        let mut plot = Plot::new("latency < users & noise", ["users", "ms"]);
        plot.add_curve("mu 100", [[0.0, 0.0], [400.0, 7.5], [f64::NAN, 1.0]].into_iter());
        plot.add_curve("mu 200", [[400.0, 10.0]].into_iter());
        plot
    }

    #[test]
    fn curves_lie_where_their_points_are() {
        let svg = plot().to_svg();
        // 0 is at the origin; 400 users and 10 ms are in the opposite corner.
        assert!(svg.contains("points=\"80.0,380.0 700.0,125.0\""), "{svg}");
        assert!(svg.contains("<circle cx=\"700.0\" cy=\"40.0\" r=\"3\"/>"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3, "what is no number is left out");
        assert_eq!(svg.matches("<polyline").count(), 2);
    }

    #[test]
    fn text_is_escaped_and_every_tag_is_closed() {
        let svg = plot().to_svg();
        assert!(svg.contains("latency &lt; users &amp; noise"));
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert_eq!(svg.matches("<text ").count(), svg.matches("</text>").count());
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
        assert_eq!(svg, plot().to_svg());
    }

    #[test]
    fn axes_have_round_steps() {
        let labels = |values: &[f64]| {
            let axis = Axis::from_values(values.iter().copied(), [0.0, 1.0]);
            axis.ticks().map(|tick| axis.label(tick)).collect::<Vec<_>>()
        };
        assert_eq!(labels(&[10.0, 400.0]), ["0", "100", "200", "300", "400"]);
        assert_eq!(labels(&[0.07]), ["0.00", "0.02", "0.04", "0.06", "0.08"]);
        assert_eq!(labels(&[-3.0, 4.0]), ["-4", "-2", "0", "2", "4"]);
        assert_eq!(labels(&[]), ["0", "1"]);
    }
}
