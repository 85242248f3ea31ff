//! What a claim comes down to: quantities and the bounds that the claim sets them, judged by intervals over rounds.
//! It knows no claim.

use std::fmt::Write as _;

use super::data::{Data, Estimate, Quantity};

/// Where a quantity lies if the claim is true.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    Above(f64),
    Below(f64),
    Within(f64, f64),
}

/// One quantity of a claim.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    /// What the quantity is called in the table.
    pub(crate) label: String,
    pub(crate) quantity: Quantity,
    pub(crate) bound: Bound,
}

/// Why a claim cannot be judged on a data set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unfit {
    /// The data set has no such cell.
    NoData(String),
    /// The machine, or this workspace, has not got what it takes.
    NotHere(String),
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Confirmed,
    Refuted,
    /// The intervals hold both answers.
    Undecided(String),
    NotHere(String),
    NoData(String),
}

/// A claim judged on one data set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    /// The figures that it rests on, for the table.
    pub(crate) figure: String,
}

impl Bound {
    fn holds(self, estimate: Estimate) -> Option<bool> {
        let Estimate { lo, hi, .. } = estimate;
        let (inside, outside) = match self {
            Bound::Above(least) => (lo > least, hi <= least),
            Bound::Below(most) => (hi < most, lo >= most),
            Bound::Within(least, most) => (lo >= least && hi <= most, hi < least || lo > most),
        };
        match (inside, outside) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    fn text(self) -> String {
        match self {
            Bound::Above(least) => format!("> {}", number(least)),
            Bound::Below(most) => format!("< {}", number(most)),
            Bound::Within(least, most) => format!("{} to {}", number(least), number(most)),
        }
    }
}

impl Check {
    pub(crate) fn above(label: impl Into<String>, quantity: Quantity, least: f64) -> Check {
        Check::new(label, quantity, Bound::Above(least))
    }

    pub(crate) fn below(label: impl Into<String>, quantity: Quantity, most: f64) -> Check {
        Check::new(label, quantity, Bound::Below(most))
    }

    pub(crate) fn within(
        label: impl Into<String>,
        quantity: Quantity,
        least: f64,
        most: f64,
    ) -> Check {
        Check::new(label, quantity, Bound::Within(least, most))
    }

