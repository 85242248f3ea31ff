//! The two small languages of a request: filters (`.unit:sec/op -/mix:r100`) and projections (`/impl@(mutex cow)`).
//! Turns text into trees and matches records; does not group anything.

use std::collections::HashMap;

use regex_lite::Regex;

use crate::error::Error;
use crate::format::{Failure, Measurement, Record, Source};
use crate::name;

/// A field of a record that a filter or a projection names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// `.config`: all configuration keys that are not named elsewhere.
    Config,
    /// `.fullname`: the name, without the parts that are named elsewhere.
    FullName,
    /// `.name`: the base name.
    Base,
    /// `.file`: the label of the input.
    File,
    /// `.unit`, in filters only.
    Unit,
    /// `/key`: a part of the name.
    Part(String),
    /// Any other text: a configuration key.
    Setting(String),
}

impl Key {
    fn parse(text: &str) -> Key {
        match text {
            ".config" => Key::Config,
            ".fullname" => Key::FullName,
            ".name" => Key::Base,
            ".file" => Key::File,
            ".unit" => Key::Unit,
            _ if text.starts_with('/') => Key::Part(text.to_owned()),
            _ => Key::Setting(text.to_owned()),
        }
    }

    /// The value of this key for something with a name and a configuration; absent is the empty text.
    pub(crate) fn value<'a>(&self, subject: &Subject<'a>) -> &'a str {
        match self {
            Key::Config | Key::Unit => "",
            Key::FullName => subject.name,
            Key::Base => name::base(subject.name),
            Key::File => subject.label,
            Key::Part(key) => name::part(subject.name, key).unwrap_or(""),
            Key::Setting(key) => subject
                .config
                .iter()
                .find(|(k, _)| k == key)
                .map_or("", |(_, v)| v.as_str()),
        }
    }
}

/// What a key is looked up in: a record or a failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) label: &'a str,
    pub(crate) config: &'a [(String, String)],
}

impl<'a> Subject<'a> {
    pub(crate) fn record(record: &'a Record, sources: &'a [Source]) -> Subject<'a> {
        Subject {
            name: &record.name,
            label: &sources[record.source].label,
            config: &record.config,
        }
    }

    pub(crate) fn failure(failure: &'a Failure, sources: &'a [Source]) -> Subject<'a> {
        Subject {
            name: &failure.cell,
            label: &sources[failure.source].label,
            config: &failure.config,
        }
    }
}

/// How the values of one field of a projection are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// As first seen in the input.
    First,
    /// `@alpha`: by text.
    Alpha,
    /// `@num`: by number, prefixes included; others behind.
    Num,
    /// `@(a b c)`: as listed; records with other values are left out.
    Fixed(Vec<String>),
}

/// One field of a projection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// What is projected.
    pub key: Key,
    /// The key as written.
    pub text: String,
    /// How its values are ordered.
    pub order: Order,
}

/// A filter over records and their measurements.
///
/// ```
/// use bench_compare::query::Filter;
/// assert!(Filter::parse("/impl:(mutex OR cow) -.unit:B/op").is_ok());
/// assert!(Filter::parse("/impl:").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
    keys: Vec<String>,
}

#[derive(Clone, Debug)]
enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Match(Key, Pattern),
}

#[derive(Clone, Debug)]
enum Pattern {
    Word(String),
    Regex(Regex),
}

impl Pattern {
    fn matches(&self, text: &str) -> bool {
        match self {
            Pattern::Word(word) => word == text,
            Pattern::Regex(regex) => regex.is_match(text),
        }
    }
}

/// What a filter says of a record: one word for the whole, or one per measurement.
enum Answer {
    Whole(bool),
    Each(Vec<bool>),
}

