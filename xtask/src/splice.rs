//! The part of a document that a verb writes: the lines between `<!-- BEGIN name … -->` and `<!-- END name -->`.
//! Everything around it stays as it is. Opens no file.

use anyhow::Result;

use crate::errors::usage;

/// A document, cut at its two markers.
pub(crate) struct Block<'a> {
    before: &'a str,
    /// The lines between the markers.
    pub(crate) body: &'a str,
    after: &'a str,
    name: &'a str,
}

impl<'a> Block<'a> {
    /// Finds the block called `name` in the text of `file`.
    ///
    /// # Errors
    ///
    /// A usage error in one line, where a marker is missing, stands twice, or comes after the other.
    pub(crate) fn find(text: &'a str, file: &str, name: &'a str) -> Result<Block<'a>> {
        let (open, close) = (format!("<!-- BEGIN {name}"), format!("<!-- END {name} -->"));
        let once = |marker: &str| text.matches(marker).count() == 1;
        let (Some(begin), Some(end)) = (text.find(&open), text.find(&close)) else {
            usage!(
                "{file} has no line `{open} -->` with a line `{close}` after it; put them where the text belongs"
            );
        };
        if !once(&open) || !once(&close) {
            usage!("{file} has a marker of the block `{name}` more than once");
        }
        if end < begin {
            usage!("{file} has the END marker of the block `{name}` before its BEGIN marker");
        }
        let Some(line) = text[begin..end].find('\n') else {
            usage!("{file} has both markers of the block `{name}` on one line");
        };
        Ok(Block {
            before: &text[..begin],
            body: &text[begin + line + 1..end],
            after: &text[end + close.len()..],
            name,
        })
    }

    /// The whole document with `body` between the markers, and `by` in the first one.
    pub(crate) fn with(&self, by: &str, body: &str) -> String {
        let Block {
            before,
            after,
            name,
            ..
        } = self;
        format!("{before}<!-- BEGIN {name} ({by}) -->\n{body}<!-- END {name} -->{after}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a\n<!-- BEGIN x (old) -->\nold\n<!-- END x -->\nz\n";

    #[test]
    fn only_the_block_changes() {
        let block = Block::find(TEXT, "f", "x").unwrap();
        assert_eq!(block.body, "old\n");
        let new = block.with("by me", "new\n");
        assert_eq!(new, "a\n<!-- BEGIN x (by me) -->\nnew\n<!-- END x -->\nz\n");
        let again = Block::find(&new, "f", "x").unwrap().with("by me", "new\n");
        assert_eq!(again, new);
    }

    #[test]
    fn what_is_no_block_is_told() {
        let told = |text: &str| {
            Block::find(text, "f.md", "x")
                .err()
                .expect("an error")
                .to_string()
        };
        assert!(told("nothing").contains("f.md has no line `<!-- BEGIN x -->`"));
        assert!(told("<!-- BEGIN x -->\n").contains("no line"));
        assert!(told("<!-- END x -->\n<!-- BEGIN x -->\n").contains("before"));
        assert!(told(&format!("{TEXT}{TEXT}")).contains("more than once"));
        assert!(told("<!-- BEGIN x --><!-- END x -->").contains("on one line"));
    }
}
