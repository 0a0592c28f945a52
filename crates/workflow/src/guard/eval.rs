//! Evaluates the lowered tree against the facts, and counts what it costs.

use std::cmp::Ordering;
use std::rc::Rc;

use super::datum::{Datum, Fuel, Numeric, Outcome, Range, equal, order};
use super::failed::Failed;
use super::node::{Binary, Function, Literal, Loop, LoopKind, Node};
use super::operation::{apply, arithmetic, as_key, missing, negate, no_result, wrong, wrong_pair};
use super::{Facts, Root};

/// The value of an expression, which may borrow from both.
pub(super) fn evaluate<'a>(node: &'a Node, facts: &Facts<'a>) -> Outcome<'a> {
    let mut evaluation = Evaluation {
        facts: *facts,
        fuel: Fuel::full(),
        locals: Vec::new(),
    };
    evaluation.value(node)
}

struct Evaluation<'a> {
    facts: Facts<'a>,
    fuel: Fuel,
    /// The variables of the loops that are under way, the outermost first.
    locals: Vec<Datum<'a>>,
}

impl<'a> Evaluation<'a> {
    // It only hands on, so that a level of nesting takes little of the stack.
    fn value(&mut self, node: &'a Node) -> Outcome<'a> {
        self.fuel.spend(1)?;
        match node {
            Node::Literal(literal) => Ok(constant(literal)),
            Node::Root(root) => self.root(*root),
            Node::Local(slot) => Ok(self.locals.get(*slot).cloned().unwrap_or(Datum::Null)),
            Node::Select { of, keys } => self.select(of, keys),
            Node::Has { of, key } => self.has(of, key),
            Node::Index(sides) => self.index(sides),
            Node::Not(of) => Ok(Datum::Bool(!self.condition(of, "!")?)),
            Node::Negate(of) => negate(&self.value(of)?),
            Node::And(sides) => self.logic(sides, false, "&&"),
            Node::Or(sides) => self.logic(sides, true, "||"),
            Node::If(parts) => self.choose(parts),
            Node::Binary(operator, sides) => self.binary(*operator, sides),
            Node::List(items) => self.list(items),
            Node::Record(fields) => self.record(fields),
            Node::Call(function, arguments) => self.call(*function, arguments),
            Node::Matches { text, pattern } => {
                let text = self.value(text)?;
                self.matches(&text, pattern)
            }
            Node::Loop(each) => self.each(each),
        }
    }

    fn root(&self, root: Root) -> Outcome<'a> {
        Ok(match root {
            Root::Args => Datum::of(self.facts.args),
            Root::Result => match self.facts.result {
                Some(result) => Datum::of(result),
                None => return Err(missing(root.name())),
            },
            Root::Ctx => Datum::Object(self.facts.ctx),
            Root::Principal => Datum::of(self.facts.principal),
            Root::State => Datum::Text(self.facts.state),
            Root::Visits => Datum::Int(self.facts.visits.into()),
        })
    }

