//! Linear regression: least squares with intercept, and the share of explained variance.

/// A fitted line: `y = sum of coefficient x variable`, where the first variable is 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The intercept, then a coefficient for each variable.
    pub coefficients: Vec<f64>,
    /// The share of the variance of y that the line explains, over all points.
    pub r2: f64,
}

/// Fits points of `(variables, y)`. Too few or degenerate points give NaN.
pub fn fit_line(points: &[(Vec<f64>, f64)]) -> Fit {
    let wide = points.first().map_or(0, |(x, _)| x.len()) + 1;
    let row = |x: &[f64]| std::iter::once(1.0).chain(x.iter().copied()).collect::<Vec<f64>>();
    // The normal equations; the right-hand side is the last column.
    let mut equations = vec![vec![0.0; wide + 1]; wide];
    for (x, y) in points {
        let row = row(x);
        for (a, equation) in row.iter().zip(&mut equations) {
            for (sum, b) in equation.iter_mut().zip(row.iter().chain([y])) {
                *sum += a * b;
            }
        }
    }
    let coefficients = solve_equations(equations);
    let count: f64 = points.iter().map(|_| 1.0).sum();
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let at = |x: &[f64]| row(x).iter().zip(&coefficients).map(|(a, c)| a * c).sum::<f64>();
    let left: f64 = points.iter().map(|(x, y)| (y - at(x)).powi(2)).sum();
    let all: f64 = points.iter().map(|(_, y)| (y - mean).powi(2)).sum();
    Fit { coefficients, r2: 1.0 - left / all }
}

/// Solves linear equations by Gaussian elimination, with the largest pivot first.
fn solve_equations(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let n = rows.len();
    for column in 0..n {
        let largest =
            (column..n).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()));
        rows.swap(column, largest.unwrap_or(column));
        let pivot = rows[column].clone();
        for (at, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            debug_assert_ne!(at, column, "the pivot stays");
            let times = row[column] / pivot[column];
            row.iter_mut().zip(&pivot).for_each(|(value, p)| *value -= times * p);
        }
    }
    rows.iter().enumerate().map(|(at, row)| row[n] / row[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_are_found_and_curves_are_not() {
        let plane = |x: f64, y: f64| (vec![x, y], 3.0 + 2.0 * x - 0.5 * y);
        let fit = fit_line(&[plane(1.0, 5.0), plane(2.0, 9.0), plane(7.0, 1.0), plane(0.0, 4.0)]);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(fit.coefficients[0], 3.0) && near(fit.coefficients[1], 2.0), "{fit:?}");
        assert!(near(fit.coefficients[2], -0.5) && near(fit.r2, 1.0), "{fit:?}");
        let square = |x: f64| (vec![x], x * x);
        let fit = fit_line(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0].map(square));
        assert!((0.9..0.95).contains(&fit.r2), "{fit:?}");
    }

    #[test]
    fn a_point_is_no_line() {
        assert!(fit_line(&[(vec![1.0], 1.0)]).r2.is_nan());
        assert!(fit_line(&[(vec![1.0], 1.0), (vec![1.0], 2.0)]).coefficients[1].is_nan());
    }
}
