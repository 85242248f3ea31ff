//! Names of benchmarks: `Cache/impl=mutex/mix=r90-8` is a base name, parts (`/key=value` or positional text) and the
//! number of threads. Never looks at values.

/// The base name: what stands before the first `/`, or before the thread suffix when there is no part.
pub fn base(name: &str) -> &str {
    name.split_once('/')
        .map_or_else(|| split_threads(name).0, |(base, _)| base)
}

/// Splits off the suffix `-<digits>` that gives the number of threads; the suffix keeps its hyphen.
///
/// A name whose last part ends in a hyphen and digits for another reason loses them, which is how the format is
/// defined: `dist=zipf-1` is `dist=zipf` with one thread.
pub fn split_threads(name: &str) -> (&str, Option<&str>) {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if head.len() < name.len() && head.ends_with('-') {
        let (prefix, suffix) = name.split_at(head.len() - 1);
        (prefix, Some(suffix))
    } else {
        (name, None)
    }
}

/// The value of the first part `/key=value`, where `key` comes with its slash; `/gomaxprocs` is the thread suffix,
/// or a literal part of that name when there is none. `None` when there is no such part.
pub fn part<'a>(name: &'a str, key: &str) -> Option<&'a str> {
    let (prefix, threads) = split_threads(name);
    if key == "/gomaxprocs"
        && let Some(suffix) = threads
    {
        return Some(&suffix[1..]);
    }
    parts(prefix).find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
}

/// The keys of all `/key=value` parts, each with its slash, in order; `/gomaxprocs` if there is a thread suffix.
pub fn keys(name: &str) -> impl Iterator<Item = &str> {
    let (prefix, threads) = split_threads(name);
    parts(prefix)
        .filter_map(|part| part.split_once('=').map(|(key, _)| key))
        .chain(threads.map(|_| "/gomaxprocs"))
}

/// The name without the parts of `excluded` (keys with their slash; `.name` replaces the base name by `*`).
pub fn without(name: &str, excluded: &[String]) -> String {
    let (prefix, threads) = split_threads(name);
    let base = prefix.split('/').next().unwrap_or(prefix);
    let mut out = String::with_capacity(name.len());
    out.push_str(if excluded.iter().any(|k| k == ".name") {
        "*"
    } else {
        base
    });
    for part in parts(prefix) {
        let named = |key: &String| {
            part.strip_prefix(key.as_str())
                .is_some_and(|rest| rest.starts_with('='))
        };
        if !excluded.iter().any(named) {
            out.push_str(part);
        }
    }
    if let Some(suffix) = threads
        && !excluded.iter().any(|k| k == "/gomaxprocs")
    {
        out.push_str(suffix);
    }
    out
}

/// The parts after the base name, each with its leading slash.
fn parts(prefix: &str) -> impl Iterator<Item = &str> {
    let mut rest = prefix.find('/').map_or("", |at| &prefix[at..]);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest[1..].find('/').map_or(rest.len(), |at| at + 1);
        let (part, tail) = rest.split_at(end);
        rest = tail;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_names() {
        assert_eq!(base("Cache/impl=x-8"), "Cache");
        assert_eq!(base("Cache-8"), "Cache");
        assert_eq!(base(""), "");
        assert_eq!(split_threads("a-"), ("a-", None));
        assert_eq!(split_threads("-8"), ("", Some("-8")));
        assert_eq!(split_threads("a8"), ("a8", None));
        let name = "Cache/impl=mutex/pos/impl=two-8";
        assert_eq!(part(name, "/impl"), Some("mutex"));
        assert_eq!(part(name, "/gomaxprocs"), Some("8"));
        assert_eq!(part("A/gomaxprocs=3", "/gomaxprocs"), Some("3"));
        assert_eq!(part(name, "/pos"), None);
        assert_eq!(
            keys(name).collect::<Vec<_>>(),
            ["/impl", "/impl", "/gomaxprocs"]
        );
    }

    #[test]
    fn removes_parts() {
        let strip = |name: &str, keys: &[&str]| {
            without(
                name,
                &keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
            )
        };
        assert_eq!(strip("Cache/impl=x/dist=u-8", &["/impl"]), "Cache/dist=u-8");
        assert_eq!(
            strip("Cache/impl=x/dist=u-8", &[".name", "/gomaxprocs"]),
            "*/impl=x/dist=u"
        );
        assert_eq!(
            strip("Cache/implx=1//y-8", &["/impl"]),
            "Cache/implx=1//y-8"
        );
        assert_eq!(strip("Cache-8", &[]), "Cache-8");
    }
}
