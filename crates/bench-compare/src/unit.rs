//! Units of measurement: normal form (`ns/op` becomes `sec/op`), the prefixes numbers are printed with, and which
//! direction is better. Never looks at samples.

use std::collections::BTreeMap;

use crate::number::fixed;

/// Which family of prefixes a unit is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Powers of 1000: `n µ m k M G T`.
    Decimal,
    /// Powers of 1024, for bytes: `Ki Mi Gi Ti`.
    Binary,
}

/// Which direction of a unit is an improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Smaller is better, as for `sec/op`.
    Lower,
    /// Larger is better, as for `B/s`.
    Higher,
}

/// What is known about the distribution of a unit's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Assumption {
    /// Nothing: medians, order statistics, the U test.
    #[default]
    Nothing,
    /// Values have no noise: any change is a change.
    Exact,
}

/// Brings a value and its unit into normal form: `ns` becomes `sec` and `MB` becomes `B` wherever they stand in
/// the numerator. O(length of the unit).
///
/// ```
/// use bench_compare::unit::tidy;
/// assert_eq!(tidy(2.0, "MB/s"), (2e6, "B/s".to_owned()));
/// assert_eq!(tidy(7.0, "op/ns"), (7.0, "op/ns".to_owned()));
/// ```
pub fn tidy(value: f64, unit: &str) -> (f64, String) {
    let mut factor = 1.0;
    let mut out = String::with_capacity(unit.len());
    let mut copied = 0;
    for token in tokens(unit) {
        let (replacement, scale) = match (token.denominator, token.text) {
            (false, "ns") => ("sec", 1e-9),
            (false, "MB") => ("B", 1e6),
            _ => continue,
        };
        out.push_str(&unit[copied..token.start]);
        out.push_str(replacement);
        copied = token.start + token.text.len();
        factor *= scale;
    }
    out.push_str(&unit[copied..]);
    (value * factor, out)
}

/// The family of prefixes of `unit`: binary if a token of its numerator counts bytes.
pub fn class_of(unit: &str) -> Class {
    let bytes = tokens(unit).any(|t| !t.denominator && matches!(t.text, "B" | "MB" | "bytes"));
    if bytes { Class::Binary } else { Class::Decimal }
}

/// The direction in which `unit` is better when the input does not say: times, bytes and allocations per operation
/// are better low, rates per second better high; anything else is unknown.
pub fn default_better(unit: &str) -> Option<Better> {
    let per_second = tokens(unit).any(|t| t.denominator && matches!(t.text, "s" | "sec"));
    if per_second {
        return Some(Better::Higher);
    }
    let cost =
        tokens(unit).any(|t| !t.denominator && matches!(t.text, "sec" | "B" | "bytes" | "allocs"));
    cost.then_some(Better::Lower)
}

/// The name of what `unit` measures, whatever its scale: `ms/op` and `sec/op` share one, `B/op` and `KiB/op` too.
/// Two different tidied units of one dimension in one comparison are a mistake of the input.
pub(crate) fn dimension(unit: &str) -> String {
    let mut out = String::with_capacity(unit.len());
    let mut copied = 0;
    for token in tokens(unit) {
        let replacement = match token.text {
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "sec" | "seconds" if !token.denominator => {
                "sec"
            }
            "B" | "bytes" | "KB" | "kB" | "KiB" | "MB" | "MiB" | "GB" | "GiB"
                if !token.denominator =>
            {
                "B"
            }
            _ => continue,
        };
        out.push_str(&unit[copied..token.start]);
        out.push_str(replacement);
        copied = token.start + token.text.len();
    }
    out.push_str(&unit[copied..]);
    out
}

/// What `Unit` lines of the input say, by tidied unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitTable {
    entries: BTreeMap<(String, String), String>,
}

impl UnitTable {
    /// Records `key=value` for `unit` (tidied). The first value of a key wins.
    ///
    /// # Errors
    /// The value that was set earlier, when it differs.
    pub fn set(&mut self, unit: &str, key: &str, value: &str) -> Result<(), String> {
        let slot = (unit.to_owned(), key.to_owned());
        match self.entries.get(&slot) {
            Some(earlier) if earlier != value => Err(earlier.clone()),
            Some(_) => Ok(()),
            None => {
                self.entries.insert(slot, value.to_owned());
                Ok(())
            }
        }
    }

