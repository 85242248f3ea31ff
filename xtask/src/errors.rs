//! The two kinds of error a verb can end with, and how each is shown. Prints nothing itself.

use std::fmt;

/// The command line, or a file it names, makes no sense: exit code 2. Everything else that fails is code 1.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Ends the calling function with a [`Usage`] error.
macro_rules! usage {
    ($($arg:tt)*) => { return Err($crate::errors::Usage(format!($($arg)*)).into()) };
}
pub(crate) use usage;

/// Prints a line to standard output; a reader who has gone away (`| head`) must not end a measurement.
macro_rules! say {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($arg)*);
    }};
}
pub(crate) use say;

/// The exit code that belongs to an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if error.chain().any(|cause| cause.is::<Usage>()) {
        2
    } else {
        1
    }
}

/// The first paragraph of what `clap` has to say, as one line.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_two_and_the_rest_is_one() {
        let usage: anyhow::Error = Usage("no".into()).into();
        assert_eq!(exit_code(&usage.context("outer")), 2);
        assert_eq!(exit_code(&anyhow::anyhow!("disk full")), 1);
    }
}
