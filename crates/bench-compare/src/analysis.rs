//! From records to tables: filters, groups by projection, orders rows and columns, summarises cells and compares
//! them with the baseline column. Refuses what cannot be compared; prints nothing.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::error::Error;
use crate::format::{Corpus, Failure, Record};
use crate::name;
use crate::noise::drift_notes;
use crate::query::{
    Field, Filter, Key, Order, Subject, compare_numbers, fixed_ranks, parse_projection,
};
use crate::report::{
    Cell, Label, MACHINE_KEYS, REVISION_KEYS, Report, Request, Table, Total, label_text,
};
use crate::sample::{Comparison, Observation, Round, Sample, Summary, holm_adjusted};
use crate::stats::geometric_mean;
use crate::unit::{Assumption, class_of, dimension};

/// Makes the tables of `request` from `corpus`. O(records log records), plus the tests.
///
/// # Errors
/// [`Error`]: a query that does not parse, an option out of range, an input without benchmarks, a filter or columns
/// that leave nothing to show, units that cannot be compared, machines or revisions that must not be mixed.
pub fn analyze(corpus: &Corpus, request: &Request) -> Result<Report, Error> {
    for (name, value) in [("alpha", request.alpha), ("confidence", request.confidence)] {
        if !(0.0..=1.0).contains(&value) {
            return Err(Error::option(format!(
                "--{name}: {value} is not between 0 and 1"
            )));
        }
    }
    let filter = Filter::parse(&request.filter)?;
    let plan = Plan::new(request)?;
    if !request.compat
        && let Some(source) = corpus.sources.iter().find(|s| s.records == 0)
    {
        return Err(Error::Empty {
            path: source.path.clone(),
        });
    }
    let picked = pick(corpus, request, &filter, &plan);
    if !request.compat {
        plan.check_keys(corpus)?;
        if picked.is_empty() {
            return Err(Error::NothingMatches {
                filter: request.filter.clone(),
            });
        }
    }
    let mut notes = Vec::new();
    let relaxed = if request.compat {
        Vec::new()
    } else {
        relaxed_keys(corpus, request, &plan, &picked, &mut notes)
    };
    let builder = Builder::new(corpus, request, &plan, &relaxed, &picked);
    let mut report = builder.build(filter, notes)?;
    report.notes.extend(drift_notes(&report));
    Ok(report)
}

/// A record that passed, with the measurements that did.
struct Picked<'a> {
    record: &'a Record,
    measurements: Vec<usize>,
}

fn pick<'a>(
    corpus: &'a Corpus,
    request: &Request,
    filter: &Filter,
    plan: &Plan,
) -> Vec<Picked<'a>> {
    let mut picked = Vec::new();
    for record in &corpus.records {
        let subject = Subject::record(record, &corpus.sources);
        if !plan.admits(&subject) {
            continue;
        }
        let measurements = filter.select(&subject, &record.measurements, request.compat);
        if !measurements.is_empty() {
            picked.push(Picked {
                record,
                measurements,
            });
        }
    }
    picked
}

/// The four projections of a request, parsed.
struct Plan {
    table: Vec<Field>,
    row: Vec<Field>,
    col: Vec<Field>,
    ignore: Vec<Field>,
}

impl Plan {
    fn new(request: &Request) -> Result<Plan, Error> {
        Ok(Plan {
            table: parse_projection("table", &request.table)?,
            row: parse_projection("row", &request.row)?,
            col: parse_projection("col", &request.col)?,
            ignore: parse_projection("ignore", &request.ignore)?,
        })
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &Field)> {
        let fields = [
            ("table", &self.table),
            ("row", &self.row),
            ("col", &self.col),
            ("ignore", &self.ignore),
        ];
        fields
            .into_iter()
            .flat_map(|(what, fields)| fields.iter().map(move |f| (what, f)))
    }

    /// Whether a configuration key is named where it keeps values apart.
    fn separates(&self, key: &str) -> bool {
        self.named()
            .any(|(what, f)| what != "ignore" && f.key == Key::Setting(key.to_owned()))
    }

    fn mentions(&self, key: &Key) -> bool {
        self.named().any(|(_, f)| f.key == *key)
    }

    /// Fixed orders are filters as well.
    fn admits(&self, subject: &Subject<'_>) -> bool {
        self.named().all(|(_, field)| match &field.order {
            Order::Fixed(values) => values.iter().any(|v| v == field.key.value(subject)),
            _ => true,
        })
    }