impl Filter {
    /// Parses a filter: terms `key:value`, `key:/regexp/`, `key:(a OR b)`, combined by juxtaposition or `AND`, by
    /// `OR`, by `-` for not, and parentheses; `*` matches all. O(length).
    ///
    /// # Errors
    /// [`Error::Syntax`].
    pub fn parse(text: &str) -> Result<Filter, Error> {
        let mut parser = Parser {
            lexer: Lexer { query: text, at: 0 },
            what: "filter",
            depth: 0,
        };
        let mut keys = Vec::new();
        let root = parser.any_of(&mut keys)?;
        parser.end()?;
        Ok(Filter { root, keys })
    }

    /// The keys that the filter looks at, as written.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The measurements of `record` that pass, as indices; empty if the record is left out.
    pub(crate) fn select(
        &self,
        subject: &Subject<'_>,
        measurements: &[Measurement],
        units_as_written: bool,
    ) -> Vec<usize> {
        let all = 0..measurements.len();
        match self.root.answer(subject, measurements, units_as_written) {
            Answer::Whole(true) => all.collect(),
            Answer::Whole(false) => Vec::new(),
            Answer::Each(mask) => all.filter(|i| mask[*i]).collect(),
        }
    }

    /// Whether a failure passes. It has no measurements, so terms on units pass it.
    pub(crate) fn admits(&self, subject: &Subject<'_>) -> bool {
        !matches!(self.root.answer(subject, &[], false), Answer::Whole(false))
    }
}

impl Node {
    fn answer(&self, subject: &Subject<'_>, measurements: &[Measurement], written: bool) -> Answer {
        match self {
            Node::Match(Key::Unit, pattern) => {
                let passes = |m: &Measurement| {
                    let tidied =
                        !(written && m.value == m.written_value) && pattern.matches(&m.unit);
                    tidied || pattern.matches(&m.written_unit)
                };
                Answer::Each(measurements.iter().map(passes).collect())
            }
            Node::Match(key, pattern) => Answer::Whole(pattern.matches(key.value(subject))),
            Node::Not(inner) => match inner.answer(subject, measurements, written) {
                Answer::Whole(passes) => Answer::Whole(!passes),
                Answer::Each(mask) => {
                    Answer::Each(mask.into_iter().map(|passes| !passes).collect())
                }
            },
            Node::And(terms) => {
                Node::combine(terms, false, |a, b| a && b, subject, measurements, written)
            }
            Node::Or(terms) => {
                Node::combine(terms, true, |a, b| a || b, subject, measurements, written)
            }
        }
    }

    /// Combines the answers of `terms`. A whole-record answer equal to `decisive` settles the matter; the other one
    /// leaves it to the masks.
    fn combine(
        terms: &[Node],
        decisive: bool,
        join: impl Fn(bool, bool) -> bool,
        subject: &Subject<'_>,
        measurements: &[Measurement],
        written: bool,
    ) -> Answer {
        let mut mask: Option<Vec<bool>> = None;
        for term in terms {
            match term.answer(subject, measurements, written) {
                Answer::Whole(passes) if passes == decisive => return Answer::Whole(decisive),
                Answer::Whole(_) => {}
                Answer::Each(other) => {
                    mask = Some(match mask {
                        None => other,
                        Some(mask) => mask
                            .into_iter()
                            .zip(other)
                            .map(|(a, b)| join(a, b))
                            .collect(),
                    });
                }
            }
        }
        mask.map_or(Answer::Whole(!decisive), Answer::Each)
    }
}

/// Parses a projection: keys separated by commas or blanks, each with an optional order. `what` names the argument
/// in errors. O(length).
///
/// # Errors
/// [`Error::Syntax`].
pub fn parse_projection(what: &str, text: &str) -> Result<Vec<Field>, Error> {
    let mut parser = Parser {
        lexer: Lexer { query: text, at: 0 },
        what,
        depth: 0,
    };
    let mut fields = Vec::new();
    loop {
        let next = parser.peek(false)?;
        match next.kind {
            Kind::End => return Ok(fields),
            Kind::Op(',') if !fields.is_empty() => {
                parser.take(false)?;
            }
            _ => {}
        }
        fields.push(parser.field()?);
    }
}

