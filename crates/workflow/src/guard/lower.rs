//! Checks the names, functions and keys of a parsed expression and lowers it to our own tree.

use std::collections::BTreeSet;
use std::ops::Range;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue,
    SelectExpr, operators,
};
use regex::{Regex, RegexBuilder};

use super::flaw::{Fault, Flaw};
use super::node::{Function, Literal, Loop, Node, Signature};
use super::parse::Parsed;
use super::shape::{binary, is_key, key_literal, selection, shape, text};
use super::{DEEPEST, Root};
use crate::nearest::Nearest;

/// The most memory that a pattern can take, in bytes.
const LARGEST_PATTERN: usize = 1 << 18;

/// How deep a pattern can nest.
const DEEPEST_PATTERN: u32 = 32;

/// An expression without flaws.
pub(super) struct Lowered {
    pub(super) node: Node,
    pub(super) mentions: Vec<Root>,
    pub(super) keys: Vec<NamedKey>,
}

/// A key right below a root.
pub(super) struct NamedKey {
    pub(super) root: Root,
    pub(super) name: Box<str>,
    pub(super) at: Option<Range<usize>>,
}

/// Lowers an expression, or tells all of its flaws.
pub(super) fn lower(parsed: &Parsed<'_>, allowed: &[Root]) -> Result<Lowered, Vec<Flaw>> {
    let mut lowering = Lowering {
        parsed,
        allowed,
        variables: Vec::new(),
        flaws: Vec::new(),
        mentions: Vec::new(),
        keys: Vec::new(),
        nearest: Nearest::new(),
    };
    let node = lowering.lower(&parsed.expression, 0);
    if lowering.flaws.is_empty() {
        lowering
            .keys
            .sort_by_key(|key| key.at.as_ref().map(|at| at.start));
        return Ok(Lowered {
            node,
            mentions: lowering.mentions,
            keys: lowering.keys,
        });
    }
    lowering
        .flaws
        .sort_by_key(|flaw| flaw.at.as_ref().map(|at| at.start));
    Err(lowering.flaws)
}

struct Lowering<'p> {
    parsed: &'p Parsed<'p>,
    allowed: &'p [Root],
    /// The variables of the loops around this place, the outermost first.
    variables: Vec<&'p str>,
    flaws: Vec<Flaw>,
    mentions: Vec<Root>,
    keys: Vec<NamedKey>,
    nearest: Nearest,
}

/// Stands in for what is flawed; it is never evaluated.
const NOTHING: Node = Node::Literal(Literal::Null);

impl<'p> Lowering<'p> {
    fn flaw(&mut self, fault: Fault, at: Option<Range<usize>>) -> Node {
        self.flaws.push(Flaw::new(fault, at));
        NOTHING
    }

    fn lower(&mut self, expression: &'p IdedExpr, depth: usize) -> Node {
        if depth > DEEPEST {
            if self.flaws.iter().all(|flaw| flaw.fault != Fault::TooDeep) {
                self.flaw(Fault::TooDeep, self.parsed.token(expression.id));
            }
            return NOTHING;
        }
        let id = expression.id;
        match &expression.expr {
            Expr::Literal(literal) => self.literal(id, literal),
            Expr::Ident(name) => self.name(id, name),
            Expr::Select(select) if select.test => self.has(select, depth),
            Expr::Select(_) => self.chain(expression, depth),
            Expr::Call(call) if is_key(call) => self.chain(expression, depth),
            Expr::Call(call) => self.call(id, call, depth),
            Expr::List(list) => self.list(id, list, depth),
            Expr::Map(map) => self.record(&map.entries, depth),
            Expr::Comprehension(each) => self.each(id, each, depth),
            Expr::Struct(_) => {
                let what = "a message";
                self.flaw(Fault::Unsupported { what }, self.parsed.token(id))
            }
            Expr::Unspecified => {
                let what = "an empty part";
                self.flaw(Fault::Unsupported { what }, self.parsed.token(id))
            }
        }
    }

    fn boxed(&mut self, expression: &'p IdedExpr, depth: usize) -> Box<Node> {
        Box::new(self.lower(expression, depth + 1))
    }

    fn pair(&mut self, left: &'p IdedExpr, right: &'p IdedExpr, depth: usize) -> Box<[Node; 2]> {
        let left = self.lower(left, depth + 1);
        Box::new([left, self.lower(right, depth + 1)])
    }

    fn literal(&mut self, id: u64, literal: &LiteralValue) -> Node {
        Node::Literal(match literal {
            LiteralValue::Null => Literal::Null,
            LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
            LiteralValue::Int(value) => Literal::Int(*value.inner()),
            LiteralValue::UInt(value) => Literal::Uint(*value.inner()),
            LiteralValue::Double(value) => Literal::Double(*value.inner()),
            LiteralValue::String(value) => Literal::Text(value.inner().into()),
            LiteralValue::Bytes(_) => {
                let what = "a byte string";
                return self.flaw(Fault::Unsupported { what }, self.parsed.token(id));
            }
        })
    }