    /// What the input says about `key` of `unit` (tidied).
    pub fn get(&self, unit: &str, key: &str) -> Option<&str> {
        self.entries
            .get(&(unit.to_owned(), key.to_owned()))
            .map(String::as_str)
    }

    /// All entries as (unit, key, value), sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.entries
            .iter()
            .map(|((unit, key), value)| (unit.as_str(), key.as_str(), value.as_str()))
    }

    /// The assumption under which `unit` is summarised.
    pub fn assumption(&self, unit: &str) -> Assumption {
        if self.get(unit, "assume") == Some("exact") {
            Assumption::Exact
        } else {
            Assumption::Nothing
        }
    }

    /// The direction in which `unit` is better: as the input says, else as [`default_better`] knows.
    pub fn better(&self, unit: &str) -> Option<Better> {
        match self.get(unit, "better") {
            Some("lower") => Some(Better::Lower),
            Some("higher") => Some(Better::Higher),
            _ => default_better(unit),
        }
    }
}

/// How the numbers of one row are printed: divided by a factor, with a number of decimals and a prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    decimals: usize,
    factor: f64,
    prefix: &'static str,
}

impl Scale {
    /// The scale that shows at least four significant digits of the value closest to zero, and so of all `values`.
    /// Zeros are left out of account. O(n).
    pub fn common(values: impl IntoIterator<Item = f64>, class: Class) -> Scale {
        let smallest = values
            .into_iter()
            .map(f64::abs)
            .filter(|v| *v != 0.0)
            .fold(f64::INFINITY, f64::min);
        if smallest == f64::INFINITY {
            return Scale {
                decimals: 3,
                factor: 1.0,
                prefix: "",
            };
        }
        let prefixes = prefixes(class);
        for &(factor, prefix, [hundred, ten, one]) in &prefixes {
            let decimals = match smallest {
                m if m >= hundred => 1,
                m if m >= ten => 2,
                m if m >= one => 3,
                _ => continue,
            };
            return Scale {
                decimals,
                factor,
                prefix,
            };
        }
        // Below the smallest prefix, more decimals keep the digits; ten of them are enough for anybody.
        let &(factor, prefix, _) = &prefixes[prefixes.len() - 1];
        let scaled = smallest / factor;
        let thresholds = [
            9.9995e-1, 9.9995e-2, 9.9995e-3, 9.9995e-4, 9.9995e-5, 9.9995e-6, 9.9995e-7,
        ];
        let decimals = 3 + thresholds
            .iter()
            .position(|t| scaled >= *t)
            .unwrap_or(thresholds.len());
        Scale {
            decimals,
            factor,
            prefix,
        }
    }

    /// Prints `value` in this scale, with the prefix glued to the digits.
    pub fn format(&self, value: f64) -> String {
        fixed(value / self.factor, self.decimals) + self.prefix
    }
}

/// Prints one number in the scale that suits it.
///
/// ```
/// use bench_compare::unit::{Class, scaled};
/// assert_eq!(scaled(1234.5, Class::Binary), "1.206Ki");
/// ```
pub fn scaled(value: f64, class: Class) -> String {
    Scale::common([value], class).format(value)
}

type Prefix = (f64, &'static str, [f64; 3]);

/// The prefixes of a class, largest first, with the values from which 1, 2 and 3 decimals are printed. The
/// thresholds lie where printing rounds up, so that 999.95 is 1.000k and not 1000.0.
fn prefixes(class: Class) -> Vec<Prefix> {
    const STEPS: [f64; 3] = [99.995, 9.9995, 0.99995];
    match class {
        Class::Decimal => {
            const NAMES: [(&str, i32); 8] = [
                ("T", 12),
                ("G", 9),
                ("M", 6),
                ("k", 3),
                ("", 0),
                ("m", -3),
                ("µ", -6),
                ("n", -9),
            ];
            // A threshold is the number nearest to its decimal text, as the printed value would be.
            let number = |text: String| text.parse().unwrap_or(f64::NAN);
            NAMES
                .map(|(name, exponent)| {
                    let at = STEPS.map(|step| number(format!("{step}e{exponent}")));
                    (number(format!("1e{exponent}")), name, at)
                })
                .to_vec()
        }
        Class::Binary => {
            const NAMES: [(&str, i32); 5] =
                [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10), ("", 0)];
            NAMES
                .map(|(name, exponent)| {
                    let factor = 2f64.powi(exponent);
                    (factor, name, STEPS.map(|step| step * factor))
                })
                .to_vec()
        }
    }
}