    /// A key that no record has is a mistake of typing.
    fn check_keys(&self, corpus: &Corpus) -> Result<(), Error> {
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for record in &corpus.records {
            known.extend(name::keys(&record.name));
            known.extend(record.config.iter().map(|(k, _)| k.as_str()));
        }
        for (what, field) in self.named() {
            let exists = match &field.key {
                Key::Part(key) => key == "/gomaxprocs" || known.contains(key.as_str()),
                Key::Setting(key) => known.contains(key.as_str()),
                _ => true,
            };
            if !exists {
                let builtin = [".name", ".fullname", ".file", ".config"];
                let known = builtin
                    .into_iter()
                    .chain(known)
                    .map(str::to_owned)
                    .collect();
                return Err(Error::UnknownKey {
                    what: what.to_owned(),
                    key: field.text.clone(),
                    known,
                });
            }
        }
        Ok(())
    }
}

/// Keys that must not split tables although they differ: revisions, since comparing them is what people do, and
/// machines if the user insists.
fn relaxed_keys(
    corpus: &Corpus,
    request: &Request,
    plan: &Plan,
    picked: &[Picked<'_>],
    notes: &mut Vec<String>,
) -> Vec<String> {
    let machine: &[&str] = if request.force { &MACHINE_KEYS } else { &[] };
    let mut relaxed = Vec::new();
    for key in REVISION_KEYS.iter().chain(machine) {
        if plan.mentions(&Key::Setting((*key).to_owned())) {
            continue;
        }
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for p in picked {
            let value = p.record.config(key).unwrap_or("");
            if !seen.iter().any(|(v, _)| *v == value) {
                seen.push((value, &corpus.sources[p.record.source].label));
            }
        }
        if seen.len() > 1 {
            let list: Vec<String> = seen
                .iter()
                .map(|(v, label)| format!("{label}: '{v}'"))
                .collect();
            notes.push(format!(
                "{key} differs and is compared across ({})",
                list.join(", ")
            ));
            relaxed.push((*key).to_owned());
        }
    }
    relaxed
}

/// One field of a key, with configuration groups expanded.
struct Flat {
    name: String,
    key: Key,
    order: Order,
    ranks: HashMap<String, usize>,
}

/// A projection made concrete, with the keys seen so far.
struct Axis {
    flats: Vec<Flat>,
    ids: HashMap<Label, usize>,
    labels: Vec<Label>,
}

impl Axis {
    fn id(&mut self, label: Label) -> usize {
        if let Some(id) = self.ids.get(&label) {
            return *id;
        }
        for (flat, value) in self.flats.iter_mut().zip(&label) {
            let next = flat.ranks.len();
            if flat.order == Order::First && !flat.ranks.contains_key(value) {
                flat.ranks.insert(value.clone(), next);
            }
        }
        let id = self.labels.len();
        self.labels.push(label.clone());
        self.ids.insert(label, id);
        id
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        for (flat, (a, b)) in self
            .flats
            .iter()
            .zip(self.labels[a].iter().zip(&self.labels[b]))
        {
            if a == b {
                continue;
            }
            let rank = |v: &String| flat.ranks.get(v).copied().unwrap_or(0);
            let by_order = match &flat.order {
                Order::First | Order::Fixed(_) => rank(a).cmp(&rank(b)),
                Order::Alpha => a.cmp(b),
                Order::Num => compare_numbers(a, b),
            };
            // Values that their order cannot tell apart are still two values.
            return by_order.then_with(|| a.cmp(b));
        }
        Ordering::Equal
    }
}

/// The cells of one table by row and column.
type RawCells<'a> = BTreeMap<(usize, usize), RawCell<'a>>;
/// All tables by key and unit.
type RawTables<'a> = BTreeMap<(usize, usize), RawCells<'a>>;

#[derive(Default)]
struct RawCell<'a> {
    observations: Vec<Observation>,
    residues: HashSet<usize>,
    records: Vec<&'a Record>,
}

struct Builder<'a> {
    corpus: &'a Corpus,
    request: &'a Request,
    plan: &'a Plan,
    picked: &'a [Picked<'a>],
    excluded_name: Vec<String>,
    config_keys: Vec<String>,
}

