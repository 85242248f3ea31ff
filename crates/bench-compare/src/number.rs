//! Numbers as the benchmark format spells them: reading decimal, hexadecimal and special floats, writing the
//! shortest text that reads back as the same number. Never touches units.

use std::fmt;

/// Why a number could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// The text is no number.
    Syntax,
    /// The text is a number that does not fit the type.
    Range,
}

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NumberError::Syntax => "invalid syntax",
            NumberError::Range => "value out of range",
        })
    }
}

impl std::error::Error for NumberError {}

/// Reads a decimal integer with an optional sign.
///
/// # Errors
/// [`NumberError::Syntax`] for anything but digits after the sign, [`NumberError::Range`] beyond 64 bits.
pub fn parse_integer(text: &str) -> Result<i64, NumberError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumberError::Syntax);
    }
    text.parse().map_err(|_| NumberError::Range)
}

/// Reads a floating-point number: decimal or hexadecimal (`0x1.8p3`), `inf`, `infinity` and `nan` in any case;
/// `_` may stand between digits. O(length).
///
/// # Errors
/// [`NumberError::Syntax`] for anything else, [`NumberError::Range`] for a finite number too large for 64 bits.
pub fn parse_float(text: &str) -> Result<f64, NumberError> {
    let cleaned;
    let mut body = text;
    if text.contains('_') {
        cleaned = without_underscores(text).ok_or(NumberError::Syntax)?;
        body = &cleaned;
    }
    let (negative, unsigned) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    if let Some(hex) = unsigned
        .strip_prefix("0x")
        .or_else(|| unsigned.strip_prefix("0X"))
    {
        let value = parse_hexadecimal(hex)?;
        return Ok(if negative { -value } else { value });
    }
    let value: f64 = body.parse().map_err(|_| NumberError::Syntax)?;
    let spelled_as_word = unsigned
        .as_bytes()
        .first()
        .is_some_and(u8::is_ascii_alphabetic);
    if value.is_infinite() && !spelled_as_word {
        return Err(NumberError::Range);
    }
    Ok(value)
}

/// Writes `value` in the shortest form that reads back unchanged: plain digits for exponents from -4 to 5,
/// scientific notation with at least two exponent digits outside.
pub fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Writes `value` with `decimals` digits after the point; infinities and NaN as the format spells them.
pub fn fixed(value: f64, decimals: usize) -> String {
    if value.is_finite() {
        format!("{value:.decimals$}")
    } else {
        shortest(value)
    }
}

/// Like [`fixed`], always with a sign.
pub fn fixed_signed(value: f64, decimals: usize) -> String {
    if value.is_finite() {
        format!("{value:+.decimals$}")
    } else if value.is_nan() {
        "+NaN".to_owned()
    } else {
        shortest(value)
    }
}

/// Drops underscores, each of which must stand between two digits (or after a `0x` prefix).
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_hex = text
        .trim_start_matches(['+', '-'])
        .get(..2)
        .is_some_and(|p| p.eq_ignore_ascii_case("0x"));
    let digit = |b: Option<&u8>| {
        b.is_some_and(|b| {
            if is_hex {
                b.is_ascii_hexdigit()
            } else {
                b.is_ascii_digit()
            }
        })
    };
    let mut out = String::with_capacity(text.len());
    for (i, ch) in text.char_indices() {
        if ch != '_' {
            out.push(ch);
            continue;
        }
        let before = i.checked_sub(1).and_then(|j| bytes.get(j));
        let after_prefix = is_hex && before.is_some_and(|b| b.eq_ignore_ascii_case(&b'x'));
        if !(digit(before) || after_prefix) || !digit(bytes.get(i + 1)) {
            return None;
        }
    }
    Some(out)
}

/// Reads what follows `0x`: digits with an optional point, then the binary exponent, which is required.
fn parse_hexadecimal(text: &str) -> Result<f64, NumberError> {
    let (digits, exponent) = text.split_once(['p', 'P']).ok_or(NumberError::Syntax)?;
    let mut exponent = match parse_integer(exponent) {
        Ok(e) => e.clamp(-100_000, 100_000),
        Err(NumberError::Range) if exponent.starts_with('-') => -100_000,
        Err(NumberError::Range) => 100_000,
        Err(e) => return Err(e),
    };
    let (mut mantissa, mut seen, mut point) = (0u64, false, false);
    for b in digits.bytes() {
        if b == b'.' && !point {
            point = true;
            continue;
        }
        let digit = char::from(b).to_digit(16).ok_or(NumberError::Syntax)?;
        seen = true;
        if mantissa >> 58 == 0 {
            mantissa = mantissa << 4 | u64::from(digit);
            exponent -= if point { 4 } else { 0 };
        } else {
            // Beyond 58 bits a digit can only decide a rounding: it stays as one sticky bit.
            mantissa |= u64::from(digit != 0);
            exponent += if point { 0 } else { 4 };
        }
    }
    if !seen {
        return Err(NumberError::Syntax);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "clamped above, and each digit moves it by four"
    )]
    let value = libm::scalbn(
        mantissa as f64,
        exponent.clamp(-1_000_000, 1_000_000) as i32,
    );
    if value.is_infinite() {
        Err(NumberError::Range)
    } else {
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_spelling() {
        for (text, want) in [
            ("1", 1.0),
            ("-1.5e3", -1500.0),
            ("+.5", 0.5),
            ("1_000", 1000.0),
            ("0x1.8p3", 12.0),
            ("0X_1p-1", 0.5),
            ("Inf", f64::INFINITY),
            ("-infinity", f64::NEG_INFINITY),
        ] {
            assert_eq!(parse_float(text), Ok(want), "{text}");
        }
        assert!(parse_float("nan").is_ok_and(f64::is_nan));
        for text in [
            "",
            "x",
            "1_",
            "_1",
            "1__0",
            "0x1",
            "0xp1",
            "1e",
            "--1",
            "0x1p",
            "1.2.3",
            "0x1.2.3p1",
        ] {
            assert_eq!(parse_float(text), Err(NumberError::Syntax), "{text}");
        }
        for text in ["1e999", "-1e999", "0x1p2000", "0x1p99999999999999999999"] {
            assert_eq!(parse_float(text), Err(NumberError::Range), "{text}");
        }
        assert_eq!(parse_float("0x1p-99999999999999999999"), Ok(0.0));
    }

    #[test]
    fn reads_integers() {
        assert_eq!(parse_integer("+12"), Ok(12));
        assert_eq!(parse_integer("-3"), Ok(-3));
        assert_eq!(
            parse_integer("9223372036854775808"),
            Err(NumberError::Range)
        );
        for text in ["", "+", "1.0", "1e3", "1_0"] {
            assert_eq!(parse_integer(text), Err(NumberError::Syntax), "{text}");
        }
    }

    #[test]
    fn writes_the_shortest_text() {
        for (value, want) in [
            (1.79769e-7, "1.79769e-07"),
            (1e6, "1e+06"),
            (123456.0, "123456"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (2345678.5, "2.3456785e+06"),
            (-0.0, "-0"),
            (1e300, "1e+300"),
        ] {
            assert_eq!(shortest(value), want);
        }
    }
}