    fn name(&mut self, id: u64, name: &str) -> Node {
        if let Some(slot) = self.variables.iter().rposition(|known| *known == name) {
            return Node::Local(slot);
        }
        let at = self.parsed.token(id);
        let Some(root) = Root::named(name) else {
            let allowed = self.allowed.to_vec();
            let known = allowed.iter().map(|root| root.name());
            let known = known
                .chain(self.variables.iter().copied())
                .chain(["true", "false", "null"]);
            let nearest = self.nearest.find(name, known);
            let name = name.to_owned();
            return self.flaw(
                Fault::UnknownName {
                    name,
                    nearest,
                    allowed,
                },
                at,
            );
        };
        if !self.mentions.contains(&root) {
            self.mentions.push(root);
        }
        if self.allowed.contains(&root) {
            return Node::Root(root);
        }
        let allowed = self.allowed.to_vec();
        self.flaw(Fault::NotAllowedHere { root, allowed }, at)
    }

    fn has(&mut self, select: &'p SelectExpr, depth: usize) -> Node {
        let parsed = self.parsed;
        let (operand, field) = (&*select.operand, select.field.as_str());
        self.note_key(operand, field, || parsed.after(operand.id, ".", field));
        let of = self.boxed(&select.operand, depth);
        let key = select.field.as_str().into();
        Node::Has { of, key }
    }

    /// `args.order.id` and `args["order"]["id"]`, as one node.
    fn chain(&mut self, expression: &'p IdedExpr, depth: usize) -> Node {
        let mut keys: Vec<Box<str>> = Vec::new();
        let mut of = expression;
        while let Some((operand, key)) = selection(of) {
            let parsed = self.parsed;
            let literal = key_literal(of);
            self.note_key(operand, key, || match literal {
                Some(literal) => parsed.text(literal, key),
                None => parsed.after(operand.id, ".", key),
            });
            keys.push(key.into());
            of = operand;
        }
        keys.reverse();
        let of = self.boxed(of, depth);
        let keys = keys.into();
        Node::Select { of, keys }
    }

    /// Remembers a key that stands right below a root.
    fn note_key(
        &mut self,
        operand: &IdedExpr,
        key: &str,
        at: impl FnOnce() -> Option<Range<usize>>,
    ) {
        let Expr::Ident(name) = &operand.expr else {
            return;
        };
        if self.variables.contains(&name.as_str()) {
            return;
        }
        if let Some(root) = Root::named(name) {
            let name = key.into();
            let at = at();
            self.keys.push(NamedKey { root, name, at });
        }
    }

    fn list(&mut self, id: u64, list: &'p ListExpr, depth: usize) -> Node {
        if !list.optional_indices.is_empty() {
            let what = "an optional item";
            return self.flaw(Fault::Unsupported { what }, self.parsed.token(id));
        }
        let items = list.elements.iter();
        Node::List(items.map(|item| self.lower(item, depth + 1)).collect())
    }

    fn record(&mut self, entries: &'p [IdedEntryExpr], depth: usize) -> Node {
        let mut seen = BTreeSet::new();
        let mut fields = Vec::with_capacity(entries.len());
        for entry in entries {
            let EntryExpr::MapEntry(field) = &entry.expr else {
                let what = "a message";
                return self.flaw(Fault::Unsupported { what }, self.parsed.token(entry.id));
            };
            let value = self.lower(&field.value, depth + 1);
            let at = self.parsed.token(field.key.id);
            let Some(key) = text(&field.key) else {
                self.flaw(Fault::KeyNotText, at);
                continue;
            };
            if !seen.insert(key) {
                let key = key.to_owned();
                self.flaw(Fault::RepeatedKey { key }, at);
            }
            fields.push((key.into(), value));
        }
        Node::Record(fields.into())
    }

    fn call(&mut self, id: u64, call: &'p CallExpr, depth: usize) -> Node {
        if let (None, Some(node)) = (&call.target, self.operator(call, depth)) {
            return node;
        }
        let name = call.func_name.as_str();
        let at = self.parsed.called(id, name);
        let known = Function::ALL
            .into_iter()
            .find(|function| function.name() == name);
        let Some(function) = known else {
            return self.no_function(name, call, at, depth);
        };
        if !self.fits(&function.signature(), call, at) {
            self.arguments(call, depth);
            return NOTHING;
        }
        if function == Function::Matches {
            return self.matches(call, depth);
        }
        Node::Call(function, self.arguments(call, depth).into())
    }

