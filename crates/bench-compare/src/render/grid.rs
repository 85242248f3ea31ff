//! Lays cells out in columns of text. Widths count code points; cells that span columns widen the stretchable ones.

/// Where the text of a cell stands in its width.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Center,
    Right,
}

struct Cell {
    row: usize,
    col: usize,
    span: usize,
    text: String,
    margin: &'static str,
    align: Align,
}

/// A table of text under construction: rows from top to bottom, cells from left to right.
#[derive(Default)]
pub(crate) struct Grid {
    cells: Vec<Cell>,
    fixed: Vec<bool>,
    row: usize,
    col: usize,
}

impl Grid {
    /// Starts a row (the first one is there from the beginning).
    pub(crate) fn next_row(&mut self) {
        if !self.cells.is_empty() {
            self.row += 1;
        }
        self.col = 0;
    }

    /// Moves right to a column.
    pub(crate) fn go_to(&mut self, col: usize) {
        self.col = self.col.max(col);
    }

    pub(crate) fn column(&self) -> usize {
        self.col
    }

    /// A cell of one column with the margin that suits it: none at the left edge and for empty text.
    pub(crate) fn cell(&mut self, text: impl Into<String>, align: Align) {
        let text = text.into();
        let margin = if self.col == 0 || text.is_empty() {
            ""
        } else {
            " "
        };
        self.span(1, text, align, margin);
    }

    pub(crate) fn span(
        &mut self,
        span: usize,
        text: impl Into<String>,
        align: Align,
        margin: &'static str,
    ) {
        self.cells.push(Cell {
            row: self.row,
            col: self.col,
            span,
            text: text.into(),
            margin,
            align,
        });
        self.col += span;
    }

    /// Forbids spanning cells to widen a column.
    pub(crate) fn fix(&mut self, col: usize) {
        if self.fixed.len() <= col {
            self.fixed.resize(col + 1, false);
        }
        self.fixed[col] = true;
    }

    /// The laid-out text, each row ended by a line feed. No row ends in blanks.
    pub(crate) fn finish(mut self) -> String {
        let cols = self.cells.iter().map(|c| c.col + c.span).max().unwrap_or(0);
        let mut margins = vec![0; cols];
        for cell in &self.cells {
            margins[cell.col] = margins[cell.col].max(width(cell.margin));
        }
        let widths = self.widths(cols, &margins);
        let mut starts = vec![0; cols + 1];
        for (at, w) in widths.iter().enumerate() {
            starts[at + 1] = starts[at] + w;
        }
        self.cells.sort_by_key(|c| (c.row, c.col));
        let (mut out, mut row, mut written) = (String::new(), 0, 0i64);
        for cell in &self.cells {
            if cell.text.trim().is_empty() && cell.margin.trim().is_empty() {
                continue;
            }
            while row < cell.row {
                out.push('\n');
                row += 1;
                written = 0;
            }
            // A cell to the left may have run over; its excess is repeated as blanks, which keeps a gap.
            let gap = starts[cell.col] as i64 - written;
            pad(&mut out, gap.unsigned_abs() as usize);
            pad(&mut out, margins[cell.col] - width(cell.margin));
            out += cell.margin;
            let room = starts[cell.col + cell.span] - starts[cell.col];
            let free = room
                .saturating_sub(margins[cell.col])
                .saturating_sub(width(&cell.text));
            let before = match cell.align {
                Align::Left => 0,
                Align::Center => free / 2,
                Align::Right => free,
            };
            pad(&mut out, before);
            out += &cell.text;
            written += gap + (margins[cell.col] + before + width(&cell.text)) as i64;
        }
        if !self.cells.is_empty() {
            out.push('\n');
        }
        out
    }

    /// Widths with margins: the widest single cell, then whatever spanning cells still need.
    fn widths(&mut self, cols: usize, margins: &[usize]) -> Vec<usize> {
        let mut widths = vec![0usize; cols];
        self.cells.sort_by_key(|c| c.span);
        for cell in &self.cells {
            let need = width(&cell.text) + margins[cell.col];
            if cell.span == 1 {
                widths[cell.col] = widths[cell.col].max(need);
                continue;
            }
            let spanned = cell.col..cell.col + cell.span;
            if widths[spanned.clone()].iter().sum::<usize>() >= need {
                continue;
            }
            let is_fixed = |col: &usize| self.fixed.get(*col).copied().unwrap_or(false);
            let taken: usize = spanned.clone().filter(is_fixed).map(|c| widths[c]).sum();
            let mut left = need as i64 - taken as i64;
            let mut open: Vec<usize> = spanned.filter(|c| !is_fixed(c)).collect();
            // The widest first: what exceeds the average of the rest need not grow.
            open.sort_by_key(|c| std::cmp::Reverse(widths[*c]));
            for (done, col) in open.iter().enumerate() {
                let rest = (open.len() - done) as i64;
                let average = (left + rest - 1).div_euclid(rest).max(0) as usize;
                widths[*col] = widths[*col].max(average);
                left -= widths[*col] as i64;
            }
        }
        widths
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn pad(out: &mut String, blanks: usize) {
    out.extend(std::iter::repeat_n(' ', blanks));
}