/// The order of two values under `@num`: by number where both have one; numbers before other text, NaN last.
pub(crate) fn compare_numbers(a: &str, b: &str) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match (fuzzy_number(a), fuzzy_number(b)) {
        (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(a.is_nan().cmp(&b.is_nan())),
        (Some(_), None) => Less,
        (None, Some(_)) => Greater,
        (None, None) => Equal,
    }
}

/// A number, or the first number inside the text with an optional prefix (`2k`, `1MiB`, `size16`).
fn fuzzy_number(text: &str) -> Option<f64> {
    if let Ok(value) = crate::number::parse_float(text) {
        return Some(value);
    }
    const PREFIXES: &str = "KMGTPEZY";
    let in_number = |c: char| c.is_ascii_digit() || c == '.';
    let start = text.find(in_number)?;
    let rest = &text[start..];
    let end = rest.find(|c| !in_number(c)).unwrap_or(rest.len());
    let value = crate::number::parse_float(&rest[..end]).ok()?;
    let mut suffix = rest[end..].chars();
    let power = suffix
        .next()
        .and_then(|c| PREFIXES.find(if c == 'k' { 'K' } else { c }))
        .map_or(0, |i| i + 1);
    let step: f64 = if power > 0 && suffix.next() == Some('i') {
        1024.0
    } else {
        1000.0
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "at most eight"
    )]
    Some(value * step.powi(power as i32))
}

#[derive(Clone, Debug)]
enum Kind {
    End,
    Op(char),
    And,
    Or,
    Word,
    Quoted,
    Regex(Regex),
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    text: String,
    start: usize,
}

struct Lexer<'a> {
    query: &'a str,
    at: usize,
}

const OPERATORS: [char; 5] = ['(', ')', ':', '@', ','];
/// At the start of a word these are operators too; inside one they are letters, so that `foo-bar` is one word.
const START_OPERATORS: [char; 7] = ['(', ')', ':', '@', ',', '-', '*'];

impl Lexer<'_> {
    /// The next token; `/` opens a regular expression where a value may stand.
    fn next(&mut self, value: bool) -> Result<Token, (usize, String)> {
        let rest = &self.query[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        let start = self.at;
        let token = |kind, text: &str| Token {
            kind,
            text: text.to_owned(),
            start,
        };
        let Some(first) = trimmed.chars().next() else {
            return Ok(token(Kind::End, ""));
        };
        if START_OPERATORS.contains(&first) {
            self.at += 1;
            return Ok(token(Kind::Op(first), &trimmed[..1]));
        }
        if value && first == '/' {
            return self.regex(trimmed);
        }
        if first == '"' {
            let (word, length) = unquote(trimmed).map_err(|message| (start, message.to_owned()))?;
            self.at += length;
            return Ok(Token {
                kind: Kind::Quoted,
                text: word,
                start,
            });
        }
        let end = trimmed
            .find(|c: char| c.is_whitespace() || OPERATORS.contains(&c))
            .unwrap_or(trimmed.len());
        self.at += end;
        let word = &trimmed[..end];
        let kind = match word {
            "AND" => Kind::And,
            "OR" => Kind::Or,
            _ => Kind::Word,
        };
        Ok(token(kind, word))
    }

    fn regex(&mut self, text: &str) -> Result<Token, (usize, String)> {
        let start = self.at;
        let length = regex_end(&text[1..]).ok_or((start, "missing close '/'".to_owned()))?;
        let source = &text[1..=length];
        let regex =
            Regex::new(source).map_err(|e| (start, format!("bad regular expression: {e}")))?;
        let after = text[length + 2..].chars().next();
        if after.is_some_and(|c| !c.is_whitespace() && !START_OPERATORS.contains(&c)) {
            let message =
                "a blank or an operator must follow the regular expression (unescaped '/'?)";
            return Err((start + length + 2, message.to_owned()));
        }
        self.at += length + 2;
        Ok(Token {
            kind: Kind::Regex(regex),
            text: source.to_owned(),
            start,
        })
    }
}