    fn operator(&mut self, call: &'p CallExpr, depth: usize) -> Option<Node> {
        let name = call.func_name.as_str();
        Some(match call.args.as_slice() {
            [one] => match name {
                operators::LOGICAL_NOT => Node::Not(self.boxed(one, depth)),
                operators::NEGATE => Node::Negate(self.boxed(one, depth)),
                _ => return None,
            },
            [left, right] => match name {
                operators::LOGICAL_AND => Node::And(self.pair(left, right, depth)),
                operators::LOGICAL_OR => Node::Or(self.pair(left, right, depth)),
                operators::INDEX => Node::Index(self.pair(left, right, depth)),
                _ => Node::Binary(binary(name)?, self.pair(left, right, depth)),
            },
            [condition, then, otherwise] if name == operators::CONDITIONAL => {
                let condition = self.lower(condition, depth + 1);
                let [then, otherwise] = *self.pair(then, otherwise, depth);
                Node::If(Box::new([condition, then, otherwise]))
            }
            _ => return None,
        })
    }

    /// The value that a method is called on, and the arguments.
    fn arguments(&mut self, call: &'p CallExpr, depth: usize) -> Vec<Node> {
        let target = call.target.as_deref().into_iter();
        let all = target.chain(&call.args);
        all.map(|argument| self.lower(argument, depth + 1))
            .collect()
    }

    fn no_function(
        &mut self,
        name: &str,
        call: &'p CallExpr,
        at: Option<Range<usize>>,
        depth: usize,
    ) -> Node {
        if let Some(known) = Signature::MACROS.iter().find(|known| known.name == name) {
            // Its arguments are not looked at: the names in them are the macro's own.
            self.fits(known, call, at);
            return NOTHING;
        }
        let functions = Function::ALL.into_iter().map(Function::name);
        let macros = Signature::MACROS.iter().map(|known| known.name);
        let nearest = self.nearest.find(name, functions.chain(macros));
        let name = name.to_owned();
        self.flaw(Fault::UnknownFunction { name, nearest }, at);
        self.arguments(call, depth);
        NOTHING
    }

    /// Whether a function is called as a method where it is one, with as many arguments as it takes.
    fn fits(&mut self, known: &Signature, call: &CallExpr, at: Option<Range<usize>>) -> bool {
        let counts = if call.target.is_some() {
            known.method
        } else {
            known.function
        };
        let found = call.args.len();
        if counts.contains(&found) {
            return true;
        }
        let function = known.name;
        let usage = known.usage;
        let wanted = match counts {
            [] => {
                self.flaw(Fault::WrongForm { function, usage }, at);
                return false;
            }
            [0] => "no arguments",
            [1] => "one argument",
            [2] => "two arguments",
            _ => "two or three arguments",
        };
        let fault = Fault::WrongArity {
            function,
            wanted,
            found,
            usage,
        };
        self.flaw(fault, at);
        false
    }

    fn matches(&mut self, call: &'p CallExpr, depth: usize) -> Node {
        let target = call.target.as_deref().into_iter();
        let all: Vec<&'p IdedExpr> = target.chain(&call.args).collect();
        let [subject, pattern] = all.as_slice() else {
            return NOTHING;
        };
        let subject = self.boxed(subject, depth);
        let at = self.parsed.token(pattern.id);
        let Some(pattern) = text(pattern) else {
            return self.flaw(Fault::PatternNotLiteral, at);
        };
        match compile_pattern(pattern) {
            Ok(pattern) => Node::Matches {
                text: subject,
                pattern: Box::new(pattern),
            },
            Err(message) => self.flaw(Fault::BadPattern { message }, at),
        }
    }

    fn each(&mut self, id: u64, each: &'p ComprehensionExpr, depth: usize) -> Node {
        let range = self.lower(&each.iter_range, depth + 1);
        let Some((kind, filter, body)) = shape(each) else {
            let what = "this macro";
            return self.flaw(Fault::Unsupported { what }, self.parsed.token(id));
        };
        let variable = each.iter_var.as_str();
        let at = self.parsed.after(id, "", variable);
        if Root::named(variable).is_some() {
            let name = variable.to_owned();
            self.flaw(Fault::Shadowed { name }, at);
        } else if variable.starts_with('.') {
            let message = "a loop's variable is a plain name".to_owned();
            self.flaw(
                Fault::Syntax {
                    message,
                    hint: None,
                },
                at,
            );
        }
        self.variables.push(variable);
        let filter = filter.map(|filter| self.lower(filter, depth + 1));
        let body = self.lower(body, depth + 1);
        self.variables.pop();
        Node::Loop(Box::new(Loop {
            kind,
            range,
            filter,
            body,
        }))
    }
}

fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(LARGEST_PATTERN)
        .dfa_size_limit(LARGEST_PATTERN)
        .nest_limit(DEEPEST_PATTERN)
        .build()
        .map_err(|error| {
            if let regex::Error::CompiledTooBig(_) = error {
                return "it is too large".to_owned();
            }
            last_line(&error.to_string())
        })
}

/// The line that says what is wrong; the ones before it draw the pattern.
fn last_line(message: &str) -> String {
    let line = message.lines().last().unwrap_or_default().trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