    fn select(&mut self, of: &'a Node, keys: &'a [Box<str>]) -> Outcome<'a> {
        let mut value = self.value(of)?;
        for (index, key) in keys.iter().enumerate() {
            value = match value.field(key) {
                Some(value) => value,
                None if value.is_map() => return Err(missing(&path(of, &keys[..=index]))),
                None => return Err(wrong(format!(".{key}"), value.kind())),
            };
        }
        Ok(value)
    }

    fn has(&mut self, of: &'a Node, key: &str) -> Outcome<'a> {
        let value = self.value(of)?;
        if !value.is_map() {
            return Err(wrong("has", value.kind()));
        }
        Ok(Datum::Bool(value.field(key).is_some()))
    }

    fn index(&mut self, sides: &'a [Node; 2]) -> Outcome<'a> {
        let [of, at] = sides;
        let of = self.value(of)?;
        let at = self.value(at)?;
        if of.is_map() {
            self.fuel.spend_text(at.text().map_or(0, str::len))?;
            let found = at.text().and_then(|key| of.field(key));
            return found.ok_or_else(|| match as_key(&at) {
                Some(key) => missing(&key),
                None => wrong("[]", format!("{} as a key", at.kind())),
            });
        }
        let both = || wrong("[]", format!("{} and {}", of.kind(), at.kind()));
        if !of.is_list() {
            return Err(both());
        }
        let index = at.numeric().and_then(Numeric::whole).ok_or_else(both)?;
        let item = usize::try_from(index).ok().and_then(|index| of.item(index));
        item.ok_or_else(|| {
            let index = index.to_string();
            Box::new(Failed::MissingItem { index })
        })
    }

    fn condition(&mut self, node: &'a Node, operation: &str) -> Result<bool, Box<Failed>> {
        let value = self.value(node)?;
        let Datum::Bool(verdict) = value else {
            return Err(wrong(operation, value.kind()));
        };
        Ok(verdict)
    }

    /// `&&` and `||`: one side can settle it, whatever the other one is, even an error.
    fn logic(&mut self, sides: &'a [Node; 2], settles: bool, operation: &str) -> Outcome<'a> {
        let left = self.condition(&sides[0], operation);
        match &left {
            Ok(verdict) if *verdict == settles => return Ok(Datum::Bool(settles)),
            Err(failed) if failed.is_limit() => return Err(failed.clone()),
            Ok(_) | Err(_) => {}
        }
        match self.condition(&sides[1], operation) {
            Ok(verdict) if verdict == settles => Ok(Datum::Bool(settles)),
            Err(failed) if failed.is_limit() => Err(failed),
            right => left.and(right).map(Datum::Bool),
        }
    }

    fn choose(&mut self, parts: &'a [Node; 3]) -> Outcome<'a> {
        let [condition, then, otherwise] = parts;
        if self.condition(condition, "?:")? {
            self.value(then)
        } else {
            self.value(otherwise)
        }
    }

    fn binary(&mut self, operator: Binary, sides: &'a [Node; 2]) -> Outcome<'a> {
        let left = self.value(&sides[0])?;
        let right = self.value(&sides[1])?;
        match operator {
            Binary::Equal => equal(&left, &right, &mut self.fuel, 0).map(Datum::Bool),
            Binary::Unequal => {
                equal(&left, &right, &mut self.fuel, 0).map(|same| Datum::Bool(!same))
            }
            Binary::Less => self.compare(operator, &left, &right, Ordering::is_lt),
            Binary::LessOrEqual => self.compare(operator, &left, &right, Ordering::is_le),
            Binary::Greater => self.compare(operator, &left, &right, Ordering::is_gt),
            Binary::GreaterOrEqual => self.compare(operator, &left, &right, Ordering::is_ge),
            Binary::In => self.contained(&left, &right),
            Binary::Add => self.add(left, right),
            Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo => {
                arithmetic(operator, &left, &right)
            }
        }
    }

    fn compare(
        &mut self,
        operator: Binary,
        left: &Datum<'a>,
        right: &Datum<'a>,
        holds: fn(Ordering) -> bool,
    ) -> Outcome<'a> {
        self.fuel.spend_text(left.text().map_or(0, str::len))?;
        match order(left, right) {
            Some(ordering) => Ok(Datum::Bool(holds(ordering))),
            None if left.numeric().and(right.numeric()).is_some() => Err(no_result(operator)),
            None => Err(wrong_pair(operator, left, right)),
        }
    }

    fn contained(&mut self, left: &Datum<'a>, right: &Datum<'a>) -> Outcome<'a> {
        if right.is_map() {
            self.fuel.spend_text(left.text().map_or(0, str::len))?;
            let found = left.text().map(|key| right.field(key).is_some());
            return match found.or_else(|| as_key(left).map(|_| false)) {
                Some(found) => Ok(Datum::Bool(found)),
                None => Err(wrong_pair(Binary::In, left, right)),
            };
        }
        if !right.is_list() {
            return Err(wrong_pair(Binary::In, left, right));
        }
        for index in 0..right.len().unwrap_or_default() {
            if let Some(item) = right.item(index)
                && equal(&item, left, &mut self.fuel, 0)?
            {
                return Ok(Datum::Bool(true));
            }
        }
        Ok(Datum::Bool(false))
    }

    fn add(&mut self, left: Datum<'a>, right: Datum<'a>) -> Outcome<'a> {
        if let (Some(start), Some(end)) = (left.text(), right.text()) {
            self.fuel.spend_text(start.len() + end.len())?;
            return Ok(Datum::built([start, end].concat()));
        }
        if !(left.is_list() && right.is_list()) {
            return arithmetic(Binary::Add, &left, &right);
        }
        let length = left.len().unwrap_or_default() + right.len().unwrap_or_default();
        self.fuel.spend(length)?;
        let mut items = Vec::with_capacity(length);
        for list in [left, right] {
            if let Ok(range) = list.range() {
                items.extend(range);
            }
        }
        Ok(Datum::List(Rc::new(items)))
    }

    fn list(&mut self, items: &'a [Node]) -> Outcome<'a> {
        let items: Result<Vec<_>, _> = items.iter().map(|item| self.value(item)).collect();
        Ok(Datum::List(Rc::new(items?)))
    }

    fn record(&mut self, fields: &'a [(Box<str>, Node)]) -> Outcome<'a> {
        let mut record = Vec::with_capacity(fields.len());
        for (key, value) in fields {
            record.push((&**key, self.value(value)?));
        }
        Ok(Datum::Record(Rc::new(record)))
    }

    fn matches(&mut self, text: &Datum<'a>, pattern: &regex::Regex) -> Outcome<'a> {
        let Some(text) = text.text() else {
            return Err(wrong("matches", text.kind()));
        };
        self.fuel.spend(text.len())?;
        Ok(Datum::Bool(pattern.is_match(text)))
    }

    fn call(&mut self, function: Function, arguments: &'a [Node]) -> Outcome<'a> {
        let [subject, rest @ ..] = arguments else {
            return Err(wrong(function.name(), "nothing"));
        };
        let subject = self.value(subject)?;
        self.fuel.spend_text(subject.text().map_or(0, str::len))?;
        let Some(part) = rest.first() else {
            return apply(function, subject);
        };
        let part = self.value(part)?;
        self.fuel.spend_text(part.text().map_or(0, str::len))?;
        let (Some(text), Some(part)) = (subject.text(), part.text()) else {
            let found = format!("{} and {}", subject.kind(), part.kind());
            return Err(wrong(function.name(), found));
        };
        let holds = match function {
            Function::Contains => text.contains(part),
            Function::StartsWith => text.starts_with(part),
            Function::EndsWith => text.ends_with(part),
            Function::Size
            | Function::Matches
            | Function::LowerAscii
            | Function::UpperAscii
            | Function::Trim
            | Function::Bool
            | Function::Int
            | Function::Uint
            | Function::Double
            | Function::String => return Err(wrong(function.name(), "two values")),
        };
        Ok(Datum::Bool(holds))
    }

    fn each(&mut self, each: &'a Loop) -> Outcome<'a> {
        let range = self.value(&each.range)?.range();
        let range = range.map_err(|other| wrong(each.kind.to_string(), other.kind()))?;
        let slot = self.locals.len();
        self.locals.push(Datum::Null);
        let outcome = match each.kind {
            LoopKind::All => self.settle(range, each, slot, false),
            LoopKind::Exists => self.settle(range, each, slot, true),
            LoopKind::ExistsOne => self.exactly_one(range, each, slot),
            LoopKind::Collect => self.collect(range, each, slot),
        };
        self.locals.truncate(slot);
        outcome
    }

    fn enter(&mut self, item: Datum<'a>, slot: usize) -> Result<(), Box<Failed>> {
        self.fuel.spend(1)?;
        if let Some(local) = self.locals.get_mut(slot) {
            *local = item;
        }
        Ok(())
    }

    /// `all` and `exists`: one item can settle it, whatever the others are, even errors.
    fn settle(
        &mut self,
        range: Range<'a>,
        each: &'a Loop,
        slot: usize,
        settles: bool,
    ) -> Outcome<'a> {
        let mut first = None;
        for item in range {
            self.enter(item, slot)?;
            match self.condition(&each.body, if settles { "exists" } else { "all" }) {
                Ok(verdict) if verdict == settles => return Ok(Datum::Bool(settles)),
                Ok(_) => {}
                Err(failed) if failed.is_limit() => return Err(failed),
                Err(failed) => first = first.or(Some(failed)),
            }
        }
        first.map_or(Ok(Datum::Bool(!settles)), Err)
    }

    fn exactly_one(&mut self, range: Range<'a>, each: &'a Loop, slot: usize) -> Outcome<'a> {
        let mut found = 0_usize;
        for item in range {
            self.enter(item, slot)?;
            if self.condition(&each.body, "exists_one")? {
                found += 1;
            }
        }
        Ok(Datum::Bool(found == 1))
    }

    fn collect(&mut self, range: Range<'a>, each: &'a Loop, slot: usize) -> Outcome<'a> {
        let mut items = Vec::new();
        for item in range {
            self.enter(item, slot)?;
            let wanted = match &each.filter {
                Some(filter) => self.condition(filter, "filter")?,
                None => true,
            };
            if wanted {
                items.push(self.value(&each.body)?);
            }
        }
        Ok(Datum::List(Rc::new(items)))
    }
}

fn constant(literal: &Literal) -> Datum<'_> {
    match literal {
        Literal::Null => Datum::Null,
        Literal::Bool(value) => Datum::Bool(*value),
        Literal::Int(value) => Datum::Int(*value),
        Literal::Uint(value) => Datum::Uint(*value),
        Literal::Double(value) => Datum::Double(*value),
        Literal::Text(text) => Datum::Text(text),
    }
}

fn path(of: &Node, keys: &[Box<str>]) -> String {
    let keys = keys.join(".");
    if let Node::Root(root) = of {
        return format!("{}.{keys}", root.name());
    }
    keys
}