impl<'a> Builder<'a> {
    fn new(
        corpus: &'a Corpus,
        request: &'a Request,
        plan: &'a Plan,
        relaxed: &[String],
        picked: &'a [Picked<'a>],
    ) -> Builder<'a> {
        let mut excluded_name = Vec::new();
        let mut excluded_config: Vec<String> = relaxed.to_vec();
        for (_, field) in plan.named() {
            match &field.key {
                Key::Base => excluded_name.push(".name".to_owned()),
                Key::Part(key) => excluded_name.push(key.clone()),
                Key::Setting(key) => excluded_config.push(key.clone()),
                _ => {}
            }
        }
        let mut config_keys: Vec<String> = Vec::new();
        let mut last: Option<&Arc<Vec<(String, String)>>> = None;
        for p in picked {
            let config = &p.record.config;
            if last.is_some_and(|l| Arc::ptr_eq(l, config)) {
                continue;
            }
            last = Some(config);
            for (key, _) in config.iter() {
                if !excluded_config.contains(key) && !config_keys.contains(key) {
                    config_keys.push(key.clone());
                }
            }
        }
        Builder {
            corpus,
            request,
            plan,
            picked,
            excluded_name,
            config_keys,
        }
    }

    fn axis(&self, fields: &[Field]) -> Axis {
        let mut flats = Vec::new();
        for field in fields {
            let ranks = match &field.order {
                Order::Fixed(values) => fixed_ranks(values),
                _ => HashMap::new(),
            };
            if field.key != Key::Config {
                let (name, key, order) =
                    (field.text.clone(), field.key.clone(), field.order.clone());
                flats.push(Flat {
                    name,
                    key,
                    order,
                    ranks,
                });
                continue;
            }
            for key in &self.config_keys {
                // The reference means to order these as first seen, but sorts them by text.
                let by_text = self.request.compat && field.order == Order::First;
                let order = if by_text {
                    Order::Alpha
                } else {
                    field.order.clone()
                };
                flats.push(Flat {
                    name: key.clone(),
                    key: Key::Setting(key.clone()),
                    order,
                    ranks: HashMap::new(),
                });
            }
        }
        Axis {
            flats,
            ids: HashMap::new(),
            labels: Vec::new(),
        }
    }

    /// What no projection shows: cells that differ in it hold more than one benchmark.
    fn residue(&self) -> Axis {
        let field = |key, text: &str| Field {
            key,
            text: text.to_owned(),
            order: Order::First,
        };
        let mut fields = Vec::new();
        if !self.plan.mentions(&Key::Config) {
            fields.push(field(Key::Config, ".config"));
        }
        if !self.plan.mentions(&Key::FullName) {
            fields.push(field(Key::FullName, ".fullname"));
        }
        self.axis(&fields)
    }

    fn project(&self, axis: &Axis, subject: &Subject<'_>) -> Label {
        let value = |flat: &Flat| match &flat.key {
            Key::FullName => name::without(subject.name, &self.excluded_name),
            key => key.value(subject).to_owned(),
        };
        axis.flats.iter().map(value).collect()
    }

    fn build(&self, filter: Filter, mut notes: Vec<String>) -> Result<Report, Error> {
        let mut table_axis = self.axis(&self.plan.table);
        let mut row_axis = self.axis(&self.plan.row);
        let mut col_axis = self.axis(&self.plan.col);
        let mut residue_axis = self.residue();
        let mut units: Vec<&str> = Vec::new();
        // (table key, unit) -> (row, column) -> cell
        let mut tables: RawTables<'a> = BTreeMap::new();
        for p in self.picked {
            let subject = Subject::record(p.record, &self.corpus.sources);
            let table = table_axis.id(self.project(&table_axis, &subject));
            let row = row_axis.id(self.project(&row_axis, &subject));
            let col = col_axis.id(self.project(&col_axis, &subject));
            let residue = residue_axis.id(self.project(&residue_axis, &subject));
            for &index in &p.measurements {
                let m = &p.record.measurements[index];
                let keeps_spelling = self.request.compat && m.value == m.written_value;
                let unit: &str = if keeps_spelling {
                    &m.written_unit
                } else {
                    &m.unit
                };
                let unit = units.iter().position(|u| *u == unit).unwrap_or_else(|| {
                    units.push(unit);
                    units.len() - 1
                });
                let cell = tables
                    .entry((table, unit))
                    .or_default()
                    .entry((row, col))
                    .or_default();
                cell.observations.push(Observation {
                    value: m.value,
                    round: p.record.round.map(|number| Round {
                        source: p.record.source,
                        number,
                    }),
                });
                cell.residues.insert(residue);
                cell.records.push(p.record);
            }
        }
        if !self.request.compat {
            self.check_units(&tables, &units, &row_axis)?;
            if !self.request.force {
                self.check_mixture(&tables, &table_axis, &col_axis)?;
            }
        }
        let mut keys: Vec<(usize, usize)> = tables.keys().copied().collect();
        keys.sort_by(|a, b| table_axis.compare(a.0, b.0).then(a.1.cmp(&b.1)));
        let mut made = Vec::with_capacity(keys.len());
        for key in keys {
            let raw = &tables[&key];
            let label = table_axis.labels[key.0].clone();
            made.push(self.table(
                label,
                units[key.1],
                raw,
                &row_axis,
                &col_axis,
                &residue_axis,
            ));
        }
        self.check_base(&made)?;
        self.check_common(&made, &col_axis)?;
        notes.extend(notes_on(&made));
        let admitted = |f: &&Failure| {
            let subject = Subject::failure(f, &self.corpus.sources);
            self.plan.admits(&subject) && filter.admits(&subject)
        };
        let names = |axis: &Axis| axis.flats.iter().map(|f| f.name.clone()).collect();
        Ok(Report {
            request: self.request.clone(),
            table_fields: names(&table_axis),
            row_fields: names(&row_axis),
            col_fields: names(&col_axis),
            tables: made,
            failures: self
                .corpus
                .failures
                .iter()
                .filter(admitted)
                .cloned()
                .collect(),
            notes,
        })
    }

    fn table(
        &self,
        key: Label,
        unit: &str,
        raw: &RawCells<'_>,
        row_axis: &Axis,
        col_axis: &Axis,
        residue_axis: &Axis,
    ) -> Table {
        let assumption = self.corpus.units.assumption(unit);
        let sorted = |ids: BTreeSet<usize>, axis: &Axis| {
            let mut ids: Vec<usize> = ids.into_iter().collect();
            ids.sort_by(|a, b| axis.compare(*a, *b));
            ids
        };
        let rows = sorted(raw.keys().map(|k| k.0).collect(), row_axis);
        let mut cols = sorted(raw.keys().map(|k| k.1).collect(), col_axis);
        let mut has_base = true;
        if let Some(base) = &self.request.base {
            match cols
                .iter()
                .position(|c| label_text(&col_axis.labels[*c]) == *base)
            {
                Some(at) => cols[..=at].rotate_right(1),
                None => has_base = false,
            }
        }
        let Request {
            alpha,
            confidence,
            compat,
            ..
        } = *self.request;
        let mut cells: Vec<Option<Cell>> = Vec::with_capacity(rows.len() * cols.len());
        for row in &rows {
            let first = cells.len();
            for col in &cols {
                let made = raw.get(&(*row, *col)).map(|raw| {
                    let sample = Sample::new(raw.observations.clone());
                    let summary = Summary::of(&sample, assumption, confidence, compat);
                    let base = if has_base {
                        cells.get(first).and_then(Option::as_ref)
                    } else {
                        None
                    };
                    let comparison = base.map(|base| {
                        let old = (&base.sample, &base.summary);
                        Comparison::of(old, (&sample, &summary), assumption, alpha, compat)
                    });
                    Cell {
                        sample,
                        summary,
                        comparison,
                        warnings: variation(raw, residue_axis),
                    }
                });
                cells.push(made);
            }
        }
        let mut table = Table {
            key,
            unit: unit.to_owned(),
            class: class_of(unit),
            better: self.corpus.units.better(unit),
            exact: assumption == Assumption::Exact,
            rows: rows.iter().map(|r| row_axis.labels[*r].clone()).collect(),
            cols: cols.iter().map(|c| col_axis.labels[*c].clone()).collect(),
            has_base,
            totals: Vec::new(),
            cells,
        };
        table.totals = (0..table.cols.len())
            .map(|col| total(&table, col))
            .collect();
        table
    }

    fn check_base(&self, tables: &[Table]) -> Result<(), Error> {
        let Some(base) = &self.request.base else {
            return Ok(());
        };
        if tables.is_empty() || tables.iter().any(|t| t.has_base) {
            return Ok(());
        }
        let labels: BTreeSet<String> = tables
            .iter()
            .flat_map(|t| t.cols.iter().map(|c| label_text(c)))
            .collect();
        let labels: Vec<String> = labels.into_iter().collect();
        Err(Error::option(format!(
            "--base: no column is called '{base}'; columns: {}",
            labels.join(" ")
        )))
    }

    /// Two spellings of one dimension in one row, such as `sec/op` beside `ms/op`, would silently go uncompared.
    fn check_units(
        &self,
        tables: &RawTables<'_>,
        units: &[&str],
        row_axis: &Axis,
    ) -> Result<(), Error> {
        let mut seen: HashMap<(usize, String), (usize, &Record)> = HashMap::new();
        for ((_, unit), cells) in tables {
            for ((row, _), cell) in cells {
                let record = cell.records[0];
                let (other, at) = *seen
                    .entry((*row, dimension(units[*unit])))
                    .or_insert_with(|| (*unit, record));
                if other != *unit {
                    let place =
                        |r: &Record| format!("{}:{}", self.corpus.sources[r.source].path, r.line);
                    let row = label_text(&row_axis.labels[*row]);
                    let detail = format!(
                        "{row} is given in {} ({}) and in {} ({}); select one with --filter .unit:{}",
                        units[other],
                        place(at),
                        units[*unit],
                        place(record),
                        units[other],
                    );
                    return Err(Error::MixedUnits { detail });
                }
            }
        }
        Ok(())
    }

    /// Machines must not meet in one table, revisions not in one column.
    fn check_mixture(
        &self,
        tables: &RawTables<'_>,
        table_axis: &Axis,
        col_axis: &Axis,
    ) -> Result<(), Error> {
        let differing = |records: &mut dyn Iterator<Item = &Record>, key: &str| {
            let mut first: Option<String> = None;
            for record in records {
                let Some(value) = record.config(key) else {
                    continue;
                };
                match &first {
                    None => first = Some(value.to_owned()),
                    Some(other) if other != value => {
                        return Some((other.clone(), value.to_owned()));
                    }
                    Some(_) => {}
                }
            }
            None
        };
        let mixed = |key: &str, values, place| {
            Err(Error::Mixed {
                key: key.to_owned(),
                values,
                place,
            })
        };
        for ((table, _), cells) in tables {
            for key in MACHINE_KEYS.iter().filter(|k| !self.plan.separates(k)) {
                let mut records = cells.values().flat_map(|c| c.records.iter().copied());
                if let Some(values) = differing(&mut records, key) {
                    let label = label_text(&table_axis.labels[*table]);
                    return mixed(
                        key,
                        values,
                        if label.is_empty() {
                            "one table".into()
                        } else {
                            format!("table {label}")
                        },
                    );
                }
            }
            let cols: BTreeSet<usize> = cells.keys().map(|k| k.1).collect();
            for key in REVISION_KEYS.iter().filter(|k| !self.plan.separates(k)) {
                for col in &cols {
                    let of_col = cells.iter().filter(|(k, _)| k.1 == *col);
                    let mut records = of_col.flat_map(|(_, c)| c.records.iter().copied());
                    if let Some(values) = differing(&mut records, key) {
                        return mixed(
                            key,
                            values,
                            format!("column {}", label_text(&col_axis.labels[*col])),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Several columns that nowhere meet are a mistake, and the reader wants to know why.
    fn check_common(&self, tables: &[Table], col_axis: &Axis) -> Result<(), Error> {
        let compared = tables.iter().any(|t| t.comparisons().next().is_some());
        if self.request.compat
            || col_axis.labels.len() < 2
            || compared
            || tables.iter().all(|t| !t.has_base)
        {
            return Ok(());
        }
        let values = |key: &str| {
            let mut values: Vec<&str> = Vec::new();
            for p in self.picked {
                let value = p.record.config(key).unwrap_or("");
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            values
        };
        let splits = self.plan.table.iter().any(|f| f.key == Key::Config);
        for key in self.config_keys.iter().filter(|_| splits) {
            let values = values(key);
            if values.len() < 2 {
                continue;
            }
            if MACHINE_KEYS.contains(&key.as_str()) {
                let values = (values[0].to_owned(), values[1].to_owned());
                return Err(Error::Mixed {
                    key: key.clone(),
                    values,
                    place: "one comparison".to_owned(),
                });
            }
            let why = format!(
                "the columns differ in {key} ('{}', '{}'); compare across it with --ignore {key}",
                values[0], values[1]
            );
            return Err(Error::NothingInCommon { why });
        }
        let (a, b) = (
            label_text(&col_axis.labels[0]),
            label_text(&col_axis.labels[1]),
        );
        let rows: BTreeSet<&Label> = tables.iter().flat_map(|t| &t.rows).collect();
        let together = |row: &Label| {
            let cols = tables.iter().flat_map(|t| {
                let at = t.rows.iter().position(|r| r == row);
                let cols = t.cols.iter().enumerate();
                cols.filter(move |(c, _)| at.is_some_and(|at| t.cell(at, *c).is_some()))
                    .map(|(_, label)| label)
            });
            cols.collect::<BTreeSet<_>>().len() > 1
        };
        let why = if rows.into_iter().any(together) {
            format!("columns '{a}' and '{b}' have rows in common but no unit")
        } else {
            format!(
                "columns '{a}' and '{b}' share no row; check the names, --row, --col and --filter"
            )
        };
        Err(Error::NothingInCommon { why })
    }
}

/// The footnote of a cell whose benchmarks differ in something that no projection shows.
fn variation(raw: &RawCell<'_>, residue: &Axis) -> Vec<String> {
    if raw.residues.len() < 2 {
        return Vec::new();
    }
    let varying = |at: usize| {
        raw.residues
            .iter()
            .map(|r| &residue.labels[*r][at])
            .collect::<BTreeSet<_>>()
            .len()
            > 1
    };
    let names: Vec<&str> = residue
        .flats
        .iter()
        .enumerate()
        .filter(|(at, _)| varying(*at))
        .map(|(_, f)| f.name.as_str())
        .collect();
    vec![format!("benchmarks vary in {}", names.join(", "))]
}

/// The bottom line of one column: the geometric mean of its centres over all its rows, and that of its ratios over
/// the rows that the baseline has too.
fn total(table: &Table, col: usize) -> Total {
    let mut total = Total::default();
    let (mut centers, mut ratios, mut has_ratio) = (Vec::new(), Vec::new(), true);
    let mut baselines = 0;
    for row in 0..table.rows.len() {
        let base = table.cell(row, 0);
        baselines += usize::from(base.is_some());
        let Some(cell) = table.cell(row, col) else {
            continue;
        };
        let center = cell.summary.center;
        centers.push(center);
        let (Some(base), Some(_)) = (base, &cell.comparison) else {
            continue;
        };
        let old = base.summary.center;
        ratios.push(if center == old {
            1.0
        } else if old == 0.0 {
            has_ratio = false;
            0.0
        } else {
            center / old
        });
    }
    let compared = col > 0 && table.has_base;
    if compared && ratios.len() != baselines {
        let text = "benchmark set differs from baseline; geomeans may not be comparable";
        total.warnings.push(text.to_owned());
    }
    total.geomean = geometric_mean(centers);
    if total.geomean.is_none() {
        total
            .warnings
            .push("summaries must be >0 to compute geomean".to_owned());
    }
    if compared && has_ratio {
        total.ratio = geometric_mean(ratios);
        if total.ratio.is_none() {
            total
                .warnings
                .push("ratios must be >0 to compute geomean".to_owned());
        }
    }
    total
}

/// Notes on what footnotes do not say: sizes that differ, samples too few, intervals too wide.
fn notes_on(tables: &[Table]) -> Vec<String> {
    let mut notes = Vec::new();
    let comparisons = || {
        tables
            .iter()
            .filter(|t| !t.exact)
            .flat_map(Table::comparisons)
    };
    let unequal = comparisons().filter(|(.., c)| c.old_n != c.new_n).count();
    if unequal > 0 {
        notes.push(format!(
            "{unequal} comparisons have samples of unequal size; equal sizes make the test sharpest"
        ));
    }
    let cells = || tables.iter().filter(|t| !t.exact).flat_map(Table::cells);
    let all: Vec<&Comparison> = comparisons().map(|(.., c)| c).collect();
    let differing = all.iter().filter(|c| c.is_significant()).count();
    if differing > 0 && all.len() > 1 {
        let adjusted = holm_adjusted(&all);
        let left = adjusted
            .iter()
            .zip(&all)
            .filter(|(p, c)| **p <= c.alpha)
            .count();
        let total = all.len();
        notes.push(format!(
            "{differing} of {total} comparisons differ; {left} still do after Holm's correction"
        ));
    }
    let few = cells()
        .filter(|(.., c)| c.sample.sorted().len() < 6)
        .count();
    if few > 0 {
        notes.push(format!(
            "{few} of {} cells have fewer than 6 samples: too few for an interval",
            cells().count()
        ));
    }
    notes
}