    fn new(label: impl Into<String>, quantity: Quantity, bound: Bound) -> Check {
        Check {
            label: label.into(),
            quantity,
            bound,
        }
    }
}

/// Judges a claim that holds if all its checks do.
pub(crate) fn judge(checks: &[Check], data: &Data) -> Result<Judged, Unfit> {
    let mut judged: Vec<(&Check, Estimate, Option<bool>)> = Vec::new();
    for check in checks {
        let estimate = check.quantity.estimate(data).map_err(Unfit::NoData)?;
        judged.push((check, estimate, check.bound.holds(estimate)));
    }
    let verdict = if judged.iter().any(|(.., holds)| *holds == Some(false)) {
        Verdict::Refuted
    } else if let Some((_, estimate, _)) = judged.iter().find(|(.., holds)| holds.is_none()) {
        let why = if estimate.hi.is_finite() {
            "the interval holds both answers".to_owned()
        } else {
            format!("{} rounds are too few for an interval", estimate.rounds)
        };
        Verdict::Undecided(why)
    } else {
        Verdict::Confirmed
    };
    Ok(Judged {
        verdict,
        figure: figure(&judged),
    })
}

/// So many quantities are listed one by one; of more, those that fail and the two ends.
const LISTED: usize = 4;

/// The figures that decide, each with its interval.
fn figure(judged: &[(&Check, Estimate, Option<bool>)]) -> String {
    let failing = judged.iter().filter(|(.., holds)| *holds != Some(true));
    let mut shown: Vec<&(&Check, Estimate, Option<bool>)> = if judged.len() <= LISTED {
        judged.iter().collect()
    } else {
        failing.take(LISTED - 1).collect()
    };
    let by_value = |a: &&(&Check, Estimate, Option<bool>),
                    b: &&(&Check, Estimate, Option<bool>)| {
        a.1.value.total_cmp(&b.1.value)
    };
    if shown.is_empty() {
        let ends = [
            judged.iter().min_by(by_value),
            judged.iter().max_by(by_value),
        ];
        shown.extend(ends.into_iter().flatten());
    }
    let mut text = String::new();
    for (check, estimate, _) in &shown {
        if !text.is_empty() {
            text.push_str("; ");
        }
        let _ = write!(text, "{} {}", check.label, shown_as(check, estimate));
    }
    let left = judged.len() - shown.len();
    if left > 0 {
        let _ = write!(text, "; {left} more");
    }
    text
}

/// `1.42× (1.38 to 1.47; claim: > 1)`.
fn shown_as(check: &Check, estimate: &Estimate) -> String {
    let Estimate { value, lo, hi, .. } = *estimate;
    let powers: f64 = check.quantity.terms.iter().map(|(_, power)| power).sum();
    let unit = if powers.abs() < 1e-9 {
        "×".to_owned()
    } else {
        format!(" {}", check.quantity.unit)
    };
    let value = if powers.abs() >= 1e-9 && value <= check.quantity.least() {
        "0".to_owned()
    } else {
        number(value)
    };
    let interval = if hi.is_finite() {
        let (lo, hi) = (number(lo), number(hi));
        if lo == hi {
            String::new()
        } else {
            format!("{lo} to {hi}; ")
        }
    } else {
        String::new()
    };
    format!("{value}{unit} ({interval}claim: {})", check.bound.text())
}

/// Three significant digits, thousands marked, no zeros at the end of a fraction.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "∞".to_owned();
    }
    if value >= 1000.0 {
        let digits = value.log10().floor();
        let unit = 10_f64.powf(digits - 2.0);
        let whole = format!("{:.0}", (value / unit).round() * unit);
        let mut text = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at) % 3 == 0 {
                text.push(',');
            }
            text.push(digit);
        }
        return text;
    }
    let decimals = match value {
        ..=0.0 => 0,
        // Two digits of what is small.
        ..0.1 => usize::try_from(1 - value.log10().floor() as i32)
            .unwrap_or(2)
            .min(9),
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn data(ratio: f64, rounds: u64) -> Data {
        let ns = "ns/op".to_owned();
        let figures = BTreeMap::from([
            (("a".to_owned(), ns.clone()), 100.0 * ratio),
            (("b".to_owned(), ns), 100.0),
        ]);
        Data::made_up(&[], &figures, rounds)
    }

    fn verdict(bound: Bound, ratio: f64, rounds: u64) -> Verdict {
        let check = Check::new("a / b", Quantity::ratio("a", "b"), bound);
        judge(&[check], &data(ratio, rounds)).unwrap().verdict
    }

    #[test]
    fn intervals_decide() {
        assert_eq!(verdict(Bound::Above(1.0), 1.5, 10), Verdict::Confirmed);
        assert_eq!(verdict(Bound::Above(1.0), 0.5, 10), Verdict::Refuted);
        assert_eq!(verdict(Bound::Below(1.0), 0.5, 10), Verdict::Confirmed);
        assert_eq!(verdict(Bound::Below(1.0), 1.5, 10), Verdict::Refuted);
        assert_eq!(
            verdict(Bound::Within(0.8, 1.2), 1.1, 10),
            Verdict::Confirmed
        );
        assert_eq!(verdict(Bound::Within(0.8, 1.2), 1.5, 10), Verdict::Refuted);
        assert_eq!(verdict(Bound::Within(0.8, 1.2), 0.5, 10), Verdict::Refuted);
        // Made-up figures are noisy: a ratio of 1 is neither above nor below 1.
        assert!(matches!(
            verdict(Bound::Above(1.0), 1.0, 10),
            Verdict::Undecided(_)
        ));
        let Verdict::Undecided(why) = verdict(Bound::Above(1.0), 9.0, 5) else {
            panic!("decided")
        };
        assert_eq!(why, "5 rounds are too few for an interval");
    }

    #[test]
    fn one_failure_refutes_and_is_shown() {
        let ratio = |least| Check::above(format!("c{least}"), Quantity::ratio("a", "b"), least);
        let checks: Vec<Check> = [0.5, 1.0, 1.5, 3.0, 0.1].map(ratio).to_vec();
        let judged = judge(&checks, &data(2.0, 10)).unwrap();
        assert_eq!(judged.verdict, Verdict::Refuted);
        assert!(judged.figure.starts_with("c3 2× ("), "{}", judged.figure);
        assert!(
            judged.figure.ends_with("claim: > 3); 4 more"),
            "{}",
            judged.figure
        );
        let missing = Check::above("x", Quantity::ratio("a", "nowhere"), 1.0);
        assert_eq!(
            judge(&[missing], &data(2.0, 10)),
            Err(Unfit::NoData("nowhere".to_owned()))
        );
    }

    #[test]
    fn numbers_are_short() {
        let texts = [
            0.000_123,
            0.5,
            1.0,
            1.426,
            12.34,
            123.4,
            1234.0,
            84_321.7,
            f64::INFINITY,
        ]
        .map(number);
        assert_eq!(
            texts,
            [
                "0.00012", "0.5", "1", "1.43", "12.3", "123", "1,230", "84,300", "∞"
            ]
        );
    }
}