/// The length of the regular expression before its closing slash: the first one outside brackets and parentheses.
fn regex_end(text: &str) -> Option<usize> {
    let (mut brackets, mut parens) = (0u32, 0i64);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '/' if brackets == 0 && parens == 0 => return Some(at),
            '[' => brackets += 1,
            ']' => brackets = brackets.saturating_sub(1),
            '(' if brackets == 0 => parens += 1,
            ')' if brackets == 0 => parens -= 1,
            '\\' => {
                chars.next();
            }
            _ => {}
        }
    }
    None
}

/// Reads a quoted word with the usual escapes; gives it and the length of its quoted form.
fn unquote(text: &str) -> Result<(String, usize), &'static str> {
    const BAD: &str = "bad escape sequence";
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((out, at + 1)),
            '\\' => {
                let (_, escape) = chars.next().ok_or("missing end quote")?;
                let mut code = |digits: usize, radix: u32| {
                    let mut value = 0u32;
                    for _ in 0..digits {
                        let digit = chars
                            .next()
                            .and_then(|(_, c)| c.to_digit(radix))
                            .ok_or(BAD)?;
                        value = value * radix + digit;
                    }
                    char::from_u32(value).ok_or(BAD)
                };
                out.push(match escape {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'a' => '\x07',
                    'b' => '\x08',
                    'f' => '\x0c',
                    'v' => '\x0b',
                    '\\' | '"' => escape,
                    'x' => code(2, 16)?,
                    'u' => code(4, 16)?,
                    'U' => code(8, 16)?,
                    _ => return Err(BAD),
                });
            }
            c => out.push(c),
        }
    }
    Err("missing end quote")
}

/// How deep parentheses and negations may nest; deeper text is a mistake, and must not exhaust the stack.
const DEPTH: usize = 200;