struct Token<'a> {
    text: &'a str,
    start: usize,
    denominator: bool,
}

/// Splits a unit at `*`, `/`, `-` and blanks. A `/` leads into the denominator, a `*` back out of it.
fn tokens(unit: &str) -> impl Iterator<Item = Token<'_>> {
    let mut denominator = false;
    let mut rest = unit.char_indices().peekable();
    std::iter::from_fn(move || {
        let separator = |c: char| matches!(c, '*' | '/' | '-') || c.is_whitespace();
        while let Some(&(_, c)) = rest.peek() {
            match c {
                '/' => denominator = true,
                '*' => denominator = false,
                c if separator(c) => {}
                _ => break,
            }
            rest.next();
        }
        let &(start, _) = rest.peek()?;
        let mut end = unit.len();
        while let Some(&(at, c)) = rest.peek() {
            if separator(c) {
                end = at;
                break;
            }
            rest.next();
        }
        Some(Token {
            text: &unit[start..end],
            start,
            denominator,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tidies_the_numerator_only() {
        for (unit, want, factor) in [
            ("ns/op", "sec/op", 1e-9),
            ("MB/s", "B/s", 1e6),
            ("p99-ns", "p99-sec", 1e-9),
            ("x-MB/s", "x-B/s", 1e6),
            ("op/ns", "op/ns", 1.0),
            ("sec/B", "sec/B", 1.0),
            ("ms/op", "ms/op", 1.0),
            ("a/b*ns", "a/b*sec", 1e-9),
            ("", "", 1.0),
        ] {
            assert_eq!(tidy(1.0, unit), (factor, want.to_owned()), "{unit}");
        }
        assert_eq!(tidy(1.0, "MB*ns").1, "B*sec");
    }

    #[test]
    fn classes_and_directions() {
        assert_eq!(class_of("B/op"), Class::Binary);
        assert_eq!(class_of("B/s"), Class::Binary);
        assert_eq!(class_of("sec/B"), Class::Decimal);
        assert_eq!(default_better("sec/op"), Some(Better::Lower));
        assert_eq!(default_better("p99-sec/op"), Some(Better::Lower));
        assert_eq!(default_better("B/s"), Some(Better::Higher));
        assert_eq!(default_better("allocs/op"), Some(Better::Lower));
        assert_eq!(default_better("widgets"), None);
        assert_eq!(dimension("ms/op"), dimension("sec/op"));
        assert_ne!(dimension("B/s"), dimension("B/op"));
    }

    #[test]
    fn scales_like_the_reference() {
        for (value, decimal, binary) in [
            (0.0, "0.000", "0.000"),
            (12.3456, "12.35", "12.35"),
            (999.94, "999.9", "999.9"),
            (999.95, "1.000k", "1000.0"),
            (1234.5, "1.234k", "1.206Ki"),
            (99995.0, "100.0k", "97.65Ki"),
            (9.9994e-9, "9.999n", "0.0000000100"),
            (2.2e-12, "0.002200n", "0.0000000000"),
            (-0.5, "-500.0m", "-0.5000"),
            (12345678901234.0, "12.35T", "11.23Ti"),
        ] {
            assert_eq!(scaled(value, Class::Decimal), decimal);
            assert_eq!(scaled(value, Class::Binary), binary);
        }
        let row = Scale::common([237.5e-9, 56.75e-9], Class::Decimal);
        assert_eq!(
            row.format(237.5e-9) + " " + &row.format(56.75e-9),
            "237.50n 56.75n"
        );
        let row = Scale::common([15.0135e-6, 2.145e-6], Class::Decimal);
        assert_eq!(
            row.format(15.0135e-6) + " " + &row.format(2.145e-6),
            "15.014µ 2.145µ"
        );
    }
}
