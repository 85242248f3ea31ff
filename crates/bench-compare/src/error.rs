//! What can go wrong between a request and a report. Every message is one line: what, where, how to mend.

use std::fmt;

/// Why a comparison cannot be made. All of these are mistakes of the request or its input, never of the samples.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A filter or projection that does not parse.
    Syntax {
        /// Which argument: `filter`, `col`, ...
        what: String,
        /// The text.
        query: String,
        /// Where in the text, in characters from 0.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A key that no benchmark has.
    UnknownKey {
        /// Which argument: `col`, `row`, ...
        what: String,
        /// The key.
        key: String,
        /// Keys that exist.
        known: Vec<String>,
    },
    /// An input without a single benchmark line.
    Empty {
        /// The path.
        path: String,
    },
    /// A filter that leaves nothing.
    NothingMatches {
        /// The filter.
        filter: String,
    },
    /// Columns that share no row.
    NothingInCommon {
        /// What keeps them apart.
        why: String,
    },
    /// One benchmark measured in units that cannot be compared.
    MixedUnits {
        /// Which, and where.
        detail: String,
    },
    /// Samples of different machines or revisions that a table would put together.
    Mixed {
        /// The configuration key that differs.
        key: String,
        /// Two of its values.
        values: (String, String),
        /// Where they meet.
        place: String,
    },
    /// An option out of its range, or one that does not fit the input.
    Option {
        /// What is wrong and how to mend it.
        message: String,
    },
}

impl Error {
    pub(crate) fn option(message: impl Into<String>) -> Error {
        Error::Option {
            message: message.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax {
                what,
                query,
                column,
                message,
            } => {
                let column = column + 1;
                write!(
                    f,
                    "--{what}: {message} at column {column} of '{}'",
                    one_line(query)
                )
            }
            Error::UnknownKey { what, key, known } => {
                write!(
                    f,
                    "--{what}: no benchmark has the key '{}'; known keys: {}",
                    one_line(key),
                    known.join(" ")
                )
            }
            Error::Empty { path } => write!(f, "{path}: no benchmark lines"),
            Error::NothingMatches { filter } => {
                write!(f, "--filter: no benchmark matches '{}'", one_line(filter))
            }
            Error::NothingInCommon { why } => write!(f, "no common benchmarks: {why}"),
            Error::MixedUnits { detail } => write!(f, "mixed units: {detail}"),
            Error::Mixed {
                key,
                values: (a, b),
                place,
            } => write!(
                f,
                "refusing to mix {key} '{a}' and '{b}' in {place}; name {key} in --col, --row or --table to keep \
                 them apart, or compare anyway with --force"
            ),
            Error::Option { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

/// Control characters would break the promise of one line.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