struct Parser<'a> {
    lexer: Lexer<'a>,
    what: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn error<T>(&self, at: usize, message: impl Into<String>) -> Result<T, Error> {
        let query = self.lexer.query;
        let column = query[..at.min(query.len())].chars().count();
        Err(Error::Syntax {
            what: self.what.to_owned(),
            query: query.to_owned(),
            column,
            message: message.into(),
        })
    }

    fn take(&mut self, value: bool) -> Result<Token, Error> {
        self.lexer
            .next(value)
            .or_else(|(at, message)| self.error(at, message))
    }

    fn peek(&mut self, value: bool) -> Result<Token, Error> {
        let at = self.lexer.at;
        let token = self.take(value);
        self.lexer.at = at;
        token
    }

    fn end(&mut self) -> Result<(), Error> {
        let token = self.take(false)?;
        match token.kind {
            Kind::End => Ok(()),
            _ => self.error(token.start, format!("unexpected '{}'", token.text)),
        }
    }

    fn any_of(&mut self, keys: &mut Vec<String>) -> Result<Node, Error> {
        let mut terms = vec![self.all_of(keys)?];
        while matches!(self.peek(false)?.kind, Kind::Or) {
            self.take(false)?;
            terms.push(self.all_of(keys)?);
        }
        Ok(if terms.len() == 1 {
            terms.remove(0)
        } else {
            Node::Or(terms)
        })
    }

    fn all_of(&mut self, keys: &mut Vec<String>) -> Result<Node, Error> {
        let mut terms = vec![self.term(keys)?];
        loop {
            let next = self.peek(false)?;
            match next.kind {
                Kind::And => {
                    self.take(false)?;
                }
                Kind::Op('(' | '-' | '*') | Kind::Word | Kind::Quoted => {
                    terms.push(self.term(keys)?)
                }
                Kind::Op(')') | Kind::Or | Kind::End => break,
                _ => return self.error(next.start, format!("unexpected '{}'", next.text)),
            }
        }
        Ok(if terms.len() == 1 {
            terms.remove(0)
        } else {
            Node::And(terms)
        })
    }

    fn term(&mut self, keys: &mut Vec<String>) -> Result<Node, Error> {
        let token = self.take(false)?;
        self.depth += 1;
        if self.depth > DEPTH {
            return self.error(token.start, format!("nested deeper than {DEPTH}"));
        }
        let node = match token.kind {
            Kind::Op('(') => {
                let node = self.any_of(keys)?;
                let close = self.take(false)?;
                if !matches!(close.kind, Kind::Op(')')) {
                    return self.error(close.start, "missing ')'");
                }
                node
            }
            Kind::Op('-') => Node::Not(Box::new(self.term(keys)?)),
            Kind::Op('*') => Node::And(Vec::new()),
            Kind::Word | Kind::Quoted => self.comparison(&token, keys)?,
            _ => return self.error(token.start, "expected key:value or a subexpression"),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self, key: &Token, keys: &mut Vec<String>) -> Result<Node, Error> {
        if !matches!(self.take(false)?.kind, Kind::Op(':')) {
            return self.error(key.start, "expected key:value");
        }
        let parsed = Key::parse(&key.text);
        if parsed == Key::Config {
            return self.error(key.start, ".config is only allowed in projections");
        }
        if key.text.is_empty() {
            return self.error(key.start, "a key must not be empty");
        }
        keys.push(key.text.clone());
        let value = self.take(true)?;
        if !matches!(value.kind, Kind::Op('(')) {
            return match pattern(value) {
                Some(pattern) => Ok(Node::Match(parsed, pattern)),
                None => self.error(key.start, "expected key:value"),
            };
        }
        let mut terms = Vec::new();
        loop {
            let value = self.take(true)?;
            let at = value.start;
            match pattern(value) {
                Some(pattern) => terms.push(Node::Match(parsed.clone(), pattern)),
                None => return self.error(at, "expected a value"),
            }
            let next = self.take(true)?;
            match next.kind {
                Kind::Op(')') => return Ok(Node::Or(terms)),
                Kind::Or => {}
                _ => return self.error(next.start, "values must be separated by OR"),
            }
        }
    }

    fn field(&mut self) -> Result<Field, Error> {
        let token = self.take(false)?;
        if !matches!(token.kind, Kind::Word | Kind::Quoted) || token.text.is_empty() {
            return self.error(token.start, "expected a key");
        }
        let key = Key::parse(&token.text);
        if key == Key::Unit {
            return self.error(token.start, ".unit is only allowed in filters");
        }
        let mut order = Order::First;
        if matches!(self.peek(false)?.kind, Kind::Op('@')) {
            self.take(false)?;
            order = self.order(&key)?;
        }
        Ok(Field {
            key,
            text: token.text,
            order,
        })
    }

    fn order(&mut self, key: &Key) -> Result<Order, Error> {
        let token = self.take(false)?;
        match (token.kind, token.text.as_str()) {
            (Kind::Word | Kind::Quoted, "alpha") => Ok(Order::Alpha),
            (Kind::Word | Kind::Quoted, "num") => Ok(Order::Num),
            (Kind::Word | Kind::Quoted, "first") => Ok(Order::First),
            (Kind::Word | Kind::Quoted, other) => self.error(
                token.start,
                format!("unknown order '{other}' (alpha, num or a list in parentheses)"),
            ),
            (Kind::Op('('), _) if *key == Key::Config => {
                self.error(token.start, "a fixed order is not allowed for .config")
            }
            (Kind::Op('('), _) => {
                let mut values = Vec::new();
                loop {
                    let value = self.take(false)?;
                    match value.kind {
                        Kind::Word | Kind::Quoted => values.push(value.text),
                        Kind::Op(')') if values.is_empty() => {
                            return self.error(value.start, "nothing to match");
                        }
                        Kind::Op(')') => return Ok(Order::Fixed(values)),
                        _ => return self.error(value.start, "missing ')'"),
                    }
                }
            }
            _ => self.error(token.start, "expected alpha, num or a list in parentheses"),
        }
    }
}

fn pattern(token: Token) -> Option<Pattern> {
    match token.kind {
        Kind::Word | Kind::Quoted => Some(Pattern::Word(token.text)),
        Kind::Regex(regex) => Some(Pattern::Regex(regex)),
        _ => None,
    }
}

/// The ranks of a fixed order; a value listed twice stands where it is listed last.
pub(crate) fn fixed_ranks(values: &[String]) -> HashMap<String, usize> {
    values
        .iter()
        .enumerate()
        .map(|(i, v)| (v.clone(), i))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject<'a>(name: &'a str, config: &'a [(String, String)]) -> Subject<'a> {
        Subject {
            name,
            label: "a.txt",
            config,
        }
    }

    fn selects(filter: &str, name: &str) -> Vec<usize> {
        let config = vec![("cpu".to_owned(), "some cpu".to_owned())];
        let values = [
            Measurement::new(1.0, "ns/op"),
            Measurement::new(0.0, "B/op"),
        ];
        let filter = Filter::parse(filter).unwrap_or_else(|e| panic!("{filter}: {e}"));
        filter.select(&subject(name, &config), &values, false)
    }

    #[test]
    fn filters_select_records_and_measurements() {
        let name = "Get/impl=mutex/mix=r90-2";
        for (filter, want) in [
            ("*", vec![0, 1]),
            ("/impl:mutex", vec![0, 1]),
            ("/impl:cow", vec![]),
            ("-/impl:cow", vec![0, 1]),
            (".unit:ns/op", vec![0]),
            (".unit:sec/op", vec![0]),
            (".unit:(ns/op OR B/op) /mix:r90", vec![0, 1]),
            ("-.unit:ns/op", vec![1]),
            ("/impl:/^mu/ AND /gomaxprocs:2", vec![0, 1]),
            ("cpu:\"some cpu\" .name:Get", vec![0, 1]),
            (".unit:ns/op OR /impl:mutex", vec![0, 1]),
            (".unit:ns/op OR /impl:cow", vec![0]),
            (
                "(/impl:cow OR .file:a.txt) .fullname:/mix=r[0-9]/",
                vec![0, 1],
            ),
            ("absent:\"\"", vec![0, 1]),
        ] {
            assert_eq!(selects(filter, name), want, "{filter}");
        }
    }

    #[test]
    fn malformed_queries_say_where() {
        for (filter, column) in [
            ("", 0),
            ("a", 0),
            ("a:", 0),
            ("a:b )", 4),
            ("(a:b", 4),
            ("a:/x", 2),
            ("a:/(/", 2),
            ("a:/x/y", 5),
            ("a:(b c)", 5),
            (".config:x", 0),
            ("\"a", 0),
            ("a:b , c:d", 4),
        ] {
            match Filter::parse(filter) {
                Err(Error::Syntax { column: at, .. }) => assert_eq!(at, column, "{filter}"),
                other => panic!("{filter}: {other:?}"),
            }
        }
        let deep = "-".repeat(100_000) + "a:b";
        assert!(Filter::parse(&deep).is_err());
        for text in [
            "/a@",
            "/a@what",
            "/a@(",
            "/a@()",
            "/a@(x,y)",
            ".config@(a)",
            ".unit",
            ",a",
            "a,",
            "@num",
        ] {
            assert!(
                matches!(parse_projection("col", text), Err(Error::Syntax { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn projections_parse() {
        let fields =
            parse_projection("col", "/impl@(mutex cow), .name@alpha cpu@num \"odd key\"").unwrap();
        assert_eq!(fields.len(), 4);
        assert_eq!(
            fields[0].order,
            Order::Fixed(vec!["mutex".to_owned(), "cow".to_owned()])
        );
        assert_eq!(fields[1].key, Key::Base);
        assert_eq!(fields[3].key, Key::Setting("odd key".to_owned()));
    }

    #[test]
    fn numbers_sort_by_size() {
        let mut values = ["x", "2k", "nan", "1Ki", "10", "9", "size3M"];
        values.sort_by(|a, b| compare_numbers(a, b));
        assert_eq!(values, ["9", "10", "1Ki", "2k", "size3M", "nan", "x"]);
    }
}
